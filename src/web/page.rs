//! Answering with a page, and every answer that is not the page that was asked for.

use askama::Template;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::causes::chain;
use crate::ids::hex;
use crate::store::StoreError;

/// What stands around each page's own content.
#[derive(Debug, Default)]
pub struct Shell {
    pub title: String,
    pub section: Section,
    /// How often the script looks for a newer version; `None` when nothing moves any more.
    pub refresh_ms: Option<u32>,
}

/// The entry of the navigation that a page belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Section {
    Overview,
    Runs,
    Audit,
    #[default]
    Other,
}

impl Shell {
    pub fn new(title: impl Into<String>, section: Section) -> Self {
        Self { title: title.into(), section, refresh_ms: None }
    }

    pub fn refreshed(self, every_ms: u32) -> Self {
        Self { refresh_ms: Some(every_ms), ..self }
    }
}

/// Why a page cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error("{0}")]
    NotFound(&'static str),
    #[error("{field}: {reason}")]
    Invalid { field: &'static str, reason: String },
    #[error("the store failed")]
    Store(#[from] StoreError),
    #[error("the page cannot be written")]
    Render(#[from] askama::Error),
}

#[derive(Template)]
#[template(config = "src/web/askama.toml", path = "message.html")]
struct Message<'m> {
    shell: Shell,
    text: &'m str,
    /// A setting the text is about.
    setting: &'m str,
}

/// The page, or 304 when the caller shows it already.
pub fn show(asked: &HeaderMap, page: &impl Template) -> Result<Response, PageError> {
    let html = page.render()?;
    let tag = format!("\"{}\"", &hex(&Sha256::digest(html.as_bytes()))[..32]);
    let known = asked.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let tag = HeaderValue::from_str(&tag).expect("hex digits in quotes");
    if known {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    Ok((StatusCode::OK, [(header::ETAG, tag), (header::CONTENT_TYPE, HTML)], html).into_response())
}

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

fn message(status: StatusCode, title: &str, text: &str, setting: &str) -> Response {
    let page = Message { shell: Shell::new(title, Section::Other), text, setting };
    match page.render() {
        Ok(html) => (status, [(header::CONTENT_TYPE, HTML)], html).into_response(),
        Err(error) => {
            tracing::error!(error = chain(&error), "a message page cannot be written");
            status.into_response()
        }
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        match &self {
            PageError::NotFound(text) => message(StatusCode::NOT_FOUND, "Not found", text, ""),
            PageError::Invalid { .. } => message(StatusCode::BAD_REQUEST, "Not understood", &self.to_string(), ""),
            PageError::Store(StoreError::Db(_)) => {
                tracing::error!(error = chain(&self), "database");
                let text = "The database cannot be used at the moment. What was shown before may be out of date.";
                message(StatusCode::SERVICE_UNAVAILABLE, "Unavailable", text, "")
            }
            PageError::Store(_) | PageError::Render(_) => {
                let id = uuid::Uuid::new_v4();
                tracing::error!(%id, error = chain(&self), "a page failed");
                let text = format!("Something went wrong on our side; the log says more under {id}.");
                message(StatusCode::INTERNAL_SERVER_ERROR, "Internal error", &text, "")
            }
        }
    }
}

/// Whatever no route takes.
pub async fn unknown() -> Response {
    PageError::NotFound("There is no such page, or it is not visible to you.").into_response()
}

pub fn wrong_method() -> Response {
    let mut response = message(StatusCode::METHOD_NOT_ALLOWED, "Not allowed", "Pages can only be read.", "");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

/// There is no sign-in yet, and the operator has not opened the pages.
pub fn closed() -> Response {
    let text = "Sign-in is not built yet, so the pages are closed. \
        On a laptop or in a network you trust, an operator can open them to everybody who reaches this address:";
    message(StatusCode::SERVICE_UNAVAILABLE, "The pages are closed", text, "STACKORDER_OPEN_PAGES=true")
}

/// A panic while a page was made: the log has it, the reader gets a generic 500.
pub fn panicked(panic: Box<dyn std::any::Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(panic = text.unwrap_or("unknown panic"), "a page panicked");
    message(StatusCode::INTERNAL_SERVER_ERROR, "Internal error", "Something went wrong on our side.", "")
}
