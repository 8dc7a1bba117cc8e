//! Waves: which stacks may run at the same time, and how a wave is cut into dispatches (spec 30 §6.3, §6.4).

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::ordering::Ordering;
use crate::graph::resolution::MatrixEntry;

/// The wave of each member: 0 without a predecessor among the members, else one more than the highest of them.
///
/// Predecessors are found *through* the other stacks of `ordering`, so an order that runs over a stack outside the
/// members still holds. To forget stacks altogether, cut the ordering down first: [`Ordering::within`].
/// Stacks in a cycle have no waves; they get one past whatever was found before them, so the function stays total.
pub fn waves(ordering: &Ordering, members: &BTreeSet<String>) -> BTreeMap<String, u32> {
    let mut is_member = vec![false; ordering.len()];
    for stack in members.iter().filter_map(|key| ordering.index(key)) {
        is_member[stack] = true;
    }
    let levels = levels(ordering, &is_member);
    let numbered = ordering.keys().iter().zip(levels).zip(is_member);
    numbered.filter(|(_, member)| *member).map(|((key, wave), _)| (key.clone(), wave)).collect()
}

/// For each stack by number the wave it would have; only those of members mean anything to others.
pub(crate) fn levels(ordering: &Ordering, is_member: &[bool]) -> Vec<u32> {
    let count = ordering.len();
    let mut waiting: Vec<usize> = (0..count).map(|stack| ordering.upstream(stack).len()).collect();
    let mut ready: Vec<usize> = (0..count).filter(|stack| waiting[*stack] == 0).collect();
    let mut levels = vec![0_u32; count];
    while let Some(stack) = ready.pop() {
        let passed_on = levels[stack] + u32::from(is_member[stack]);
        for link in ordering.downstream(stack) {
            levels[link.stack] = levels[link.stack].max(passed_on);
            waiting[link.stack] -= 1;
            if waiting[link.stack] == 0 {
                ready.push(link.stack);
            }
        }
    }
    levels
}

/// Most entries of one matrix: GitHub runs no more jobs of one.
pub const MATRIX_ENTRIES_MAX: usize = 256;

/// Most characters of a matrix as JSON: GitHub takes 65,535 for all inputs of a dispatch.
pub const MATRIX_CHARS_MAX: usize = 60_000;

/// Cuts entries into dispatches of at most `entries_max` (0 means the limit of GitHub) and
/// [`MATRIX_CHARS_MAX`] characters, keeping their order. An entry that is too long alone gets a dispatch of its own.
pub fn chunks(entries: Vec<MatrixEntry>, entries_max: usize) -> Vec<Vec<MatrixEntry>> {
    let entries_max = if entries_max == 0 { MATRIX_ENTRIES_MAX } else { entries_max.min(MATRIX_ENTRIES_MAX) };
    let mut chunks: Vec<Vec<MatrixEntry>> = Vec::new();
    let mut chars = 0;
    for entry in entries {
        let length = json_chars(&entry) + 1;
        match chunks.last_mut() {
            Some(chunk) if chunk.len() < entries_max && chars + length <= MATRIX_CHARS_MAX => {
                chars += length;
                chunk.push(entry);
            }
            _ => {
                // The brackets of the list.
                chars = 2 + length;
                chunks.push(vec![entry]);
            }
        }
    }
    chunks
}

fn json_chars(entry: &MatrixEntry) -> usize {
    serde_json::to_string(entry).expect("an entry holds only text and numbers").chars().count()
}

