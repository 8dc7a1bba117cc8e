//! What was asked of git once and need not be asked again: the refs until one moves, and what never changes.
//!
//! A process for every question costs more than everything else the fake does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::records::Ref;

/// All refs of a repository by name, as `for-each-ref` printed them.
pub type Refs = BTreeMap<String, Ref>;

/// Answers about objects are kept up to this much in all, then forgotten: far more than a demo asks for.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

#[derive(Default)]
pub struct Kept {
    refs: Mutex<BTreeMap<String, Moves>>,
    answers: Mutex<Answers>,
}

#[derive(Default)]
struct Moves {
    count: u64,
    refs: Option<Arc<Refs>>,
}

#[derive(Default)]
struct Answers {
    bytes: usize,
    by_question: BTreeMap<Vec<String>, Arc<Vec<u8>>>,
}

impl Kept {
    /// The refs of a repository, read anew when one may have moved since they were read.
    pub fn refs(&self, repo: &str, read: impl FnOnce() -> Refs) -> Arc<Refs> {
        let before = match self.moves().entry(repo.to_owned()).or_default() {
            Moves { refs: Some(refs), .. } => return refs.clone(),
            Moves { count, refs: None } => *count,
        };
        let read = Arc::new(read());
        let mut moves = self.moves();
        let now = moves.entry(repo.to_owned()).or_default();
        // What moved while they were read may be missing in them.
        if now.count == before {
            now.refs = Some(read.clone());
        }
        read
    }

    /// Called after whatever may have moved a ref.
    pub fn refs_moved(&self, repo: &str) {
        let mut moves = self.moves();
        let now = moves.entry(repo.to_owned()).or_default();
        now.count += 1;
        now.refs = None;
    }

    /// The answer to a question that has the same answer for ever. What was not found may come to be, and is asked again.
    pub fn answer(&self, question: &[&str], ask: impl FnOnce() -> Option<Vec<u8>>) -> Option<Arc<Vec<u8>>> {
        let question: Vec<String> = question.iter().map(|word| (*word).to_owned()).collect();
        if let Some(known) = self.answers().by_question.get(&question) {
            return Some(known.clone());
        }
        let answer = Arc::new(ask()?);
        let mut answers = self.answers();
        if answers.bytes + answer.len() > ANSWER_BYTES_MAX {
            *answers = Answers::default();
        }
        answers.bytes += answer.len();
        answers.by_question.insert(question, answer.clone());
        Some(answer)
    }

    fn moves(&self) -> MutexGuard<'_, BTreeMap<String, Moves>> {
        self.refs.lock().expect("no panic while reading refs")
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().expect("no panic while reading objects")
    }
}
