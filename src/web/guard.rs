//! What holds for every page: reading methods only, nobody while there is no sign-in, and the headers of spec 22 §7.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::Response;

use super::{Pages, assets, page};

const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; \
    img-src 'self' data: https://avatars.githubusercontent.com; connect-src 'self'; font-src 'self'; \
    object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'";

/// Lets reading requests through, when the pages are open; assets always.
pub async fn admit(State(pages): State<Arc<Pages>>, request: Request, next: Next) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return page::wrong_method();
    }
    if !pages.open && !assets::is_asset(request.uri().path()) {
        return page::closed();
    }
    next.run(request).await
}

/// Adds the security headers; harmless on answers that are not HTML.
pub async fn secure(mut response: Response) -> Response {
    let headers = response.headers_mut();
    crate::http::headers::secure(headers);
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}