/// The plan matrix of a pull request above [`MATRIX_ENTRIES_MAX`] stacks: one job for several stacks, which it plans
/// in this order (spec 12 §6.1, 13 §8). Stacks that need another tool, version or role (`role_of` an environment or
/// key, as the caller decides) never share a job; chunks are as even as possible. Up to the limit entries stay alone.
pub fn chunk_entries(entries: Vec<MatrixEntry>, role_of: impl Fn(&MatrixEntry) -> String) -> Vec<MatrixEntry> {
    if entries.len() <= MATRIX_ENTRIES_MAX {
        return entries;
    }
    let mut groups: BTreeMap<(String, String, String), Vec<MatrixEntry>> = BTreeMap::new();
    for entry in entries {
        let group = (entry.tool.clone(), entry.tool_version.clone(), role_of(&entry));
        groups.entry(group).or_default().push(entry);
    }
    let sizes: Vec<usize> = groups.values().map(Vec::len).collect();
    let shares = shares(&sizes, MATRIX_ENTRIES_MAX);
    let mut chunks = Vec::new();
    for (mut group, share) in groups.into_values().zip(shares) {
        group.sort_by(|a, b| a.key.cmp(&b.key));
        let total = group.len();
        let mut rest = group.into_iter();
        for part in 0..share {
            let size = (part + 1) * total / share - part * total / share;
            let stacks: Vec<MatrixEntry> = rest.by_ref().take(size).collect();
            let Some(first) = stacks.first() else { continue };
            let number = u32::try_from(chunks.len() + 1).expect("at most one chunk per stack");
            let keys = stacks.iter().map(|entry| entry.key.clone()).collect();
            chunks.push(MatrixEntry { chunk: Some(number), keys, ..first.clone() });
        }
    }
    chunks
}

/// How many chunks each group gets: at least one, at most one per stack, `most` together where the groups allow it,
/// each next one where the chunks are largest.
fn shares(sizes: &[usize], most: usize) -> Vec<usize> {
    let mut shares = vec![1; sizes.len()];
    for _ in sizes.len()..most {
        let largest = (0..sizes.len())
            .filter(|group| shares[*group] < sizes[*group])
            .max_by(|a, b| (sizes[*a] * shares[*b]).cmp(&(sizes[*b] * shares[*a])).then(b.cmp(a)));
        match largest {
            Some(group) => shares[group] += 1,
            None => break,
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(count: usize) -> Vec<MatrixEntry> {
        let entry =
            |number| MatrixEntry { key: format!("live/{number:04}"), tool: "tofu".into(), ..MatrixEntry::default() };
        (0..count).map(entry).collect()
    }

    #[test]
    fn dispatches_hold_at_most_so_many_entries_and_characters() {
        let sizes = |chunks: Vec<Vec<MatrixEntry>>| chunks.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(chunks(entries(7), 3)), [3, 3, 1]);
        assert_eq!(sizes(chunks(entries(600), 0)), [256, 256, 88]);
        assert_eq!(sizes(chunks(Vec::new(), 3)), Vec::<usize>::new());
        let long = |mut entry: MatrixEntry| {
            entry.workspace = "w".repeat(900);
            entry
        };
        let cut = chunks(entries(200).into_iter().map(long).collect(), 0);
        assert_eq!(cut.iter().map(Vec::len).sum::<usize>(), 200);
        for chunk in &cut {
            let chars = serde_json::to_string(chunk).unwrap().chars().count();
            assert!(chars <= MATRIX_CHARS_MAX, "{chars}");
        }
        assert!(cut.len() > 1);
    }

    #[test]
    fn above_the_limit_stacks_share_jobs_with_their_like() {
        assert_eq!(chunk_entries(entries(256), |_| String::new()), entries(256));
        let mut many = entries(1_000);
        many[7].tool = "terraform".into();
        let chunks = chunk_entries(many, |_| String::new());
        assert_eq!(chunks.len(), 256);
        assert_eq!(chunks.iter().map(|chunk| chunk.keys.len()).sum::<usize>(), 1_000);
        assert!(chunks.iter().all(|chunk| (1..=4).contains(&chunk.keys.len())));
        assert_eq!(chunks[0].keys, ["live/0007"]);
        assert_eq!((chunks[0].chunk, chunks[255].chunk), (Some(1), Some(256)));
        assert!(chunks.iter().all(|chunk| chunk.keys.first() == Some(&chunk.key)));
    }

    #[test]
    fn more_kinds_of_jobs_than_entries_still_give_one_each() {
        let chunks = chunk_entries(entries(300), |entry| entry.key.clone());
        assert_eq!(chunks.len(), 300);
    }
}
