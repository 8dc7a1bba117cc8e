//! The backend's own state lock, when it stands in the way: what to do about one that a dead job left behind.
//!
//! No part of Stackorder frees a state lock. The tool says who holds it and since when; this adds the command that frees it by
//! hand.

/// Words of the tool before the lock's facts.
const LOCK_INFO: &str = "Lock Info:";

/// The id of the lock that the tool could not get, from what it wrote to its standard error.
fn in_the_way(errors: &str) -> Option<&str> {
    let (_, facts) = errors.rsplit_once(LOCK_INFO)?;
    let id = facts.lines().find_map(|line| line.trim_start_matches(['│', ' ']).strip_prefix("ID:"))?.trim();
    (!id.is_empty()).then_some(id)
}

/// What to add to the error of a step that could not get the state lock; `None` when that was not what stopped it.
pub fn advice(errors: &str, tool: &str, directory: &str) -> Option<String> {
    let id = in_the_way(errors)?;
    Some(format!(
        "The state lock {id} stands in the way; above is who took it, and when. Once nobody works under it any more, \
         free it by hand in {directory}: {tool} force-unlock {id}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bl_083_a_state_lock_that_was_left_behind_stopped_everything_without_a_word_what_to_do() {
        let errors = "Error: Error acquiring the state lock\n\nLock Info:\n  ID:        6fb3-11\n  Path:      b/a\n  \
                      Operation: OperationTypeApply\n  Who:       runner@vm-1\n  Created:   2026-11-29 19:05:33 UTC\n";
        let told = advice(errors, "terraform", "stacks/a").unwrap();
        assert!(told.ends_with("in stacks/a: terraform force-unlock 6fb3-11"), "{told}");
        let boxed = "│ Error: Error acquiring the state lock\n│ Lock Info:\n│   ID:        6fb3-11\n│   Who: x\n";
        assert_eq!(in_the_way(boxed), Some("6fb3-11"));
    }

    #[test]
    fn any_other_error_gets_no_advice() {
        for errors in
            ["", "Error: quota exceeded", "Lock Info:", "Lock Info:\n  Who: x", "ID: 5", "Lock Info:\n  ID:   "]
        {
            assert_eq!(advice(errors, "tofu", "a"), None, "{errors:?}");
        }
    }
}
