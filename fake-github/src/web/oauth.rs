//! Signing in to an app with a GitHub account, and registering an app by manifest.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::AppSetup;
use crate::auth::new_token;
use crate::rest::{RawRequest, parse_query};
use crate::shapes::encode;
use crate::state::apps::{Code, Grant};

use super::html::{button, escape};
use super::{Visit, answer, json, page, see_other};

/// A code of the sign-in flow can be exchanged this long.
const CODE_MS: i64 = 10 * 60 * 1000;
/// The manifest flow has to end within an hour.
const MANIFEST_MS: i64 = 60 * 60 * 1000;
/// A user token of an app lives for eight hours.
const USER_TOKEN_S: i64 = 28_800;

pub fn serve(visit: &Visit, request: &RawRequest, parts: &[&str]) -> Option<Response<Body>> {
    Some(match (request.method.as_str(), parts) {
        ("GET", ["login", "oauth", "authorize"]) => authorize(visit),
        ("POST", ["login", "oauth", "authorize"]) => grant(visit),
        ("POST", ["login", "oauth", "access_token"]) => exchange(visit, request),
        ("POST", ["settings", "apps", "new"]) => register(visit, &visit.login.clone()),
        ("POST", ["organizations", org, "settings", "apps", "new"]) => register(visit, org),
        ("GET", ["apps", slug, "installations", "new"]) => install_page(visit, slug),
        ("POST", ["apps", slug, "installations", "new"]) => install(visit, slug),
        _ => return None,
    })
}

/// Asks the person; an app that is unknown or names another callback is refused here.
fn authorize(visit: &Visit) -> Response<Body> {
    let asked = |name: &str| visit.query.get(name).map(String::as_str).unwrap_or_default();
    let name = {
        let state = visit.hub.lock();
        let Some(app) = state.apps.values().find(|app| app.client_id == asked("client_id")) else {
            return page(visit, StatusCode::NOT_FOUND, "Not found", "<p>No such app.</p>");
        };
        let redirect = asked("redirect_uri");
        if !redirect.is_empty() && !app.callback_urls.iter().any(|url| url == redirect) {
            let text = "<p>The redirect_uri is not associated with this application.</p>";
            return page(visit, StatusCode::BAD_REQUEST, "Redirect URI mismatch", text);
        }
        app.name.clone()
    };
    let fields: Vec<(&str, &str)> =
        ["client_id", "redirect_uri", "state", "code_challenge"].iter().map(|name| (*name, asked(name))).collect();
    let form = button("/login/oauth/authorize", &format!("Authorize as {}", visit.login), &fields);
    let body = format!("<p><b>{}</b> wants to know who you are.</p>{form}", escape(&name));
    page(visit, StatusCode::OK, "Authorize", &body)
}

fn grant(visit: &Visit) -> Response<Body> {
    let asked = |name: &str| visit.form.get(name).map(String::as_str).unwrap_or_default();
    let code = new_token("code");
    let redirect = visit.hub.act(|state| {
        let app = state.apps.values().find(|app| app.client_id == asked("client_id"))?;
        let given = asked("redirect_uri");
        // Only to an address that the app registered; the first one when none is asked for.
        let redirect = app.callback_urls.iter().find(|url| given.is_empty() || *url == given)?.clone();
        let grant = Code::OAuth {
            app: app.id,
            login: visit.login.clone(),
            redirect_uri: redirect.clone(),
            challenge: Some(asked("code_challenge")).filter(|text| !text.is_empty()).map(str::to_owned),
            expires_at: state.now() + CODE_MS,
        };
        state.codes.insert(code.clone(), grant);
        Some(redirect)
    });
    let Some(redirect) = redirect else {
        return page(visit, StatusCode::NOT_FOUND, "Not found", "<p>No such app.</p>");
    };
    let join = if redirect.contains('?') { '&' } else { '?' };
    see_other(&format!("{redirect}{join}code={}&state={}", encode(&code), encode(asked("state"))))
}

