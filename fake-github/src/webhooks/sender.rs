//! Deliveries: one queue per app, one at a time, ten seconds each, never repeated by itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;
use tokio::sync::mpsc;

use crate::hub::Hub;
use crate::state::State;
use crate::state::apps::{AppRecord, Delivery};

/// GitHub cuts the connection after this long.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of an answer the delivery log keeps.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

pub type Sender = mpsc::UnboundedSender<i64>;

impl Hub {
    /// Puts a delivery into its app's queue, unless it is held.
    pub(crate) fn enqueue(&self, app: i64, delivery: i64) {
        if self.faults().holds(app, delivery) {
            return;
        }
        self.send_soon(app, delivery);
        if self.faults().doubles() {
            self.send_soon(app, delivery);
        }
    }

    fn send_soon(&self, app: i64, delivery: i64) {
        let senders = self.senders.lock().expect("no panic while queueing deliveries");
        let Some(sender) = senders.get(&app) else { return };
        self.undelivered.send_modify(|count| *count += 1);
        if sender.send(delivery).is_err() {
            self.undelivered.send_modify(|count| *count -= 1);
        }
    }

    /// Starts the queue of an app. Must be called inside the runtime the fake was started in.
    pub(crate) fn start_sender(self: &Arc<Self>, app: i64) {
        let (sender, mut queue) = mpsc::unbounded_channel();
        self.senders.lock().expect("no panic while queueing deliveries").insert(app, sender);
        let hub: Weak<Hub> = Arc::downgrade(self);
        self.runtime.spawn(async move {
            while let Some(delivery) = queue.recv().await {
                let Some(hub) = hub.upgrade() else { return };
                hub.deliver(delivery).await;
                hub.undelivered.send_modify(|count| *count -= 1);
            }
        });
    }

    /// Lets held deliveries go, in the order given by `order`, which gets their ids oldest first.
    pub fn release_in_order(&self, order: impl FnOnce(&mut Vec<i64>)) {
        let held = self.faults().released();
        let apps: BTreeMap<i64, i64> = held.iter().map(|(app, delivery)| (*delivery, *app)).collect();
        let mut deliveries: Vec<i64> = held.into_iter().map(|(_, delivery)| delivery).collect();
        order(&mut deliveries);
        for delivery in deliveries {
            if let Some(app) = apps.get(&delivery) {
                self.enqueue(*app, delivery);
            }
        }
    }

    /// Lets held deliveries go, oldest first.
    pub fn release(&self) {
        self.release_in_order(|_| {});
    }

    /// Sends a delivery again, under the same guid; the id of the new attempt.
    pub fn redeliver(&self, delivery: i64) -> Option<i64> {
        self.act(|state| {
            let mut again = state.deliveries.get(&delivery)?.clone();
            again.id = state.next_id();
            again.redelivery = true;
            again.lost = false;
            again.created_at = state.now();
            again.delivered_at = None;
            again.status = None;
            again.status_code = 0;
            again.response_body = String::new();
            let (id, app) = (again.id, again.app);
            state.deliveries.insert(id, again);
            state.effects.push(crate::state::Effect::Deliver { app, delivery: id });
            Some(id)
        })
    }

    /// The delivery log of all apps, oldest first.
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.lock().deliveries.values().cloned().collect()
    }

    /// Deliveries that were tried and got no success, oldest first; those that a fault loses on purpose are not among them.
    pub fn failed_deliveries(&self) -> Vec<i64> {
        let state = self.lock();
        let failed = state.deliveries.values().filter(|delivery| {
            delivery.delivered_at.is_some() && !delivery.lost && !(200..300).contains(&delivery.status_code)
        });
        failed.map(|delivery| delivery.id).collect()
    }

    async fn deliver(&self, id: i64) {
        let Some((delivery, app)) = self.delivery_and_app(id) else { return };
        let Some(url) = app.webhook_url.clone() else { return };
        let body = delivery.payload.to_string().into_bytes();
        let headers = headers(&app, &delivery, &body);
        let started = Instant::now();
        let lost = !delivery.redelivery && self.faults().loses(&delivery.event, &delivery.payload);
        let (status_code, status, answer) =
            if lost { (0, "timed out".to_owned(), String::new()) } else { self.post(&url, &headers, body).await };
        let duration_ms = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let now = self.site().now();
        self.act(|state| {
            if let Some(record) = state.deliveries.get_mut(&id) {
                record.lost = lost;
                record.delivered_at = Some(now);
                record.duration_ms = duration_ms;
                record.status = Some(status.clone());
                record.status_code = status_code;
                record.request_headers = headers;
                record.response_body = answer;
            }
        });
        let members = json!({
            "app": app.slug, "event": delivery.event, "action": delivery.action, "delivery": delivery.guid,
            "redelivery": delivery.redelivery, "lost": lost, "status": status_code, "payload": delivery.payload,
        });
        self.journal.write(now, "webhook", members);
    }

    fn delivery_and_app(&self, id: i64) -> Option<(Delivery, AppRecord)> {
        let state = self.lock();
        let delivery = state.deliveries.get(&id)?;
        Some((delivery.clone(), state.apps.get(&delivery.app)?.clone()))
    }

    async fn post(&self, url: &str, headers: &BTreeMap<String, String>, body: Vec<u8>) -> (u16, String, String) {
        let mut request = self.client.post(url).timeout(DELIVERY_TIMEOUT).body(body);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        match request.send().await {
            Err(error) if error.is_timeout() => (504, "timed out".to_owned(), String::new()),
            Err(error) if error.is_connect() => (502, "failed to connect to host".to_owned(), String::new()),
            Err(error) => (502, error.to_string(), String::new()),
            Ok(answer) => {
                let code = answer.status();
                let mut text = answer.text().await.unwrap_or_default();
                text.truncate(text.floor_char_boundary(RESPONSE_BYTES_MAX));
                let words = if code.is_success() { "OK" } else { code.canonical_reason().unwrap_or("Invalid") };
                (code.as_u16(), words.to_owned(), text)
            }
        }
    }
}

