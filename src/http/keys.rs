//! `/v1/keys`: a key that may makes, lists and revokes others (design §14).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use super::Shared;
use super::call::{Call, Named, RequestBody};
use super::errors::ApiError;
use super::lists::Page;
use crate::keys::{self, Giver, KeyError, KeyJson, Scope, Wanted};
use crate::store::ApiKey;

type Shares = State<Arc<Shared>>;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct CreateKeyRequest {
    name: String,
    scopes: Vec<Scope>,
    /// None means every repository that the asking key is good for, if that is every repository.
    repos: Vec<String>,
    days: Option<i64>,
}

impl RequestBody for CreateKeyRequest {}

/// The new key, with the only copy of its secret.
#[derive(Debug, Serialize)]
pub struct CreatedKey {
    key: String,
    #[serde(flatten)]
    shown: KeyJson,
}

/// `POST /v1/keys`.
pub async fn create(
    State(shared): Shares,
    Call { caller, named: (), body }: Call<ApiKey, (), CreateKeyRequest>,
) -> Result<(StatusCode, Json<CreatedKey>), ApiError> {
    let giver = giver(&caller)?;
    let wanted = Wanted::parse(&body.name, &body.scopes, &body.repos, body.days)?;
    let (key, secret) = keys::create(&*shared.app.store, giver, wanted, shared.app.now()).await?;
    Ok((StatusCode::CREATED, Json(CreatedKey { key: secret, shown: KeyJson::from(&key) })))
}

/// `GET /v1/keys`: those that may do no more than the one that asks.
pub async fn list(State(shared): Shares, caller: ApiKey) -> Result<Json<Page<KeyJson>>, ApiError> {
    let keys = keys::list(&*shared.app.store, giver(&caller)?).await?;
    Ok(Json(Page::of(keys.iter().map(KeyJson::from).collect(), None)))
}

/// `DELETE /v1/keys/{name}`: gone, or never there for this caller (404).
pub async fn revoke(State(shared): Shares, caller: ApiKey, Named(name): Named<String>) -> Result<StatusCode, ApiError> {
    keys::revoke(&*shared.app.store, giver(&caller)?, &name, shared.app.now()).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn giver(key: &ApiKey) -> Result<Giver<'_>, ApiError> {
    if key.scopes.iter().any(|scope| scope == Scope::Keys.as_str()) {
        Ok(Giver::Key(key))
    } else {
        Err(ApiError::forbidden("this key may not make, list or revoke keys"))
    }
}

impl From<KeyError> for ApiError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Invalid { field, reason } => Self::invalid_field(field, &reason),
            KeyError::Taken(_) => Self::conflict(error.to_string()),
            KeyError::Unknown(_) => Self::not_found(error.to_string()),
            KeyError::Beyond(reason) => Self::forbidden(reason),
            KeyError::Store(error) => error.into(),
        }
    }
}
