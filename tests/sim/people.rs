//! What people do: they open, push, review, comment, merge, close, and change their minds.

use stackorder::clock::Clock as _;
use stackorder::github::api::{CheckStatus, Conclusion, Review, ReviewState};
use stackorder::ids::Sha;
use stackorder::run::status::{Mode, RunStatus};

use super::github::{Pull, Right, Work, WorkflowRun};
use super::world::World;

/// Pull requests that are open at once.
const OPEN_MAX: usize = 3;
const PEOPLE: [&str; 4] = ["ada", "bob", "cleo", "rita"];

/// How far a pull request is, as its page shows it.
enum Stage {
    Planning,
    Planned,
    Applying,
    /// The apply of this head failed.
    Broken,
    Applied,
}

impl World {
    pub fn people_act(&mut self) {
        let open: Vec<Pull> = self.hub.model().pulls.values().filter(|pull| pull.is_open).cloned().collect();
        if open.len() < OPEN_MAX && (open.is_empty() || self.chance.one_in(4)) {
            return self.open();
        }
        let Some(pull) = self.chance.pick(&open) else { return };
        // Mostly people wait for the plan, approve it, have it applied and merge; some cannot wait.
        let has_ended = |run: &i64| self.hub.model().runs[run].conclusion.is_some();
        if let Some(at) = self.broke_off.iter().position(has_ended)
            && self.chance.one_in(2)
        {
            let run = self.broke_off.swap_remove(at);
            return self.run_dispatched_again(run);
        }
        let has_patience = !self.chance.one_in(3);
        match self.stage_of(&pull) {
            Stage::Planning if has_patience => return,
            Stage::Planned if has_patience => return self.approve_or_apply(&pull),
            Stage::Applying if self.chance.one_in(6) => return self.push(&pull),
            Stage::Applying if has_patience => return,
            Stage::Broken if has_patience => return self.comment(&pull),
            Stage::Applied if has_patience => return self.merge(&pull),
            Stage::Planning | Stage::Planned | Stage::Applying | Stage::Broken | Stage::Applied => {}
        }
        match self.chance.below(48) {
            0..=15 => self.comment(&pull),
            16..=23 => self.review(&pull),
            24..=27 => self.push(&pull),
            28..=33 => self.merge(&pull),
            34 => self.close(&pull),
            35 => self.draft(&pull),
            36..=37 => self.run_again(&pull),
            38 => self.reopen(),
            39 => self.retarget(&pull),
            40 => self.apply_by_hand(),
            41 => self.take_lock_away(),
            42..=43 => self.change_rights(),
            44 => self.change_by_hand(),
            45 => self.artifacts_expire(),
            46 => self.run_some_again(),
            _ => self.cancel(),
        }
    }

    fn has_green(&self, pull: &Pull, name: &str) -> bool {
        let green = CheckStatus::Completed(Conclusion::Success);
        let model = self.hub.model();
        model.checks.values().any(|check| check.head_sha == pull.head && check.name == name && check.status == green)
    }

    fn stage_of(&self, pull: &Pull) -> Stage {
        let laws = self.laws.lock().expect("one thread");
        let of_pull = laws.runs.values().filter(|run| run.pr_number == pull.number && run.mode == Mode::Apply);
        let newest = of_pull.max_by_key(|run| run.created_at).map(|run| (run.status, run.sha.clone()));
        drop(laws);
        match newest {
            Some((RunStatus::Pending | RunStatus::Applying, _)) => Stage::Applying,
            Some((RunStatus::Failed, sha)) if sha == pull.head => Stage::Broken,
            _ if self.has_green(pull, "stackorder/apply") => Stage::Applied,
            _ if self.has_green(pull, "stackorder/plan") => Stage::Planned,
            _ => Stage::Planning,
        }
    }

    fn approve_or_apply(&mut self, pull: &Pull) {
        if !self.is_approved(pull) {
            return self.review(pull);
        }
        // Mostly somebody who may.
        let right = if self.policy.apply.allowed_teams.is_empty() { Right::Write } else { Right::Team };
        let may: Vec<&str> = PEOPLE.into_iter().filter(|who| self.hub.model().has(right, who)).collect();
        match self.chance.pick(&may) {
            Some(author) if !self.chance.one_in(4) => self.say(pull, author, "stackorder apply"),
            Some(_) | None => self.comment(pull),
        }
    }

    fn is_approved(&self, pull: &Pull) -> bool {
        let head = pull.head.to_string();
        pull.reviews.iter().any(|review| {
            review.commit == head
                && review.state == ReviewState::Approved
                && !matches!(review.author.as_str(), "ada" | "rita")
        })
    }

    fn open(&mut self) {
        let number = self.hub.model().number();
        let base = self.hub.model().main.len() - 1;
        let head = self.changed_commit(None, base);
        let pull = Pull {
            number,
            head,
            is_open: true,
            is_merged: false,
            is_draft: false,
            base_ref: "main",
            merge_commit: None,
            merged_by: None,
            reviews: Vec::new(),
        };
        self.note(|| format!("#{number} opens"));
        let mut model = self.hub.model();
        model.pulls.insert(number, pull);
        model.tell_pull("opened", number, "ada");
        model.start_plan(number);
    }

