//! People with an API key: applies from outside Actions, and locks taken away from whoever holds them.

use stackorder::api::{CreateRunRequest, ResultStatus, StackResult, UnlockRequest};
use stackorder::ids::{RunId, Sha, StackKey};
use stackorder::orchestrator::runner_calls::{CallError, Caller};
use stackorder::run::status::{Mode, Trigger};
use stackorder::store::ApiKey;

use super::github::NAME;
use super::infrastructure::Plan;
use super::jobs::result;
use super::world::{Reply, World};

/// An apply from outside, stack by stack.
#[derive(Debug, Clone)]
pub struct ByHand {
    run: RunId,
    sha: Sha,
    stacks: Vec<StackKey>,
    step: Step,
    is_calling: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Start,
    /// Before the first, second, … of its stacks.
    Begin(usize),
    Applying(usize, Box<Plan>),
    Report(usize, Box<StackResult>),
    Ended,
}

impl World {
    /// Somebody applies one or two stacks as the default branch has them.
    pub fn apply_by_hand(&mut self) {
        let id = self.hub.model().number();
        let sha = self.hub.model().tip().clone();
        let keys: Vec<StackKey> =
            self.graph.stacks.iter().map(|stack| StackKey::parse(&stack.key).expect("it is a key")).collect();
        let mut stacks: Vec<StackKey> = (0..1 + self.chance.below(2)).filter_map(|_| self.chance.pick(&keys)).collect();
        stacks.sort();
        stacks.dedup();
        let run =
            RunId::from_random((u128::from(self.chance.next()) << 64 | u128::from(self.chance.next())).to_be_bytes());
        self.note(|| format!("somebody with a key applies {stacks:?} in run {}", &run.as_str()[..8]));
        self.by_hand.insert(id, ByHand { run, sha, stacks, step: Step::Start, is_calling: false });
    }

    /// Everybody with something left to do by hand does it; whether there was anybody.
    pub fn hands_move(&mut self) -> bool {
        let open: Vec<i64> = self.by_hand.iter().filter(|(_, one)| one.is_open()).map(|(id, _)| *id).collect();
        for id in &open {
            self.hand_moves(*id);
        }
        !open.is_empty()
    }

    fn hand_moves(&mut self, id: i64) {
        let one = self.by_hand[&id].clone();
        if one.is_calling {
            return;
        }
        match one.step.clone() {
            Step::Start => {
                let request = CreateRunRequest {
                    repo: NAME.to_owned(),
                    sha: one.sha.to_string(),
                    mode: Some(Mode::Apply),
                    trigger: Some(Trigger::Manual),
                    run_id: Some(one.run.clone()),
                    stacks: one.stacks.iter().map(ToString::to_string).collect(),
                    ..CreateRunRequest::default()
                };
                let caller = Caller::Key(key());
                let asked = self.call_by_hand(id, |app| async move {
                    Reply::Registered(app.create_run(&caller, &request).await.map(Box::new))
                });
                self.by_hand.get_mut(&id).expect("it is there").is_calling = asked;
            }
            Step::Begin(at) => {
                let key = one.stacks[at].clone();
                let content = self.hub.model().commits[&one.sha].files[key.as_str()];
                let plan = self.infrastructure.plan(key.as_str(), content);
                self.faults.met("a stack was applied with a key");
                self.note(|| format!("run {} applies {key} by hand: {}", &one.run.as_str()[..8], plan.actions));
                self.begins_at(id, &key);
                self.step_by_hand(id, Step::Applying(at, Box::new(plan)));
            }
            Step::Applying(at, plan) => {
                self.infrastructure.applying.remove(&plan.stack);
                let status = if self.faults.hits("an apply failed half-way", 15) {
                    self.infrastructure.break_off(&plan, Some(&one.run));
                    ResultStatus::Failure
                } else {
                    match self.infrastructure.apply(&plan, Some(&one.run)) {
                        Ok(()) => ResultStatus::Success,
                        Err(_stale) => ResultStatus::Failure,
                    }
                };
                let made = StackResult { summary: Some(plan.summary()), ..result(Mode::Apply, status) };
                self.step_by_hand(id, Step::Report(at, Box::new(made)));
            }
            Step::Report(at, made) => {
                let (caller, run, stack) = (Caller::Key(key()), one.run.clone(), one.stacks[at].clone());
                let asked = self.call_by_hand(id, |app| async move {
                    Reply::Reported(app.report_result(&caller, &run, &stack, &made).await.map(drop))
                });
                self.by_hand.get_mut(&id).expect("it is there").is_calling = asked;
            }
            Step::Ended => {}
        }
    }

    fn step_by_hand(&mut self, id: i64, step: Step) {
        self.by_hand.get_mut(&id).expect("it is there").step = step;
    }

    /// What came back; nothing when the server died over it. Whoever waits for an answer asks until there is one.
    pub fn answered_by_hand(&mut self, id: i64, reply: Option<Reply>) {
        let one = self.by_hand.get_mut(&id).expect("it called");
        one.is_calling = false;
        one.step = match (one.step.clone(), reply) {
            (
                step,
                None | Some(Reply::Registered(Err(CallError::Failed(_))) | Reply::Reported(Err(CallError::Failed(_)))),
            ) => step,
            (Step::Start, Some(Reply::Registered(Ok(_)))) => Step::Begin(0),
            (Step::Report(at, _), Some(Reply::Reported(Ok(())))) if at + 1 < one.stacks.len() => Step::Begin(at + 1),
            _ => Step::Ended,
        };
    }

    /// Somebody frees a locked stack, whoever holds it.
    pub fn take_lock_away(&mut self) {
        let locked: Vec<StackKey> = {
            let laws = self.laws.lock().expect("one thread");
            laws.locks.values().map(|lock| lock.key.clone()).collect()
        };
        let Some(stack) = self.chance.pick(&locked) else { return };
        self.faults.met("a key asked for a lock to be freed");
        self.note(|| format!("somebody with a key unlocks {stack}"));
        let request = UnlockRequest {
            repo: NAME.to_owned(),
            stack_key: stack.to_string(),
            reason: "it was in the way".to_owned(),
            force_state: false,
        };
        self.call_and_forget(|app| async move {
            let _told_the_person = app.unlock(&key(), &request).await;
            Reply::Nothing
        });
    }
}

impl ByHand {
    fn is_open(&self) -> bool {
        !matches!(self.step, Step::Ended)
    }
}

fn key() -> ApiKey {
    ApiKey {
        id: "key-1".to_owned(),
        name: "ops".to_owned(),
        key_hash: String::new(),
        prefix: String::new(),
        created_by: "cleo".to_owned(),
        created_at: 0,
        expires_at: None,
        repos: Vec::new(),
        scopes: ["read", "unlock", "apply"].map(str::to_owned).to_vec(),
        last_used_at: None,
        revoked_at: None,
    }
}
