//! What goes wrong on purpose: lost, doubled, late and reordered deliveries, failing calls, slow mergeability.

use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;

type Loses = Arc<dyn Fn(&str, &Value) -> bool + Send + Sync>;

/// One kind of call that fails.
#[derive(Debug, Clone)]
pub struct RestFault {
    pub method: String,
    /// Without `/api/v3`.
    pub path_prefix: String,
    pub status: u16,
    /// How often; it is forgotten afterwards.
    pub times: usize,
    /// The call does its work first, and only the answer is lost.
    pub after_acting: bool,
}

#[derive(Default)]
pub struct Faults {
    plan: Mutex<Plan>,
}

#[derive(Default)]
struct Plan {
    lose: Option<Loses>,
    double: bool,
    hold: bool,
    held: Vec<(i64, i64)>,
    rest: Vec<RestFault>,
    rate_limited: usize,
    mergeability_unknown: usize,
}

impl Faults {
    /// Deliveries for which this says yes never leave; they stay in the delivery log, as failed.
    pub fn lose_webhooks(&self, lose: impl Fn(&str, &Value) -> bool + Send + Sync + 'static) {
        self.plan().lose = Some(Arc::new(lose));
    }

    pub fn lose_no_webhooks(&self) {
        self.plan().lose = None;
    }

    /// Every delivery is sent twice with the same id.
    pub fn double_webhooks(&self, double: bool) {
        self.plan().double = double;
    }

    /// Deliveries wait until they are released.
    pub fn hold(&self) {
        self.plan().hold = true;
    }

    /// The next calls of this kind fail.
    pub fn fail_rest(&self, method: &str, path_prefix: &str, status: u16, times: usize, after_acting: bool) {
        let (method, path_prefix) = (method.to_owned(), path_prefix.to_owned());
        self.plan().rest.push(RestFault { method, path_prefix, status, times, after_acting });
    }

    /// The next calls are refused as over the primary rate limit.
    pub fn rate_limit(&self, times: usize) {
        self.plan().rate_limited = times;
    }

    /// The next readings of a pull request find its mergeability not yet computed.
    pub fn mergeability_unknown(&self, times: usize) {
        self.plan().mergeability_unknown = times;
    }

    pub fn loses(&self, event: &str, payload: &Value) -> bool {
        let lose = self.plan().lose.clone();
        lose.is_some_and(|lose| lose(event, payload))
    }

    pub(crate) fn doubles(&self) -> bool {
        self.plan().double
    }

    /// Whether this delivery was put aside.
    pub(crate) fn holds(&self, app: i64, delivery: i64) -> bool {
        let mut plan = self.plan();
        if plan.hold {
            plan.held.push((app, delivery));
        }
        plan.hold
    }

    pub(crate) fn released(&self) -> Vec<(i64, i64)> {
        let mut plan = self.plan();
        plan.hold = false;
        std::mem::take(&mut plan.held)
    }

    /// Deliveries that wait for their release.
    pub fn held_count(&self) -> usize {
        self.plan().held.len()
    }

    pub(crate) fn rest(&self, method: &str, path: &str) -> Option<RestFault> {
        let mut plan = self.plan();
        let fault = plan
            .rest
            .iter_mut()
            .find(|fault| fault.times > 0 && fault.method == method && path.starts_with(&fault.path_prefix))?;
        fault.times -= 1;
        let fault = fault.clone();
        plan.rest.retain(|fault| fault.times > 0);
        Some(fault)
    }

    pub(crate) fn is_rate_limited(&self) -> bool {
        take_one(&mut self.plan().rate_limited)
    }

    pub(crate) fn hides_mergeability(&self) -> bool {
        take_one(&mut self.plan().mergeability_unknown)
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().expect("no panic while faults are planned")
    }
}

fn take_one(left: &mut usize) -> bool {
    let any = *left > 0;
    *left = left.saturating_sub(1);
    any
}
