//! Which workflow files may report: `STACKORDER_REQUIRED_WORKFLOW_REF`, two globs around an `@` (spec 23 §3.4).

use crate::ids::ParseError;

/// `<path glob>@<ref glob>`, such as `acme/actions/.github/workflows/*.yml@refs/tags/v1*`.
///
/// Case matters. On the path side nothing but a `/` matches a `/`; on the reference side a `*` crosses them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowPin {
    path: Vec<Piece>,
    reference: Vec<Piece>,
}

/// Longest pattern, and longest text that is ever compared: matching costs their product.
const TEXT_BYTES_MAX: usize = 1024;

impl WorkflowPin {
    pub fn parse(pattern: &str) -> Result<Self, ParseError> {
        let bad =
            || ParseError::new(pattern, "a workflow pin such as acme/actions/.github/workflows/*.yml@refs/tags/v1*");
        let (path, reference) = pattern.split_once('@').ok_or_else(bad)?;
        if path.is_empty() || reference.is_empty() || pattern.len() > TEXT_BYTES_MAX {
            return Err(bad());
        }
        Ok(Self { path: pieces(path).ok_or_else(bad)?, reference: pieces(reference).ok_or_else(bad)? })
    }

    /// Whether a `job_workflow_ref` is one of those meant.
    pub fn matches(&self, job_workflow_ref: &str) -> bool {
        let Some((path, reference)) = job_workflow_ref.split_once('@') else { return false };
        job_workflow_ref.len() <= TEXT_BYTES_MAX
            && matches(&self.path, path, |c| c != '/')
            && matches(&self.reference, reference, |_| true)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Char(char),
    /// `?`
    One,
    /// `*`
    Many,
    /// `[a-z]`, `[^a-z]`: one character in any of the ranges, or in none.
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Piece {
    /// `wild` says what the wildcards may stand for.
    fn takes(&self, c: char, wild: impl Fn(char) -> bool) -> bool {
        match self {
            Piece::Char(own) => *own == c,
            Piece::One | Piece::Many => wild(c),
            Piece::Class { negated, ranges } => {
                wild(c) && ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *negated
            }
        }
    }
}

/// `None` for an unclosed or empty class, a range that runs backwards, and a `\` at the end.
fn pieces(glob: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut chars = glob.chars();
    while let Some(c) = chars.next() {
        pieces.push(match c {
            '*' => Piece::Many,
            '?' => Piece::One,
            '[' => class(&mut chars)?,
            '\\' => Piece::Char(chars.next()?),
            other => Piece::Char(other),
        });
    }
    Some(pieces)
}

/// The rest of a class, after its `[`.
fn class(chars: &mut std::str::Chars<'_>) -> Option<Piece> {
    let negated = chars.as_str().starts_with(['^', '!']);
    if negated {
        chars.next();
    }
    let mut ranges = Vec::new();
    loop {
        let from = match chars.next()? {
            // As in shells, a `]` that comes first is a member.
            ']' if !ranges.is_empty() => return Some(Piece::Class { negated, ranges }),
            '\\' => chars.next()?,
            c => c,
        };
        let ends_here = chars.as_str().starts_with("-]");
        let to = if chars.as_str().starts_with('-') && !ends_here {
            chars.next();
            match chars.next()? {
                '\\' => chars.next()?,
                c => c,
            }
        } else {
            from
        };
        if from > to {
            return None;
        }
        ranges.push((from, to));
    }
}

/// Walks both once; after a mismatch only the last `*` takes one character more.
fn matches(pattern: &[Piece], text: &str, wild: impl Fn(char) -> bool) -> bool {
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some(Piece::Many) => {
                star = Some((at, read));
                at += 1;
            }
            Some(piece) if piece.takes(text[read], &wild) => {
                at += 1;
                read += 1;
            }
            Some(_) | None => {
                let Some((star_at, taken)) = star else { return false };
                if !wild(text[taken]) {
                    return false;
                }
                star = Some((star_at, taken + 1));
                (at, read) = (star_at + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|piece| *piece == Piece::Many)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pinned(pattern: &str, reference: &str) -> bool {
        WorkflowPin::parse(pattern).unwrap().matches(reference)
    }

    #[test]
    fn the_recommended_pin_takes_its_major_version_and_nothing_else() {
        let pin = "acme/actions/.github/workflows/*.yml@refs/tags/v1*";
        for fits in [
            "acme/actions/.github/workflows/plan.yml@refs/tags/v1",
            "acme/actions/.github/workflows/plan.yml@refs/tags/v10.0.0",
        ] {
            assert!(pinned(pin, fits), "{fits}");
        }
        for stranger in [
            "acme/actions/.github/workflows/plan.yml@refs/heads/v1",
            "acme/actions/.github/workflows/sub/plan.yml@refs/tags/v1",
            "acme/actions/.github/workflows/plan.yaml@refs/tags/v1",
            "Acme/actions/.github/workflows/plan.yml@refs/tags/v1",
            "evil/acme/actions/.github/workflows/plan.yml@refs/tags/v1",
            "acme/actions/.github/workflows/plan.yml",
            "",
        ] {
            assert!(!pinned(pin, stranger), "{stranger}");
        }
    }

    #[test]
    fn wildcards_cross_slashes_on_the_reference_side_only() {
        assert!(pinned("a@refs/*", "a@refs/tags/v1"));
        assert!(pinned("a@refs?tags", "a@refs/tags"));
        for path in ["*@r", "**@r", "a?b@r", "a[!x]b@r", "a[.-0]b@r"] {
            assert!(!pinned(path, "a/b@r"), "{path}");
        }
    }

    #[test]
    fn classes_and_escapes_work_as_in_shells() {
        assert!(pinned("a[0-9]@v[^2]", "a7@v1"));
        assert!(!pinned("a[0-9]@v[^2]", "a7@v2"));
        assert!(pinned(r"a\*@v[\]]", "a*@v]"));
        assert!(!pinned(r"a\*@v", "ab@v"));
        assert!(pinned("a[]-]@v", "a-@v"));
        assert!(pinned("a[]-]@v", "a]@v"));
    }

    #[test]
    fn the_first_at_sign_separates() {
        assert!(pinned("a@v@1", "a@v@1"));
        assert!(!pinned("a@v", "a@v@1"));
    }

    #[test]
    fn malformed_pins_are_refused() {
        for bad in ["", "@", "a@", "@v", "a", "a[@v", "a@[", "a@[]", "a@[z-a]", r"a@v\", &"a".repeat(TEXT_BYTES_MAX)] {
            assert!(WorkflowPin::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_pin_of_many_stars_is_answered_quickly() {
        let pin = WorkflowPin::parse(&format!("a@{}b", "*a".repeat(400))).unwrap();
        assert!(!pin.matches(&format!("a@{}", "a".repeat(1000))));
    }

    proptest! {
        #[test]
        fn a_pin_without_wildcards_matches_exactly_itself(
            path in "[a-z./]{1,12}",
            reference in "[a-z./]{1,12}",
            other in "[a-z./@]{1,12}",
        ) {
            let text = format!("{path}@{reference}");
            prop_assert!(pinned(&text, &text));
            prop_assert_eq!(pinned(&text, &other), text == other);
        }

        #[test]
        fn any_text_parses_or_is_refused(pattern in ".{0,40}", text in ".{0,40}") {
            if let Ok(pin) = WorkflowPin::parse(&pattern) {
                pin.matches(&text);
            }
        }
    }
}
