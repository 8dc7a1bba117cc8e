//! Commands in comments (spec 30 §10): who may, how often, and once.

use serde_json::{Value, json};

use super::bells::Queue;
use super::{App, Result, Subject, repo_ref};
use crate::clock::MINUTE_MS;
use crate::command::{Command, Parsed, Verb, parse_comment};
use crate::github::webhook::IssueCommentEvent;
use crate::ids::StackKey;
use crate::render::escape;
use crate::run::close;
use crate::run::model::{AuditEntry, Lock, Repo};
use crate::run::next::Next;
use crate::run::queue;
use crate::run::scene::{JobKind, NewJob};

/// Commands of one pull request in a rolling minute.
const COMMANDS_PER_MINUTE: u32 = 10;
/// Why nothing comes of what somebody without push permission asks for.
pub(super) const NO_WRITE_PERMISSION: &str = "no write permission";

/// A comment with a command in it.
#[derive(Debug, Clone)]
pub struct CommandComment {
    pub id: i64,
    pub number: i64,
    pub author: String,
    pub command: Command,
}

/// Name of a comment's once-only claim.
pub fn claim_name(repo: &Repo, comment_id: i64) -> String {
    format!("comment:{}:{comment_id}", repo.id)
}

impl App {
    pub(super) async fn commented(
        &self,
        repo: &Repo,
        number: i64,
        comment_id: i64,
        author: &str,
        body: &str,
    ) -> Result<()> {
        let command = match parse_comment(body) {
            Parsed::NotForUs => return Ok(()),
            Parsed::Help => Command { verb: Verb::Help, keys: Vec::new() },
            Parsed::Command(command) => command,
        };
        let once = claim_name(repo, comment_id);
        if self.store.was_claimed(&once).await? {
            return Ok(());
        }
        let comment = CommandComment { id: comment_id, number, author: author.to_owned(), command };
        let github = repo_ref(repo);
        if !self.github.permission(&github, author).await?.can_push() {
            return self.decide_comment(repo, &comment, |_| Outcome::ignored(NO_WRITE_PERMISSION)).await;
        }
        let since = self.now() - MINUTE_MS;
        let target = repo.full_name.to_string();
        let recent = self.store.audit_count("command", &target, Some(number), since).await?;
        if recent >= COMMANDS_PER_MINUTE {
            let told = self.store.audit_count("command_rate_limited", &target, Some(number), since).await?;
            return self.decide_comment(repo, &comment, |next| rate_limited(next, &comment, told > 0)).await;
        }
        self.store.add_job(&reaction(repo.id, comment.id, "eyes", self.now())).await?;
        self.bells.ring(Queue::Outbox);
        if let Some(flag) = comment.command.keys.iter().find(|key| key.starts_with('-')) {
            let reason = format!("{} is a flag, and commands take stacks only", escape::code(flag));
            let refusal = Outcome::refused(&reason, refused_text(&comment.command, &reason));
            return self.decide_comment(repo, &comment, |_| refusal.clone()).await;
        }
        match comment.command.verb {
            Verb::Help => self.decide_comment(repo, &comment, |_| Outcome::reply(help_text())).await,
            Verb::Unlock => self.unlock_commented(repo, &comment).await,
            Verb::Plan => self.plan_commented(repo, &comment).await,
            Verb::Apply => self.apply_commented(repo, &comment).await,
        }
    }

    /// Of a command in a comment that was edited or deleted comes an audit row, once for each comment, and nothing else.
    pub(super) async fn comment_touched(&self, repo: &Repo, event: &IssueCommentEvent, reason: &str) -> Result<()> {
        let Parsed::Command(command) = parse_comment(&event.body) else { return Ok(()) };
        let comment =
            CommandComment { id: event.comment_id, number: event.number, author: event.sender.clone(), command };
        let once = format!("comment_{}:{}:{}", event.action, repo.id, event.comment_id);
        if self.store.was_claimed(&once).await? {
            return Ok(());
        }
        let subject = Subject::Pull { repo_id: repo.id, number: event.number };
        self.decide(&subject, |next| {
            next.effects.once.push(once.clone());
            record(next, &comment, &Outcome::ignored(reason));
        })
        .await?;
        Ok(())
    }

