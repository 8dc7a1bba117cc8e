//! A name for each request: on its answer, and on every log line that was written because of it (spec 20 §1).

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument as _;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest name taken over from a caller; it is written to each line of the log.
const BYTES_MAX: usize = 128;

/// Takes over the caller's name for its request, if it is fit for a log, and makes one up otherwise.
pub async fn identify(request: Request, next: Next) -> Response {
    let given = request.headers().get(X_REQUEST_ID).filter(|value| is_fit(value.as_bytes())).cloned();
    let id = given.unwrap_or_else(|| {
        HeaderValue::from_str(&uuid::Uuid::new_v4().to_string()).expect("hex digits and hyphens make a header")
    });
    // An error's span, so that the name is there at every log level. The query may hold secrets and stays out.
    let span = tracing::error_span!(
        "request",
        id = id.to_str().unwrap_or_default(),
        method = %request.method(),
        path = request.uri().path()
    );
    let mut response = next.run(request).instrument(span).await;
    response.headers_mut().insert(X_REQUEST_ID, id);
    response
}

/// Printable ASCII without spaces.
fn is_fit(id: &[u8]) -> bool {
    (1..=BYTES_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_1_to_128_printable_characters_without_spaces() {
        let longest = "x".repeat(128);
        for fit in ["1", "a-b_c/d:e~!", longest.as_str()] {
            assert!(is_fit(fit.as_bytes()), "{fit}");
        }
        let too_long = "x".repeat(129);
        for unfit in ["", "two words", "tab\t", "del\x7f", "ümlaut", too_long.as_str()] {
            assert!(!is_fit(unfit.as_bytes()), "{unfit}");
        }
    }
}
