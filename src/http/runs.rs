//! What jobs and API keys call under `/v1` (spec 20 §5.1–§5.5, §5.7, §5.8, §8).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::Shared;
use super::call::{Call, Named};
use super::errors::ApiError;
use crate::api::{
    CheckJson, CheckVerdict, ClaimRequest, ClaimResponse, CreateRunRequest, CreateRunResponse, GraphUploadRequest,
    RequestApplyRequest, RerunRequest, RunJson, RunStackJson, StackResult, UnlockRequest, UnlockResponse,
};
use crate::graph::resolution::Resolution;
use crate::ids::{RunId, StackKey};
use crate::orchestrator::actor::Actor;
use crate::orchestrator::runner_calls::Caller;
use crate::store::ApiKey;

type Shares = State<Arc<Shared>>;
type Answer<T> = Result<Json<T>, ApiError>;
type Made = (StatusCode, Json<CreateRunResponse>);

pub async fn create(
    State(shared): Shares,
    Call { caller, named: (), body }: Call<Caller, (), CreateRunRequest>,
) -> Result<Made, ApiError> {
    Ok(made(shared.app.create_run(&caller, &body).await?))
}

/// 201 for a new run, 200 for one that was there.
fn made(answer: CreateRunResponse) -> Made {
    (if answer.existing { StatusCode::OK } else { StatusCode::CREATED }, Json(answer))
}

pub async fn rerun(
    State(shared): Shares,
    Call { caller: key, named: id, body: RerunRequest {} }: Call<ApiKey, RunId, RerunRequest>,
) -> Result<Made, ApiError> {
    Ok(made(shared.app.rerun(&Actor::Key(key), &id).await?))
}

pub async fn apply(
    State(shared): Shares,
    Call { caller: key, named: id, body }: Call<ApiKey, RunId, RequestApplyRequest>,
) -> Result<Made, ApiError> {
    Ok(made(shared.app.request_apply(&Actor::Key(key), &id, &body).await?))
}

pub async fn read(State(shared): Shares, caller: Caller, Named(id): Named<RunId>) -> Answer<RunJson> {
    Ok(Json(shared.app.read_run(&caller, &id).await?))
}

pub async fn graph(
    State(shared): Shares,
    Call { caller, named: id, body }: Call<Caller, RunId, GraphUploadRequest>,
) -> Answer<Resolution> {
    Ok(Json(shared.app.upload_graph(&caller, &id, body).await?))
}

pub async fn result(
    State(shared): Shares,
    Call { caller, named: (id, key), body }: Call<Caller, (RunId, StackKey), StackResult>,
) -> Answer<RunStackJson> {
    Ok(Json(shared.app.report_result(&caller, &id, &key, &body).await?))
}

pub async fn claim(
    State(shared): Shares,
    Call { caller, named: (id, key), body }: Call<Caller, (RunId, StackKey), ClaimRequest>,
) -> Answer<ClaimResponse> {
    Ok(Json(shared.app.claim(&caller, &id, &key, &body).await?))
}

pub async fn verdict(
    State(shared): Shares,
    Call { caller, named: (id, key, name), body }: Call<Caller, (RunId, StackKey, String), CheckVerdict>,
) -> Answer<CheckJson> {
    Ok(Json(shared.app.report_verdict(&caller, &id, &key, &name, &body).await?))
}

pub async fn unlock(
    State(shared): Shares,
    Call { caller: key, named: (), body }: Call<ApiKey, (), UnlockRequest>,
) -> Answer<UnlockResponse> {
    Ok(Json(shared.app.unlock(&key, &body).await?))
}
