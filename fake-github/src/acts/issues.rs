//! Issues, comments, labels and reactions.

use serde_json::json;

use crate::hub::Hub;
use crate::state::State;
use crate::state::issues::{Comment, Issue, Reaction};
use crate::state::repositories::Label;

impl Issue {
    pub(crate) fn new(id: i64, number: i64, title: &str, body: &str, author: &str, now: i64) -> Issue {
        Issue {
            id,
            number,
            title: title.to_owned(),
            body: (!body.is_empty()).then(|| body.to_owned()),
            author: author.to_owned(),
            via_app: None,
            open: true,
            state_reason: None,
            labels: Vec::new(),
            locked: false,
            created_at: now,
            updated_at: now,
            closed_at: None,
            closed_by: None,
            reactions: Vec::new(),
            pull: None,
        }
    }
}

impl Hub {
    /// Opens an issue; its number.
    pub fn open_issue(
        &self,
        repo: &str,
        title: &str,
        body: &str,
        labels: &[String],
        author: &str,
        via_app: Option<i64>,
    ) -> i64 {
        self.act(|state| {
            let number = state.repository(repo).map_or(1, |found| found.next_number());
            let mut issue = Issue::new(state.next_id(), number, title, body, author, state.now());
            issue.via_app = via_app;
            issue.labels = labels.to_vec();
            state.add_labels(repo, labels);
            if let Some(found) = state.repositories.get_mut(repo) {
                found.issues.insert(number, issue);
            }
            state.emit_issue(repo, number, "opened", author);
            number
        })
    }

    /// Comments on an issue or pull request; the comment's id.
    pub fn comment(&self, repo: &str, number: i64, author: &str, body: &str) -> i64 {
        self.comment_as(repo, number, author, body, None)
    }

    pub(crate) fn comment_as(&self, repo: &str, number: i64, author: &str, body: &str, via_app: Option<i64>) -> i64 {
        self.act(|state| {
            let now = state.now();
            let comment = Comment {
                id: state.next_id(),
                repo: repo.to_owned(),
                number,
                author: author.to_owned(),
                via_app,
                body: body.to_owned(),
                created_at: now,
                updated_at: now,
                reactions: Vec::new(),
            };
            let id = comment.id;
            state.comments.insert(id, comment);
            if let Some(issue) = state.issue_mut(repo, number) {
                issue.updated_at = now;
            }
            state.emit_comment(id, "created", author, None);
            id
        })
    }

    pub fn edit_comment(&self, comment: i64, body: &str, by: &str) -> bool {
        self.act(|state| {
            let now = state.now();
            let Some(found) = state.comments.get_mut(&comment) else { return false };
            let before = std::mem::replace(&mut found.body, body.to_owned());
            found.updated_at = now;
            state.emit_comment(comment, "edited", by, Some(json!({"body": {"from": before}})));
            true
        })
    }

    pub fn delete_comment(&self, comment: i64, by: &str) -> bool {
        self.act(|state| {
            if !state.comments.contains_key(&comment) {
                return false;
            }
            state.emit_comment(comment, "deleted", by, None);
            state.comments.remove(&comment).is_some()
        })
    }

    /// Adds a reaction to a comment; the reaction, and whether it is new.
    pub fn react(&self, comment: i64, author: &str, content: &str) -> Option<(Reaction, bool)> {
        self.act(|state| {
            let (id, now) = (state.next_id(), state.now());
            let found = state.comments.get_mut(&comment)?;
            if let Some(known) = found.reactions.iter().find(|known| known.author == author && known.content == content)
            {
                return Some((known.clone(), false));
            }
            let reaction = Reaction { id, author: author.to_owned(), content: content.to_owned(), created_at: now };
            found.reactions.push(reaction.clone());
            Some((reaction, true))
        })
    }

    /// Comments of an issue or pull request, oldest first.
    pub fn comments(&self, repo: &str, number: i64) -> Vec<Comment> {
        self.lock().comments_of(repo, number).cloned().collect()
    }

    /// Reactions to a comment, oldest first.
    pub fn reactions(&self, comment: i64) -> Vec<Reaction> {
        self.lock().comments.get(&comment).map(|found| found.reactions.clone()).unwrap_or_default()
    }
}

impl State {
    /// Creates the labels that do not exist yet, as GitHub does when an issue names them.
    pub fn add_labels(&mut self, repo: &str, names: &[String]) {
        for name in names {
            let id = self.next_id();
            let Some(found) = self.repositories.get_mut(repo) else { return };
            found.labels.entry(name.clone()).or_insert_with(|| Label {
                id,
                name: name.clone(),
                color: "ededed".to_owned(),
                description: None,
            });
        }
    }
}
