//! The headers that every answer carries, the pages' too (spec 22 §7).

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;

/// A browser that came over https once comes over https for a year.
pub(super) const STRICT_TRANSPORT: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Nothing is sniffed, framed, told to other sites, or kept unless the answer says otherwise.
pub(crate) fn secure(headers: &mut HeaderMap) {
    let always = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
    ];
    for (name, value) in always {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// [`secure`] as a layer.
pub(super) async fn secured(mut response: Response) -> Response {
    secure(response.headers_mut());
    response
}
