//! Answers and refusals, in GitHub's words.

use serde_json::{Value, json};

use crate::shapes::iso;

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Option<Value>,
    /// Sent instead of `body`: files, logs.
    pub raw: Option<Vec<u8>>,
}

impl Reply {
    pub fn json(status: u16, body: Value) -> Reply {
        Reply { status, headers: Vec::new(), body: Some(body), raw: None }
    }

    pub fn ok(body: Value) -> Reply {
        Reply::json(200, body)
    }

    pub fn created(body: Value) -> Reply {
        Reply::json(201, body)
    }

    pub fn empty(status: u16) -> Reply {
        Reply { status, headers: Vec::new(), body: None, raw: None }
    }

    pub fn raw(content_type: &str, bytes: Vec<u8>) -> Reply {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        Reply { status: 200, headers, body: None, raw: Some(bytes) }
    }

    pub fn redirect(location: String) -> Reply {
        Reply { status: 302, headers: vec![("location".to_owned(), location)], body: None, raw: None }
    }
}

/// Why a call did nothing.
#[derive(Debug)]
pub struct Refusal {
    status: u16,
    message: String,
    errors: Option<Value>,
    headers: Vec<(String, String)>,
}

impl Refusal {
    pub fn new(status: u16, message: &str) -> Refusal {
        Refusal { status, message: message.to_owned(), errors: None, headers: Vec::new() }
    }

    pub fn not_found() -> Refusal {
        Refusal::new(404, "Not Found")
    }

    pub fn bad_credentials() -> Refusal {
        Refusal::new(401, "Bad credentials")
    }

    pub fn requires_authentication() -> Refusal {
        Refusal::new(401, "Requires authentication")
    }

    /// The installation's or job's permissions do not cover the call.
    pub fn not_accessible() -> Refusal {
        Refusal::new(403, "Resource not accessible by integration")
    }

    pub fn validation(resource: &str, field: &str, code: &str) -> Refusal {
        let errors = json!([{"resource": resource, "field": field, "code": code}]);
        Refusal { errors: Some(errors), ..Refusal::new(422, "Validation Failed") }
    }

    /// A validation failure in words.
    pub fn invalid(resource: &str, field: &str, message: &str) -> Refusal {
        let errors = json!([{"resource": resource, "field": field, "code": "custom", "message": message}]);
        Refusal { errors: Some(errors), ..Refusal::new(422, &format!("Validation Failed: {message}")) }
    }

    pub fn rate_limited(now_ms: i64) -> Refusal {
        let reset = now_ms.div_euclid(1000) + 60;
        let mut refusal = Refusal::new(403, &format!("API rate limit exceeded; it resets at {}", iso(reset * 1000)));
        refusal.headers = vec![
            ("x-ratelimit-remaining".to_owned(), "0".to_owned()),
            ("x-ratelimit-used".to_owned(), "5000".to_owned()),
            ("x-ratelimit-reset".to_owned(), reset.to_string()),
        ];
        refusal
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Reply {
        let mut body = json!({
            "message": refusal.message,
            "documentation_url": "https://docs.github.com/rest",
            "status": refusal.status.to_string(),
        });
        if let Some(errors) = refusal.errors {
            body["errors"] = errors;
        }
        Reply { headers: refusal.headers, ..Reply::json(refusal.status, body) }
    }
}