    /// A commit on top of a head, or of the default branch, that changes one to three stacks.
    fn changed_commit(&mut self, on: Option<&Sha>, base: usize) -> Sha {
        let stacks: Vec<String> = self.graph.stacks.iter().map(|stack| stack.key.clone()).collect();
        let hub = self.hub.clone();
        let mut model = hub.model();
        let mut files = model.commits[&model.main[base]].files.clone();
        if let Some(on) = on {
            for path in model.changed(on) {
                let key = path.trim_end_matches("/main.tf").to_owned();
                let content = model.commits[on].files[&key];
                files.insert(key, content);
            }
        }
        for _ in 0..1 + self.chance.below(3) {
            // Everybody works on some of them.
            let among = if self.chance.one_in(2) { 4 } else { stacks.len() };
            let key = stacks[self.chance.below(among)].clone();
            let more = 1 + u32::try_from(self.chance.below(3)).expect("it is small");
            *files.get_mut(&key).expect("every stack has a file") += more;
        }
        model.commit(files, base)
    }

    fn push(&mut self, pull: &Pull) {
        if matches!(self.stage_of(pull), Stage::Applying) {
            self.faults.met("a head was pushed while an apply ran");
        }
        let newest = self.hub.model().main.len() - 1;
        let base = self.hub.model().commits[&pull.head].base;
        let base = if self.chance.one_in(2) { newest } else { base };
        let head = self.changed_commit(Some(&pull.head), base);
        self.note(|| format!("#{} gets {}", pull.number, head.short()));
        let mut model = self.hub.model();
        model.pulls.get_mut(&pull.number).expect("it is there").head = head;
        model.tell_pull("synchronize", pull.number, "ada");
        model.start_plan(pull.number);
    }

    fn comment(&mut self, pull: &Pull) {
        let stacks: Vec<String> = self.hub.model().changed(&pull.head);
        let some = self.chance.pick(&stacks).unwrap_or_default();
        let key = some.trim_end_matches("/main.tf");
        let body = match self.chance.below(13) {
            0..=5 => "stackorder apply".to_owned(),
            6..=7 => format!("stackorder apply {key}"),
            8 => "stackorder plan".to_owned(),
            9 => format!("stackorder plan {key}"),
            10 => "stackorder unlock".to_owned(),
            11 => format!("stackorder unlock {key}"),
            _ => "> stackorder apply\n\nlooks good".to_owned(),
        };
        if body.starts_with("stackorder unlock") {
            self.faults.met("a comment asked for locks to be freed");
        }
        let author = self.chance.pick(&PEOPLE).expect("there are people");
        self.say(pull, author, &body);
    }

    fn say(&mut self, pull: &Pull, author: &str, body: &str) {
        self.note(|| format!("{author} comments on #{}: {body:?}", pull.number));
        self.hub.model().say(pull.number, author, body);
    }

    fn review(&mut self, pull: &Pull) {
        let author = self.chance.pick(&PEOPLE).expect("there are people").to_owned();
        let state = match self.chance.below(6) {
            0 => ReviewState::ChangesRequested,
            1 => ReviewState::Dismissed,
            _ => ReviewState::Approved,
        };
        let mut model = self.hub.model();
        let submitted_at = model.now();
        let review = Review { author, state, commit: pull.head.to_string(), submitted_at };
        model.pulls.get_mut(&pull.number).expect("it is there").reviews.push(review);
    }

    fn draft(&mut self, pull: &Pull) {
        let mut model = self.hub.model();
        let pull = model.pulls.get_mut(&pull.number).expect("it is there");
        pull.is_draft = !pull.is_draft;
    }

    /// Mostly when the checks are green; sometimes somebody with the right to does it all the same.
    fn merge(&mut self, pull: &Pull) {
        let is_green = self.has_green(pull, "stackorder/apply");
        if pull.is_draft || (!is_green && !self.chance.one_in(8)) {
            return;
        }
        if pull.base_ref != "main" {
            return self.merge_elsewhere(pull);
        }
        let hub = self.hub.clone();
        let mut model = hub.model();
        let changed = model.changed(&pull.head);
        let base = model.commits[&pull.head].base;
        let moved = model.commits[&model.main[base]].files.clone();
        let mut files = model.commits[model.tip()].files.clone();
        for path in &changed {
            let key = path.trim_end_matches("/main.tf");
            if files[key] != moved[key] {
                // It conflicts with the default branch.
                return;
            }
            files.insert(key.to_owned(), model.commits[&pull.head].files[key]);
        }
        let newest = model.main.len();
        let merge = model.commit(files, newest);
        model.main.push(merge.clone());
        let merged = model.pulls.get_mut(&pull.number).expect("it is there");
        merged.is_open = false;
        merged.is_merged = true;
        merged.merge_commit = Some(merge);
        merged.merged_by = Some("bob".to_owned());
        model.tell_pull("closed", pull.number, "bob");
        model.tell_push();
        drop(model);
        self.note(|| format!("#{} is merged", pull.number));
    }

