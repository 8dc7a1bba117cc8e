//! Why nothing started: every reason of the gate in one comment (spec 30 §5.4).

use super::{COMMENT_BYTES_MAX, escape, lists};
use crate::gate::Refusal;
use crate::guide;

const BULLETS_MAX: usize = 50;
/// Longest command that is repeated whole; one that names more stacks is cut.
const COMMAND_BYTES_MAX: usize = 1_000;
/// A reason longer than this is cut, so that one cannot push out the others.
const REASON_BYTES_MAX: usize = 4_000;

/// Reasons are Markdown that the gate made safe; the command is as somebody typed it.
pub fn comment(command: &str, refusals: &[Refusal]) -> String {
    let command = escape::code(&cut_command(command));
    let head = format!("**Refused: {command}.** Nothing has started.\n\n");
    let foot = format!(
        "\nThese are Stackorder's own checks. Environment reviewers and the role's trust policy gate the job besides.\n\
         Repair the points above and comment {command} again; `stackorder help` lists the commands.\n"
    );
    let room = COMMENT_BYTES_MAX.saturating_sub(head.len() + foot.len());
    let list = bullets(refusals, room);
    format!("{head}{list}{foot}")
}

/// One bullet a refusal, by layer, within this room; then how many more there are.
pub(super) fn bullets(refusals: &[Refusal], bytes_max: usize) -> String {
    let mut sorted: Vec<&Refusal> = refusals.iter().collect();
    sorted.sort_by_key(|refusal| refusal.layer);
    let more_bytes_max = format!("… and {} more\n", usize::MAX).len() + 1;
    let room = bytes_max.saturating_sub(more_bytes_max);
    let mut list = String::new();
    let mut shown = 0;
    for refusal in sorted.iter().take(BULLETS_MAX) {
        let bullet = bullet(refusal);
        if list.len() + bullet.len() > room {
            // Half a reason says more than none.
            if list.is_empty() {
                list = format!("{}\n", escape::cut_markdown(&bullet, room.saturating_sub(1)).trim_end());
                shown = 1;
            }
            break;
        }
        list.push_str(&bullet);
        shown += 1;
    }
    if sorted.len() > shown {
        list.push_str(&format!("\n… and {} more\n", sorted.len() - shown));
    }
    list
}

fn bullet(refusal: &Refusal) -> String {
    let stacks =
        if refusal.stacks.is_empty() { String::new() } else { format!(" ({})", lists::names(&refusal.stacks)) };
    let reason = escape::cut_markdown(&refusal.reason, REASON_BYTES_MAX);
    let help = if refusal.help.is_empty() { String::new() } else { format!(" {}", guide::link(&refusal.help)) };
    format!("- **Layer {}, {}**{stacks}: {}{help}\n", refusal.layer, escape::text(&refusal.name), reason.trim_end())
}

fn cut_command(command: &str) -> String {
    if command.len() <= COMMAND_BYTES_MAX {
        return command.to_owned();
    }
    format!("{} …", escape::cut(command, COMMAND_BYTES_MAX).trim_end())
}
