//! What everything has in common that stands between two others: it takes a request and passes it on.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use axum::response::Response;

/// The largest body that is passed on.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What belongs to one connection and not to the message.
const HOP_BY_HOP: [HeaderName; 4] =
    [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];

/// The same request to somebody else.
pub async fn pass(
    http: &reqwest::Client,
    base: &str,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Response, reqwest::Error> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = http.request(method.clone(), format!("{base}{path}")).body(body);
    for (name, value) in headers.iter().filter(|(name, _)| !HOP_BY_HOP.contains(name)) {
        request = request.header(name, value);
    }
    let answer = request.send().await?;
    let (status, headers) = (answer.status(), answer.headers().clone());
    let mut response = Response::new(Body::from(answer.bytes().await?));
    *response.status_mut() = status;
    for (name, value) in headers.iter().filter(|(name, _)| !HOP_BY_HOP.contains(name)) {
        response.headers_mut().append(name, value.clone());
    }
    Ok(response)
}

/// What is answered when nobody else answers.
pub fn nobody(why: &str) -> Response {
    let mut gone = Response::new(Body::from(format!("nobody answers: {why}")));
    *gone.status_mut() = StatusCode::BAD_GATEWAY;
    gone
}

/// Connections are not kept: one to a server that died would be found out by the next request only.
pub fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .pool_max_idle_per_host(0)
        .build()
        .expect("nothing that can fail was asked for")
}

/// Serves for as long as the runtime lives.
pub fn serve(listener: tokio::net::TcpListener, router: Router) {
    let router = router.layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    tokio::spawn(async move { axum::serve(listener, router).await });
}