    /// Commits what was decided about the comment together with its claim: decided once, whatever comes twice.
    pub(super) async fn decide_comment(
        &self,
        repo: &Repo,
        comment: &CommandComment,
        mut decide: impl FnMut(&mut Next) -> Outcome + Send,
    ) -> Result<()> {
        self.decide_comment_or_wait(repo, comment, |next| Some(decide(next))).await?;
        Ok(())
    }

    /// The same, for a decision that may find that it has to ask GitHub more first: `None` commits nothing, and answers false.
    /// No answer means that somebody else has decided.
    pub(super) async fn decide_comment_or_wait(
        &self,
        repo: &Repo,
        comment: &CommandComment,
        mut decide: impl FnMut(&mut Next) -> Option<Outcome> + Send,
    ) -> Result<Option<bool>> {
        let once = claim_name(repo, comment.id);
        let subject = Subject::Pull { repo_id: repo.id, number: comment.number };
        self.decide(&subject, |next| {
            next.caused_by(&comment.author, "command");
            let Some(outcome) = decide(next) else { return false };
            next.effects.once.push(once.clone());
            record(next, comment, &outcome);
            record_claim(next, comment);
            if let Some(reply) = outcome.reply {
                next.comment(format!("reply:{}", comment.id), reply);
            }
            if outcome.dispatched {
                let now = next.now;
                next.add_job(reaction(next.scene.repo.id, comment.id, "rocket", now));
            }
            true
        })
        .await
    }

    async fn unlock_commented(&self, repo: &Repo, comment: &CommandComment) -> Result<()> {
        let keys: Vec<StackKey> = comment.command.keys.iter().filter_map(|key| StackKey::parse(key).ok()).collect();
        let named_none = keys.is_empty() && !comment.command.keys.is_empty();
        self.decide_comment(repo, comment, |next| {
            let released = if named_none { Vec::new() } else { close::unlock_own(next, &keys, &comment.author) };
            let queued = queue::own(&next.scene).map(|run| run.id.clone()).filter(|_| comment.command.keys.is_empty());
            if let Some(queued) = &queued {
                queue::leave(next, queued, &format!("{} took it out of the queue", comment.author));
            }
            if let Some(run) = released.first().map(|lock| lock.run_id.clone()) {
                next.render(&run);
            }
            match (&queued, released.is_empty()) {
                // The comment about the queue says it.
                (Some(_), true) => Outcome::default(),
                _ => Outcome::reply(unlock_text(&released, &comment.author)),
            }
        })
        .await
    }

    /// A reply that closes a command which broke off for good.
    pub(super) async fn command_broke_off(&self, repo: &Repo, number: i64, comment_id: i64, body: &str) -> Result<()> {
        let Parsed::Command(command) = parse_comment(body) else { return Ok(()) };
        let comment = CommandComment { id: comment_id, number, author: String::new(), command };
        let text = format!(
            "**{} broke off.** An internal error stopped it; the server log has it. \
             Nothing retries it any more, so comment it once more.",
            escape::code(&comment.command.canonical())
        );
        self.decide_comment(repo, &comment, |_| Outcome::reply(text.clone())).await
    }
}

/// What became of a command.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    pub reply: Option<String>,
    /// A workflow was dispatched: the comment gets its rocket.
    pub dispatched: bool,
    /// Why it was not accepted; `None` for an accepted one.
    pub refused: Option<String>,
    /// The audit action; `command` unless it was ignored or limited.
    pub action: Option<&'static str>,
    pub run_id: Option<String>,
}

impl Outcome {
    pub fn reply(text: String) -> Self {
        Self { reply: Some(text), ..Self::default() }
    }

    pub fn refused(reason: &str, reply: String) -> Self {
        Self { reply: Some(reply), refused: Some(reason.to_owned()), ..Self::default() }
    }

