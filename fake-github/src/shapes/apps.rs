//! Apps, installations and deliveries.

use serde_json::{Value, json};

use crate::state::State;
use crate::state::apps::{AppRecord, Delivery, Installation};

use super::{iso, node_id, user};

/// `integration`, as it stands beside everything an app did.
pub fn integration(state: &State, app: &AppRecord) -> Value {
    json!({
        "id": app.id,
        "client_id": app.client_id,
        "slug": app.slug,
        "node_id": node_id("Integration", app.id),
        "owner": user(state, &app.owner),
        "name": app.name,
        "description": "",
        "external_url": state.site.web,
        "html_url": format!("{}/apps/{}", state.site.web, app.slug),
        "created_at": iso(app.created_at),
        "updated_at": iso(app.created_at),
        "permissions": app.permissions,
        "events": app.events,
    })
}

pub fn installation(state: &State, installation: &Installation) -> Value {
    let account = state.account(&installation.account);
    let app = state.apps.get(&installation.app);
    let slug = app.map_or("", |app| app.slug.as_str());
    json!({
        "id": installation.id,
        "client_id": app.map(|app| app.client_id.clone()),
        "account": user(state, &installation.account),
        "repository_selection": if installation.repositories.is_some() { "selected" } else { "all" },
        "access_tokens_url": format!("{}/app/installations/{}/access_tokens", state.site.api(), installation.id),
        "repositories_url": format!("{}/installation/repositories", state.site.api()),
        "html_url": format!("{}/settings/installations/{}", state.site.web, installation.id),
        "app_id": installation.app,
        "app_slug": slug,
        "target_id": account.map_or(0, |account| account.id),
        "target_type": match account.map(|account| account.kind) {
            Some(crate::state::accounts::Kind::Organization) => "Organization",
            _ => "User",
        },
        "permissions": installation.permissions,
        "events": installation.events,
        "created_at": iso(installation.created_at),
        "updated_at": iso(installation.created_at),
        "single_file_name": null,
        "has_multiple_single_files": false,
        "single_file_paths": [],
        "suspended_by": null,
        "suspended_at": super::iso_or_null(installation.suspended_at),
    })
}

/// `simple-installation`, in every payload.
pub fn installation_reference(id: i64) -> Value {
    json!({"id": id, "node_id": node_id("IntegrationInstallation", id)})
}

/// `hook-delivery-item`.
pub fn delivery_item(delivery: &Delivery) -> Value {
    json!({
        "id": delivery.id,
        "guid": delivery.guid,
        "delivered_at": iso(delivery.delivered_at.unwrap_or(delivery.created_at)),
        "redelivery": delivery.redelivery,
        "duration": delivery.duration_ms as f64 / 1000.0,
        "status": delivery.status.as_deref().unwrap_or("pending"),
        "status_code": delivery.status_code,
        "event": delivery.event,
        "action": delivery.action,
        "installation_id": delivery.installation,
        "repository_id": delivery.repository,
        "throttled_at": null,
    })
}

/// `hook-delivery`, with request and response.
pub fn delivery(delivery: &Delivery) -> Value {
    let mut shape = delivery_item(delivery);
    shape["request"] = json!({"headers": delivery.request_headers, "payload": delivery.payload});
    shape["response"] = json!({"headers": {}, "payload": delivery.response_body});
    shape
}
