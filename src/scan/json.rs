//! Reads JSON as the tool reads it in configuration: every value with its line, every key of an object, however often.
//!
//! The usual JSON library keeps no positions and only the last of equal keys, and refuses numbers and characters that the
//! tool takes; a file must not lose its module calls for that.

use serde_json::{Map, Number, Value};

use super::hcl::Problem;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub line: u32,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    /// As written.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Object(Vec<Member>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Member {
    pub name: String,
    /// Of the name.
    pub line: u32,
    pub value: Node,
}

/// Lists and objects in each other. The reader recurses that deep, which fits into the stack of any thread.
const DEPTH_MAX: usize = 200;

/// Reads one document, or says what is wrong first.
pub(super) fn read(text: &str) -> Result<Node, Problem> {
    let mut reader = Reader { text, at: 0, line: 1 };
    let node = reader.value(0)?;
    reader.skip_blank();
    match reader.peek() {
        None => Ok(node),
        Some(_) => Err(reader.problem("something stands behind the end of the document")),
    }
}

impl Node {
    /// The value as the JSON library has it; of equal keys the last one.
    pub fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(yes) => Value::Bool(*yes),
            // A number beyond the library's is still what this template means.
            Kind::Number(text) => {
                text.parse::<Number>().map_or_else(|_| Value::String(format!("${{{text}}}")), Value::Number)
            }
            Kind::Text(text) => Value::String(text.clone()),
            Kind::List(list) => Value::Array(list.iter().map(Self::to_value).collect()),
            Kind::Object(members) => Value::Object(
                members.iter().map(|member| (member.name.clone(), member.value.to_value())).collect::<Map<_, _>>(),
            ),
        }
    }

    /// Every text in it, with its line; keys are none.
    pub fn texts<'n>(&'n self, found: &mut Vec<(&'n str, u32)>) {
        match &self.kind {
            Kind::Text(text) => found.push((text, self.line)),
            Kind::List(list) => list.iter().for_each(|node| node.texts(found)),
            Kind::Object(members) => members.iter().for_each(|member| member.value.texts(found)),
            Kind::Null | Kind::Bool(_) | Kind::Number(_) => {}
        }
    }

    /// A block may stand alone or in a list of its kind.
    pub fn each(&self) -> impl Iterator<Item = &Self> {
        match &self.kind {
            Kind::List(list) => list.iter(),
            _ => std::slice::from_ref(self).iter(),
        }
    }

    /// Members of an object, comments included; none of anything else.
    pub fn all_members(&self) -> impl Iterator<Item = &Member> {
        match &self.kind {
            Kind::Object(members) => members.iter(),
            _ => [].iter(),
        }
    }

    /// Members of an object; `//` is how the JSON syntax writes a comment.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.all_members().filter(|member| member.name != "//")
    }

    /// All values under a name.
    pub fn of<'n>(&'n self, name: &'n str) -> impl Iterator<Item = &'n Self> {
        self.all_members().filter(move |member| member.name == name).map(|member| &member.value)
    }

    /// The last value under a name.
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.all_members().filter(|member| member.name == name).map(|member| &member.value).last()
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    line: u32,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn problem(&self, summary: &str) -> Problem {
        Problem { line: self.line, summary: summary.to_owned() }
    }

    fn skip_blank(&mut self) {
        while let Some(byte @ (b' ' | b'\t' | b'\r' | b'\n')) = self.peek() {
            self.line += u32::from(byte == b'\n');
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Problem> {
        self.skip_blank();
        let line = self.line;
        if depth > DEPTH_MAX {
            return Err(self.problem("nested too deeply"));
        }
        let kind = match self.peek() {
            None => return Err(self.problem("the document ends too early")),
            Some(b'{') => Kind::Object(self.object(depth)?),
            Some(b'[') => Kind::List(self.list(depth)?),
            Some(b'"') => Kind::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => Kind::Number(self.word().to_owned()),
            Some(_) => match self.word() {
                "null" => Kind::Null,
                "true" => Kind::Bool(true),
                "false" => Kind::Bool(false),
                _ => return Err(self.problem("a JSON value was expected")),
            },
        };
        Ok(Node { line, kind })
    }

    /// Letters, digits and signs, as numbers and keywords are made of.
    fn word(&mut self) -> &str {
        let rest = &self.text[self.at..];
        let is_end = |byte: u8| !byte.is_ascii_alphanumeric() && !matches!(byte, b'+' | b'-' | b'.');
        let length = rest.bytes().position(is_end).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Problem> {
        let mut list = Vec::new();
        self.at += 1;
        self.skip_blank();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(list);
        }
        loop {
            list.push(self.value(depth + 1)?);
            if !self.goes_on(b']')? {
                return Ok(list);
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Vec<Member>, Problem> {
        let mut members = Vec::new();
        self.at += 1;
        self.skip_blank();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(members);
        }
        loop {
            self.skip_blank();
            let line = self.line;
            if self.peek() != Some(b'"') {
                return Err(self.problem("the name of a property must be a string"));
            }
            let name = self.string()?;
            self.skip_blank();
            if self.peek() != Some(b':') {
                return Err(self.problem("a colon was expected behind the name of a property"));
            }
            self.at += 1;
            members.push(Member { name, line, value: self.value(depth + 1)? });
            if !self.goes_on(b'}')? {
                return Ok(members);
            }
        }
    }

    /// Behind a value: whether a comma says that another one comes.
    fn goes_on(&mut self, closing: u8) -> Result<bool, Problem> {
        self.skip_blank();
        match self.peek() {
            Some(b',') => {
                let comma = self.problem("a comma stands behind the last value");
                self.at += 1;
                self.skip_blank();
                if self.peek() == Some(closing) { Err(comma) } else { Ok(true) }
            }
            Some(byte) if byte == closing => {
                self.at += 1;
                Ok(false)
            }
            Some(_) => Err(self.problem("a comma or a closing bracket was expected")),
            None => Err(self.problem("the document ends too early")),
        }
    }

    fn string(&mut self) -> Result<String, Problem> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let length = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f));
            let Some(length) = length else { return Err(self.problem("a string is never closed")) };
            text.push_str(&rest[..length]);
            self.at += length;
            match rest.as_bytes()[length] {
                b'"' => {
                    self.at += 1;
                    return Ok(text);
                }
                b'\\' => text.push(self.escape()?),
                _ => return Err(self.problem("a control character or line break stands in a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Problem> {
        let escaped = self.text.as_bytes().get(self.at + 1).copied();
        self.at += 2;
        Ok(match escaped {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return Err(self.problem("a backslash escapes nothing")),
        })
    }

    /// The character of four digits, or of two times four; half of a pair stands for none.
    fn unicode(&mut self) -> Result<char, Problem> {
        let first = self.four_digits(self.at).ok_or_else(|| self.problem("an escape needs four hexadecimal digits"))?;
        self.at += 4;
        let second = self.text[self.at..].starts_with("\\u").then(|| self.four_digits(self.at + 2)).flatten();
        if let (0xd800..=0xdbff, Some(second @ 0xdc00..=0xdfff)) = (first, second) {
            self.at += 6;
            let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn four_digits(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 4)?;
        let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hexadecimal.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> (u32, String) {
        let Err(problem) = read(text) else { panic!("{text} is read") };
        (problem.line, problem.summary)
    }

    #[test]
    fn every_value_and_key_has_its_line() {
        let node = read("{\n  \"a\": [1, \"x\\u00e9\\/\"],\n  \"a\":\n    null\n}\n").unwrap();
        let members: Vec<(&str, u32, u32)> =
            node.members().map(|member| (member.name.as_str(), member.line, member.value.line)).collect();
        assert_eq!(members, [("a", 2, 2), ("a", 3, 4)]);
        assert_eq!(node.get("a").map(|node| &node.kind), Some(&Kind::Null));
        assert_eq!(node.of("a").next().map(Node::to_value), Some(serde_json::json!([1, "xé/"])));
    }

    #[test]
    fn what_the_tool_takes_is_taken() {
        assert_eq!(read("1e400").unwrap().to_value(), serde_json::json!("${1e400}"));
        assert_eq!(read("\"\\ud83d\\ude00 \\ud83d\"").unwrap().kind, Kind::Text("😀 \u{fffd}".to_owned()));
        assert_eq!(read("[ ]").unwrap().kind, Kind::List(Vec::new()));
    }

    #[test]
    fn the_first_mistake_has_its_line() {
        for (text, line, words) in [
            ("{\n\"a\": 1,\n}", 2, "comma"),
            ("{\n// x\n}", 2, "name of a property"),
            ("{\"a\":\n\n", 3, "too early"),
            ("{}\n{}", 2, "behind the end"),
            ("{\"a\": \"x\ny\"}", 1, "control character"),
            ("{\n\"a\" 1}", 2, "colon"),
            ("[1\n2]", 2, "comma or a closing"),
            ("{\"a\": NaN}", 1, "value was expected"),
            ("\"\\q\"", 1, "escapes nothing"),
            ("\"\\u00g0\"", 1, "four hexadecimal"),
            ("\"", 1, "never closed"),
            ("", 1, "too early"),
        ] {
            let (found, summary) = problem(text);
            assert!(found == line && summary.contains(words), "{text:?}: {found} {summary}");
        }
        assert!(problem(&"[".repeat(100_000)).1.contains("too deeply"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered_and_valid_json_is_read(text in r#"([\[\]{}:,"\\u0d8-9a-f\n é-]|null|true|1e5){0,40}"#) {
            let ours = read(&text);
            if let Ok(theirs) = serde_json::from_str::<Value>(&text) {
                let ours = ours.map(|node| node.to_value());
                proptest::prop_assert_eq!(ours, Ok(theirs));
            }
        }
    }
}