    pub fn started(run_id: &crate::ids::RunId) -> Self {
        Self { dispatched: true, run_id: Some(run_id.to_string()), ..Self::default() }
    }

    /// Accepted, and waiting for others: nothing is dispatched yet.
    pub fn queued(run_id: &crate::ids::RunId, text: String) -> Self {
        Self { reply: Some(text), run_id: Some(run_id.to_string()), ..Self::default() }
    }

    fn ignored(reason: &str) -> Self {
        Self { refused: Some(reason.to_owned()), action: Some("command_ignored"), ..Self::default() }
    }
}

/// `**Refused: `command`.**` and the reason, for refusals that are no gate failures.
pub fn refused_text(command: &Command, reason: &str) -> String {
    format!("**Refused: {}.** {}", escape::code(&command.canonical()), capitalised(reason))
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), chars.as_str().trim_end_matches('.')),
        None => String::new(),
    }
}

fn record(next: &mut Next, comment: &CommandComment, outcome: &Outcome) {
    let mut details = json!({
        "repo": next.scene.repo.full_name, "pr": comment.number, "verb": comment.command.verb.as_str(),
        "stacks": comment.command.keys, "comment_id": comment.id, "accepted": outcome.refused.is_none(),
    });
    if let Some(reason) = &outcome.refused {
        details["reason"] = Value::from(reason.clone());
    }
    if let Some(run_id) = &outcome.run_id {
        details["run_id"] = Value::from(run_id.clone());
    }
    let target = next.scene.repo.full_name.to_string();
    next.audit(&comment.author, outcome.action.unwrap_or("command"), target, details);
}

/// The comment is decided.
fn record_claim(next: &mut Next, comment: &CommandComment) {
    next.effects.audit.push(AuditEntry {
        at: next.now,
        actor: comment.author.clone(),
        action: "command_received".to_owned(),
        target: format!("comment:{}:{}", next.scene.repo.id, comment.id),
        details: Default::default(),
    });
}

fn rate_limited(next: &Next, comment: &CommandComment, told: bool) -> Outcome {
    let text = format!(
        "**Too many commands.** This pull request may ask {COMMANDS_PER_MINUTE} times a minute; wait a minute and comment \
         {} again.",
        escape::code(&comment.command.canonical())
    );
    let _ = next;
    Outcome {
        reply: (!told).then_some(text),
        refused: Some("rate limited".to_owned()),
        action: Some("command_rate_limited"),
        ..Outcome::default()
    }
}

pub(super) fn reaction(repo_id: i64, comment_id: i64, which: &str, now: i64) -> NewJob {
    NewJob::keyed(
        JobKind::React,
        format!("react:{repo_id}:{comment_id}:{which}"),
        json!({ "repo_id": repo_id, "comment_id": comment_id, "reaction": which }),
        now,
    )
}

fn unlock_text(released: &[Lock], author: &str) -> String {
    if released.is_empty() {
        return "This pull request holds none of these locks. State locks in S3 are not affected.".to_owned();
    }
    let lines: Vec<String> = released
        .iter()
        .map(|lock| {
            format!("- {} (held since {})", escape::code(lock.key.as_str()), crate::clock::rfc3339(lock.taken_at))
        })
        .collect();
    format!("**Unlocked by {}.**\n\n{}\n\nState locks in S3 are not affected.", escape::text(author), lines.join("\n"))
}

/// The four commands.
pub fn help_text() -> String {
    "**Stackorder** understands these commands, one per comment:\n\n\
     | Command | Does |\n| --- | --- |\n\
     | `stackorder plan [stacks]` | Plans the affected stacks of this pull request again, or the named ones |\n\
     | `stackorder apply [stacks]` | Applies the planned stacks, or the named ones, wave by wave, once the gate passes |\n\
     | `stackorder unlock [stacks]` | Releases the locks of this pull request, or the named ones; alone, it also takes a queued \
     apply out of the queue |\n\
     | `stackorder help` | Shows this |\n"
        .to_owned()
}