    fn close(&mut self, pull: &Pull) {
        self.note(|| format!("#{} is closed", pull.number));
        let mut model = self.hub.model();
        model.pulls.get_mut(&pull.number).expect("it is there").is_open = false;
        model.tell_pull("closed", pull.number, "ada");
    }

    fn reopen(&mut self) {
        let closed: Vec<i64> = {
            let model = self.hub.model();
            model.pulls.values().filter(|pull| !pull.is_open && !pull.is_merged).map(|pull| pull.number).collect()
        };
        let Some(number) = self.chance.pick(&closed) else { return };
        self.faults.met("a pull request was opened again");
        self.note(|| format!("#{number} is opened again"));
        let mut model = self.hub.model();
        model.pulls.get_mut(&number).expect("it is there").is_open = true;
        model.tell_pull("reopened", number, "ada");
        model.start_plan(number);
    }

    /// Somebody re-runs the newest plan workflow of the head.
    fn run_again(&mut self, pull: &Pull) {
        let mut model = self.hub.model();
        let newest = model
            .runs
            .values()
            .rev()
            .find(|run| matches!(&run.work, Work::PullRequest { head, .. } if *head == pull.head));
        let Some(id) = newest.filter(|run| run.conclusion.is_some()).map(|run| run.id) else { return };
        model.run_again(id);
    }

    fn merge_elsewhere(&mut self, pull: &Pull) {
        self.note(|| format!("#{} is merged into {}", pull.number, pull.base_ref));
        let mut model = self.hub.model();
        let merged = model.pulls.get_mut(&pull.number).expect("it is there");
        merged.is_open = false;
        merged.is_merged = true;
        merged.merged_by = Some("bob".to_owned());
        model.tell_pull("closed", pull.number, "bob");
    }

    /// Another base, or the default branch again.
    fn retarget(&mut self, pull: &Pull) {
        self.faults.met("a base was changed");
        let base = if pull.base_ref == "main" { "release" } else { "main" };
        self.note(|| format!("#{} is now for {base}", pull.number));
        let mut model = self.hub.model();
        model.pulls.get_mut(&pull.number).expect("it is there").base_ref = base;
        model.tell_pull("edited", pull.number, "ada");
    }

    /// Somebody loses a right to apply, or gets it back.
    fn change_rights(&mut self) {
        let right = if self.chance.one_in(2) { Right::Write } else { Right::Team };
        let who = self.chance.pick(&PEOPLE[..3]).expect("there are people");
        let mut model = self.hub.model();
        let has = model.has(right, who);
        model.give(right, who, !has);
        drop(model);
        if has {
            self.faults.met("somebody lost the right to apply");
        }
        self.note(|| format!("{who} {} {right:?}", if has { "loses" } else { "gets" }));
    }

    /// Somebody goes past every run.
    fn change_by_hand(&mut self) {
        let stacks: Vec<String> = self.graph.stacks.iter().map(|stack| stack.key.clone()).collect();
        let key = self.chance.pick(&stacks).expect("there are stacks");
        self.faults.met("a stack was changed by hand");
        self.note(|| format!("somebody changes {key} by hand"));
        self.infrastructure.change_by_hand(&key);
        self.changed_by_hand.push((self.clock.now(), key));
    }

    fn artifacts_expire(&mut self) {
        let runs: Vec<i64> = self.hub.model().artifacts.keys().copied().collect();
        let Some(run) = self.chance.pick(&runs) else { return };
        self.faults.met("artifacts expired");
        self.note(|| format!("the artifacts of workflow run {run} expire"));
        self.hub.model().expire(run);
    }

    /// Somebody re-runs a dispatched workflow run that ended: its jobs have nothing to do any more.
    fn run_some_again(&mut self) {
        let ended: Vec<i64> = {
            let model = self.hub.model();
            let dispatched =
                |run: &&WorkflowRun| matches!(run.work, Work::Dispatched { .. }) && run.conclusion.is_some();
            model.runs.values().filter(dispatched).map(|run| run.id).collect()
        };
        // Mostly one of the newest: the others are long forgotten.
        let Some(id) = self.chance.pick(&ended[ended.len().saturating_sub(3)..]) else { return };
        self.run_dispatched_again(id);
    }

    fn run_dispatched_again(&mut self, id: i64) {
        if self.hub.model().runs[&id].conclusion.is_none() {
            return;
        }
        self.faults.met("a workflow run was run again");
        self.note(|| format!("somebody runs workflow run {id} again"));
        self.hub.model().run_again(id);
    }

    fn cancel(&mut self) {
        let running: Vec<i64> = {
            let model = self.hub.model();
            model.runs.values().filter(|run| run.conclusion.is_none()).map(|run| run.id).collect()
        };
        if let Some(run) = self.chance.pick(&running) {
            self.note(|| format!("somebody cancels workflow run {run}"));
            self.cancel_run(run);
        }
    }
}