/// Errors of this call come with status 200, as GitHub's do.
fn exchange(visit: &Visit, request: &RawRequest) -> Response<Body> {
    let body = String::from_utf8_lossy(&request.body);
    let fields = match serde_json::from_str::<std::collections::BTreeMap<String, String>>(&body) {
        Ok(fields) => fields,
        Err(_) => parse_query(&body),
    };
    let asked = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    let now = visit.hub.now_ms();
    let result = visit.hub.act(|state| {
        let app = state
            .apps
            .values()
            .find(|app| app.client_id == asked("client_id") && app.client_secret == asked("client_secret"));
        let app = app.map(|app| app.id).ok_or("incorrect_client_credentials")?;
        let Some(Code::OAuth { app: of, login, redirect_uri, challenge, expires_at }) =
            state.codes.remove(asked("code"))
        else {
            return Err("bad_verification_code");
        };
        let verified = challenge.is_none_or(|challenge| {
            URL_SAFE_NO_PAD.encode(Sha256::digest(asked("code_verifier").as_bytes())) == challenge
        });
        if of != app || now >= expires_at || !verified {
            return Err("bad_verification_code");
        }
        if !asked("redirect_uri").is_empty() && asked("redirect_uri") != redirect_uri {
            return Err("redirect_uri_mismatch");
        }
        let token = new_token("ghu");
        let grant = Grant::User { login, app: Some(app), expires_at: Some(now + USER_TOKEN_S * 1000) };
        state.tokens.insert(token.clone(), grant);
        Ok(token)
    });
    let answered = match result {
        Ok(token) => json!({
            "access_token": token, "token_type": "bearer", "scope": "", "expires_in": USER_TOKEN_S,
            "refresh_token": new_token("ghr"), "refresh_token_expires_in": 15_897_600,
        }),
        Err(error) => {
            json!({"error": error, "error_description": error.replace('_', " "), "error_uri": "https://docs.github.com"})
        }
    };
    if request.header("accept").is_some_and(|accept| accept.contains("json")) {
        return json(StatusCode::OK, &answered);
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let pairs =
        answered.as_object().into_iter().flatten().map(|(name, value)| format!("{name}={}", encode(&text(value))));
    let form = pairs.collect::<Vec<_>>().join("&");
    answer(StatusCode::OK, "application/x-www-form-urlencoded; charset=utf-8", form)
}

fn register(visit: &Visit, owner: &str) -> Response<Body> {
    let manifest: Value =
        visit.form.get("manifest").and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let Some(redirect) = text(&manifest["redirect_url"]).filter(|_| manifest["url"].is_string()) else {
        return page(
            visit,
            StatusCode::UNPROCESSABLE_ENTITY,
            "Refused",
            "<p>The manifest needs url and redirect_url.</p>",
        );
    };
    let list = |value: &Value| -> Vec<String> { value.as_array().into_iter().flatten().filter_map(text).collect() };
    let permissions = manifest["default_permissions"].as_object().cloned().unwrap_or_default();
    let name = text(&manifest["name"]).unwrap_or_else(|| "app".to_owned());
    let slug = name
        .to_lowercase()
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("-");
    let app = visit.hub.create_app(AppSetup {
        slug,
        owner: owner.to_owned(),
        permissions: permissions.into_iter().filter_map(|(name, level)| Some((name, text(&level)?))).collect(),
        events: list(&manifest["default_events"]),
        webhook_url: text(&manifest["hook_attributes"]["url"]),
        webhook_secret: Some(new_token("hook")),
        callback_urls: list(&manifest["callback_urls"]),
    });
    let code = new_token("manifest");
    visit.hub.act(|state| {
        let expires_at = state.now() + MANIFEST_MS;
        state.codes.insert(code.clone(), Code::Manifest { app: app.id, expires_at });
    });
    let state = visit.query.get("state").or_else(|| visit.form.get("state")).map(String::as_str).unwrap_or_default();
    let join = if redirect.contains('?') { '&' } else { '?' };
    see_other(&format!("{redirect}{join}code={}&state={}", encode(&code), encode(state)))
}

fn install_page(visit: &Visit, slug: &str) -> Response<Body> {
    let form = format!(
        "<form method=post action=\"/apps/{}/installations/new\"><label>Account <input name=account required></label><button>Install</button></form>",
        escape(slug)
    );
    page(visit, StatusCode::OK, "Install an app", &form)
}

fn install(visit: &Visit, slug: &str) -> Response<Body> {
    let account = visit.form.get("account").map(String::as_str).unwrap_or_default();
    let app = {
        let state = visit.hub.lock();
        state.app_by_slug(slug).filter(|_| state.account(account).is_some()).map(|app| app.id)
    };
    let Some(app) = app else {
        return page(visit, StatusCode::NOT_FOUND, "Not found", "<p>No such app or account.</p>");
    };
    visit.hub.install_app(app, account, &[]);
    see_other("/")
}