fn headers(app: &AppRecord, delivery: &Delivery, body: &[u8]) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::from([
        ("Accept", "*/*".to_owned()),
        ("Content-Type", "application/json".to_owned()),
        ("User-Agent", "GitHub-Hookshot/fake000".to_owned()),
        ("X-GitHub-Delivery", delivery.guid.clone()),
        ("X-GitHub-Event", delivery.event.clone()),
        ("X-GitHub-Hook-ID", app.hook_id.to_string()),
        ("X-GitHub-Hook-Installation-Target-ID", app.id.to_string()),
        ("X-GitHub-Hook-Installation-Target-Type", "integration".to_owned()),
    ]);
    if let Some(secret) = &app.webhook_secret {
        headers.insert("X-Hub-Signature-256", format!("sha256={}", signature::<Hmac<Sha256>>(secret, body)));
        headers.insert("X-Hub-Signature", format!("sha1={}", signature::<Hmac<sha1::Sha1>>(secret, body)));
    }
    headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn signature<M: Mac + KeyInit>(secret: &str, body: &[u8]) -> String {
    let mut mac = <M as KeyInit>::new_from_slice(secret.as_bytes()).expect("HMAC takes a key of any length");
    mac.update(body);
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl State {
    /// Queues an event for every app that is installed there and subscribed to it.
    pub fn emit(&mut self, event: &str, repo: Option<&str>, payload: serde_json::Value) {
        let targets: Vec<(i64, i64)> = self
            .installations
            .values()
            .filter(|installation| installation.suspended_at.is_none())
            .filter(|installation| installation.events.iter().any(|subscribed| subscribed == event))
            .filter(|installation| {
                repo.is_none_or(|repo| self.installed_repositories(installation).iter().any(|name| name == repo))
            })
            .map(|installation| (installation.app, installation.id))
            .collect();
        let repository = repo.and_then(|repo| self.repository(repo)).map(|repo| repo.id);
        for (app, installation) in targets {
            let mut payload = payload.clone();
            payload["installation"] = crate::shapes::installation_reference(installation);
            self.queue_delivery(app, event, Some(installation), repository, payload);
        }
    }

    /// Queues one event for one app, subscribed or not.
    pub fn queue_delivery(
        &mut self,
        app: i64,
        event: &str,
        installation: Option<i64>,
        repository: Option<i64>,
        payload: serde_json::Value,
    ) {
        if self.apps.get(&app).is_none_or(|app| app.webhook_url.is_none()) {
            return;
        }
        let delivery = Delivery {
            id: self.next_id(),
            guid: uuid::Uuid::new_v4().to_string(),
            app,
            event: event.to_owned(),
            action: payload["action"].as_str().map(str::to_owned),
            installation,
            repository,
            payload,
            redelivery: false,
            created_at: self.now(),
            lost: false,
            delivered_at: None,
            duration_ms: 0,
            status: None,
            status_code: 0,
            request_headers: BTreeMap::new(),
            response_body: String::new(),
        };
        let id = delivery.id;
        self.deliveries.insert(id, delivery);
        self.effects.push(crate::state::Effect::Deliver { app, delivery: id });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_the_one_of_github_s_documentation() {
        let hex = signature::<Hmac<Sha256>>("It's a Secret to Everybody", b"Hello, World!");
        assert_eq!(hex, "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17");
    }
}
