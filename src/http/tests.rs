//! What stands around every route: names of requests, headers, panics.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use axum::routing::get;
use tower::ServiceExt;
use tower_http::catch_panic::CatchPanicLayer;

use super::{around, errors};

fn panicking(base_url: &str) -> Router {
    async fn fails() -> &'static str {
        panic!("the secret of the vault is 4711")
    }
    let routes = Router::new()
        .route("/fine", get(async || "fine"))
        .route("/broken", get(fails))
        .layer(CatchPanicLayer::custom(errors::panicked));
    around(routes, base_url)
}

async fn asked(router: Router, method: Method, path: &str, id: Option<&str>) -> (StatusCode, HeaderMap, String) {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(id) = id {
        request = request.header("x-request-id", id);
    }
    let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn every_answer_carries_the_name_of_its_request() {
    for path in ["/fine", "/broken", "/nowhere"] {
        let (_, headers, _) = asked(panicking("http://x"), Method::GET, path, Some("run-4711/7")).await;
        assert_eq!(headers["x-request-id"], "run-4711/7", "{path}");
        for unfit in [None, Some(""), Some("two words")] {
            let (_, headers, _) = asked(panicking("http://x"), Method::GET, path, unfit).await;
            assert!(uuid::Uuid::parse_str(headers["x-request-id"].to_str().unwrap()).is_ok(), "{path}: {headers:?}");
        }
    }
}

#[tokio::test]
async fn a_panic_is_answered_in_general_words() {
    let (status, headers, body) = asked(panicking("http://x"), Method::GET, "/broken", None).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(body, r#"{"code":"internal","message":"internal error"}"#);
}

#[tokio::test]
async fn browsers_stay_on_https_once_the_server_has_it() {
    for (base_url, strict) in [("https://stackorder.example.com", true), ("http://localhost:8080", false)] {
        let (_, headers, _) = asked(panicking(base_url), Method::GET, "/fine", None).await;
        assert_eq!(headers.contains_key("strict-transport-security"), strict, "{base_url}");
    }
}
