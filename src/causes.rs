//! An error with everything that caused it, as one line for a log or a message.

/// The error and the chain of its causes; what an outer error has said already is not said again.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_follow_in_one_line_and_nothing_is_said_twice() {
        let error = anyhow::anyhow!("no route").context("cannot connect: no route").context("cannot open it");
        assert_eq!(chain(&*error), "cannot open it: cannot connect: no route");
    }
}
