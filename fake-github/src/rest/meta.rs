//! What the API says about itself: root, versions, rate limit.

use serde_json::json;

use super::Answer;
use super::call::{API_VERSIONS, Call};
use super::reply::Reply;

pub fn route(call: &Call) -> Option<Answer> {
    let (method, parts) = call.parts();
    Some(Ok(match (method, parts.as_slice()) {
        ("GET", ["rate_limit"]) => {
            let reset = call.hub.now_ms().div_euclid(3_600_000) * 3600 + 3600;
            let limit = json!({"limit": 5000, "used": 1, "remaining": 4999, "reset": reset});
            Reply::ok(json!({"resources": {"core": limit, "search": limit, "graphql": limit}, "rate": limit}))
        }
        ("GET", ["versions"]) => Reply::ok(json!(API_VERSIONS)),
        ("GET", ["meta"]) => Reply::ok(json!({"verifiable_password_authentication": false, "hooks": ["127.0.0.1/32"]})),
        ("GET", ["zen"]) => Reply::raw("text/plain", b"Anything added dilutes everything else.".to_vec()),
        _ => return None,
    }))
}
