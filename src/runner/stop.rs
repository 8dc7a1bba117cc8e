//! Why a command ends early, by what its caller does about it.

use crate::config::problem::Problem;
use crate::guide::Topic;
use crate::scan::ScanError;

/// The end of a command that did not do what it was asked for. The text is for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// Something is broken or was asked for wrongly: exit code 1.
    #[error("{0}")]
    Failed(String),
    /// The server said no, or nobody could say yes: exit code 3.
    #[error("{0}")]
    Refused(String),
}

impl Stop {
    pub fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// Ends with where the guide goes on.
    pub fn refused(topic: Topic, text: impl std::fmt::Display) -> Self {
        Self::Refused(format!("{text}\n{}", topic.hint()))
    }
}

impl From<Vec<ScanError>> for Stop {
    fn from(errors: Vec<ScanError>) -> Self {
        Self::Failed(lines(&errors))
    }
}

impl From<Vec<Problem>> for Stop {
    fn from(problems: Vec<Problem>) -> Self {
        Self::Failed(lines(&problems))
    }
}

fn lines<T: ToString>(errors: &[T]) -> String {
    errors.iter().map(T::to_string).collect::<Vec<_>>().join("\n")
}
