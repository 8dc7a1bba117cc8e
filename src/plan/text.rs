//! The plan as people read it, cut to the size that may travel (spec 12 §10, "Truncation").

use std::borrow::Cow;

/// Most bytes of plan text in a result, the final note included.
pub const PLAN_TEXT_BYTES_MAX: usize = 262_144;

/// Room kept for the note: its fixed words and two numbers of twenty digits.
const NOTE_BYTES_MAX: usize = 160;

/// The text and whether something was left out. A cut text ends with a note that says how much and where the rest is.
pub fn cut_plan_text(text: &str) -> (Cow<'_, str>, bool) {
    if text.len() <= PLAN_TEXT_BYTES_MAX {
        return (Cow::Borrowed(text), false);
    }
    let shown = cut_at_line(text, PLAN_TEXT_BYTES_MAX - NOTE_BYTES_MAX);
    let line_break = if shown.ends_with('\n') { "" } else { "\n" };
    let cut = format!(
        "{shown}{line_break}... cut here: {} of {} bytes are shown, the whole plan is in the job log\n",
        shown.len(),
        text.len()
    );
    (Cow::Owned(cut), true)
}

/// The longest beginning of at most `bytes_max` bytes that ends with a line break,
/// or at a character boundary when the first line alone is longer.
pub fn cut_at_line(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let fits = &text[..text.floor_char_boundary(bytes_max)];
    match fits.rfind('\n') {
        Some(line_break) => &fits[..=line_break],
        None => fits,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_that_fits_stays_as_it_is() {
        let text = "x".repeat(PLAN_TEXT_BYTES_MAX);
        assert_eq!(cut_plan_text(&text), (Cow::Borrowed(text.as_str()), false));
    }

    #[test]
    fn case_033_a_long_text_ends_at_a_line_with_a_note_of_both_sizes() {
        let text = "0123456789\n".repeat(30_000);
        let (cut, truncated) = cut_plan_text(&text);
        assert!(truncated && cut.len() <= PLAN_TEXT_BYTES_MAX);
        let note = cut.lines().last().unwrap();
        let shown = cut.len() - note.len() - 1;
        assert_eq!(note, format!("... cut here: {shown} of 330000 bytes are shown, the whole plan is in the job log"));
        assert_eq!(shown % 11, 0, "whole lines only");
        assert!(shown > PLAN_TEXT_BYTES_MAX - 200, "as much as fits");
    }

    #[test]
    fn one_endless_line_is_cut_between_characters() {
        let text = "€".repeat(100_000);
        let (cut, truncated) = cut_plan_text(&text);
        assert!(truncated && cut.len() <= PLAN_TEXT_BYTES_MAX);
        assert!(cut.starts_with("€€") && cut.contains("of 300000 bytes"));
    }

    proptest! {
        #[test]
        fn a_cut_is_a_beginning_that_fits(text in "[a€\n]{0,40}", max in 0_usize..60) {
            let cut = cut_at_line(&text, max);
            prop_assert!(text.starts_with(cut) && cut.len() <= max);
            prop_assert!(cut.len() == text.len() || cut.ends_with('\n') || !cut.contains('\n'));
        }
    }
}
