//! Every answer that is not 2xx: one type, stable codes (spec 20 §3).

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::api::ErrorBody;
use crate::causes::chain;
use crate::github::api::GitHubError;
use crate::orchestrator::Error;
use crate::orchestrator::runner_calls::CallError;
use crate::run::report::Refused;

/// Most characters of a message or a reason: it may quote what the caller sent.
const MESSAGE_CHARS_MAX: usize = 1000;

#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    body: ErrorBody,
}

impl ApiError {
    fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, body: ErrorBody { code: code.to_owned(), message: shortened(message.into()), details: None } }
    }

    fn with(mut self, details: Value) -> Self {
        self.body.details = Some(details);
        self
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    pub fn invalid_field(field: &str, reason: &str) -> Self {
        let details = json!({ "field": shortened(field.to_owned()), "reason": shortened(reason.to_owned()) });
        Self::invalid(format!("{field}: {reason}")).with(details)
    }

    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    pub fn method_not_allowed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "invalid", message)
    }

    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid", message)
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    /// The log has the chain under this id; the caller sees the id.
    pub fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        let id = uuid::Uuid::new_v4();
        tracing::error!(%id, error = chain(error), "request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", format!("internal error {id}"))
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Forbidden(message) => Self::forbidden(message),
            Refused::NotFound(message) => Self::not_found(message),
            Refused::Invalid { field, reason } => Self::invalid_field(field, &reason),
            Refused::Conflict(message) => Self::conflict(message),
            Refused::Superseded(message) => Self::new(StatusCode::CONFLICT, "superseded", message),
            Refused::Locked(message) => {
                Self::new(StatusCode::LOCKED, "locked", message).with(json!({ "conflicts": [] }))
            }
        }
    }
}

impl From<CallError> for ApiError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(refused) => refused.into(),
            CallError::Gate(refusals) => {
                let reasons: Vec<String> = refusals
                    .iter()
                    .map(|refusal| format!("layer {}, {}: {}", refusal.layer, refusal.name, refusal.reason))
                    .collect();
                Self::new(StatusCode::CONFLICT, "refused", reasons.join("; ")).with(json!({ "failures": refusals }))
            }
            CallError::Locked { message, conflicts } => {
                Self::new(StatusCode::LOCKED, "locked", message).with(json!({ "conflicts": conflicts }))
            }
            CallError::Failed(Error::GitHub(
                GitHubError::Temporary { what, .. } | GitHubError::Deferred { what, .. },
            )) => Self::unavailable(format!("GitHub cannot be asked for {what}")),
            CallError::Failed(Error::GitHub(GitHubError::NotFound { what })) => {
                Self::not_found(format!("GitHub has no {what}"))
            }
            CallError::Failed(Error::Store(error @ crate::store::StoreError::Db(_))) => {
                tracing::error!(error = chain(&error), "database");
                Self::unavailable("the database cannot be used")
            }
            CallError::Failed(error) => Self::internal(&error),
        }
    }
}

impl From<crate::store::StoreError> for ApiError {
    fn from(error: crate::store::StoreError) -> Self {
        CallError::from(error).into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.log();
        let mut response = (self.status, Json(self.body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"stackorder\""));
        }
        response
    }
}

impl ApiError {
    /// One line for each refusal, under the request's name. A reason why a field is wrong may quote a secret: of those only the
    /// field is named.
    fn log(&self) {
        let status = self.status.as_u16();
        let ErrorBody { code, message, details } = &self.body;
        let field = details.as_ref().and_then(|details| details["field"].as_str());
        match (status, field) {
            // Whoever made it has written down the cause.
            (500, _) => {}
            (501.., _) => tracing::warn!(status, code, message, "request not served"),
            (_, Some(field)) => tracing::info!(status, code, field, "request refused"),
            (_, None) => tracing::info!(status, code, message, "request refused"),
        }
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A panic of a handler: the log has it, the caller gets a generic 500.
pub fn panicked(panic: Box<dyn std::any::Any + Send + 'static>) -> Response {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown panic");
    tracing::error!(panic = text, "a handler panicked");
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "internal error").into_response()
}
