//! From a request to what a handler is given: who calls, what the path names, what body and query say.
//!
//! Whatever is wrong there is refused before the handler runs, always in the same order: credential, path, body.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;

use super::Shared;
use super::errors::ApiError;
use crate::api::{
    BODY_BYTES_MAX, CheckVerdict, ClaimRequest, CreateRunRequest, GRAPH_BYTES_MAX, GraphUploadRequest,
    RESULT_BYTES_MAX, RequestApplyRequest, RerunRequest, StackResult, UnlockRequest,
};

#[cfg(test)]
mod tests;

/// A call with a JSON body: who makes it (`C`), what its path names (`N`) and what it says (`B`).
pub struct Call<C, N, B> {
    pub caller: C,
    pub named: N,
    pub body: B,
}

impl<C, N, B> FromRequest<Arc<Shared>> for Call<C, N, B>
where
    C: FromRequestParts<Arc<Shared>, Rejection = ApiError> + Send,
    N: DeserializeOwned + Send,
    B: RequestBody,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        // Read before anything is refused: the answer to a caller who is still sending is lost with the connection.
        let bytes = read(&parts.headers, body, B::BYTES_MAX).await;
        let caller = C::from_request_parts(&mut parts, shared).await?;
        let Named(named) = Named::from_request_parts(&mut parts, shared).await?;
        let body = match bytes? {
            bytes if B::IS_OPTIONAL && bytes.iter().all(u8::is_ascii_whitespace) => parsed(&parts.headers, b"{}")?,
            bytes => parsed(&parts.headers, &bytes)?,
        };
        Ok(Self { caller, named, body })
    }
}

/// What a route takes as its body, and how much of it.
pub trait RequestBody: DeserializeOwned {
    const BYTES_MAX: usize = BODY_BYTES_MAX;
    /// No body says as much as an empty object.
    const IS_OPTIONAL: bool = false;
}

impl RequestBody for CreateRunRequest {}
impl RequestBody for ClaimRequest {}
impl RequestBody for CheckVerdict {}
impl RequestBody for UnlockRequest {}
impl RequestBody for RequestApplyRequest {}

impl RequestBody for RerunRequest {
    const IS_OPTIONAL: bool = true;
}

impl RequestBody for GraphUploadRequest {
    const BYTES_MAX: usize = GRAPH_BYTES_MAX;
}

impl RequestBody for StackResult {
    const BYTES_MAX: usize = RESULT_BYTES_MAX;
}

/// What the path names. A text that can be nobody's name names nothing, so that is 404 and not 400.
pub struct Named<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(named) = Path::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::not_found(format!("{} names nothing that is here", parts.uri.path())))?;
        Ok(Self(named))
    }
}

/// What the query asks for.
pub struct Asked<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(rejected) => Err(ApiError::invalid(rejected.body_text())),
        }
    }
}

/// The whole body, if it has no more than `bytes_max`.
pub async fn read(headers: &HeaderMap, body: Body, bytes_max: usize) -> Result<Bytes, ApiError> {
    let mut limited = Request::new(body);
    DefaultBodyLimit::max(bytes_max).apply(&mut limited);
    Bytes::from_request(limited, &()).await.map_err(|rejected| match rejected.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
            let size = announced.map_or_else(|| format!("more than {bytes_max}"), str::to_owned);
            ApiError::too_large(format!("the body has {size} bytes, and this route takes at most {bytes_max}"))
        }
        _ => ApiError::invalid("the body could not be read to its end"),
    })
}

/// Exactly one JSON object with the right fields.
fn parsed<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, ApiError> {
    if let Some(kind) = headers.get(header::CONTENT_TYPE) {
        let kind = kind.to_str().unwrap_or("").split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        if kind != "application/json" && !kind.ends_with("+json") {
            return Err(ApiError::invalid(format!("the body must be JSON, not {kind:?}")));
        }
    }
    match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => {}
        // To serde a list of its fields' values would be the object, and so would an empty list.
        Some(_) => return Err(ApiError::invalid("the body must be a JSON object")),
        None => return Err(ApiError::invalid("this route takes a JSON body")),
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut json).map_err(misfit)?;
    json.end().map_err(|error| ApiError::invalid(format!("the body must be exactly one JSON value: {error}")))?;
    Ok(value)
}

/// The refusal of a body, naming the field at fault where there is one.
fn misfit(error: serde_path_to_error::Error<serde_json::Error>) -> ApiError {
    const MISSING: &str = "missing field `";
    let path = error.path().to_string();
    let path = Some(path.as_str()).filter(|path| *path != ".");
    let error = error.into_inner();
    if !error.is_data() {
        return ApiError::invalid(format!("the body is not JSON: {error}"));
    }
    let reason = error.to_string();
    // Whatever serde says of a missing field, it says of the value around it.
    let missing = reason.strip_prefix(MISSING).and_then(|rest| rest.split_once('`')).map(|(name, _)| name);
    match (path, missing) {
        (Some(path), Some(name)) => ApiError::invalid_field(&format!("{path}.{name}"), "is required"),
        (None, Some(name)) => ApiError::invalid_field(name, "is required"),
        (Some(path), None) => ApiError::invalid_field(path, &reason),
        (None, None) => ApiError::invalid(format!("the body is not what this route takes: {reason}")),
    }
}
