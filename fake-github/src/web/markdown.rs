//! Comments as people see them: the part of GitHub's Markdown that bots and people here write.
//!
//! Headings, paragraphs, lists, quotes, rules, tables, fenced code, `<details>`, bold, italics, code and links.
//! Everything else, HTML above all, is shown as text. One pass over lines, no recursion over nested blocks.

use super::html::{escape, safe_target};

pub fn render(source: &str) -> String {
    let mut blocks = Blocks { html: String::new(), open: Open::Nothing };
    let mut lines = source.lines().peekable();
    while let Some(line) = lines.next() {
        let text = line.trim();
        if let Some((fence, language)) = fence(text) {
            blocks.close();
            let mut code = Vec::new();
            for line in lines.by_ref() {
                let end = line.trim();
                if end.starts_with(fence) && end.trim_start_matches(fence.chars().next().unwrap_or('`')).is_empty() {
                    break;
                }
                code.push(line);
            }
            blocks.html.push_str(&format!(
                "<pre><code class=\"{}\">{}</code></pre>",
                escape(language),
                escape(&code.join("\n"))
            ));
            continue;
        }
        if is_table_row(text) && lines.peek().is_some_and(|next| is_table_rule(next.trim())) {
            blocks.close();
            lines.next();
            let mut rows = Vec::new();
            while let Some(row) = lines.next_if(|next| is_table_row(next.trim())) {
                rows.push(row.trim());
            }
            blocks.html.push_str(&table(text, &rows));
            continue;
        }
        blocks.line(text);
    }
    blocks.close();
    blocks.html
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Open {
    Nothing,
    Paragraph,
    List,
    Numbered,
    Quote,
}

struct Blocks {
    html: String,
    open: Open,
}

impl Blocks {
    fn line(&mut self, text: &str) {
        if text.is_empty() || is_comment(text) {
            self.close();
        } else if let Some(tag) = details_tag(text) {
            self.close();
            self.html.push_str(&tag);
        } else if let Some((level, title)) = heading(text) {
            self.close();
            self.html.push_str(&format!("<h{level}>{}</h{level}>", inline(title)));
        } else if text.len() >= 3 && text.chars().all(|character| character == '-' || character == '*') {
            self.close();
            self.html.push_str("<hr>");
        } else if let Some(item) = text.strip_prefix("- ").or_else(|| text.strip_prefix("* ")) {
            self.enter(Open::List, "<ul>");
            self.html.push_str(&format!("<li>{}</li>", inline(item)));
        } else if let Some(item) = numbered(text) {
            self.enter(Open::Numbered, "<ol>");
            self.html.push_str(&format!("<li>{}</li>", inline(item)));
        } else if let Some(quoted) = text.strip_prefix('>') {
            self.enter(Open::Quote, "<blockquote>");
            self.html.push_str(&format!("{}<br>", inline(quoted.trim())));
        } else {
            let continued = self.open == Open::Paragraph;
            self.enter(Open::Paragraph, "<p>");
            if continued {
                self.html.push_str("<br>");
            }
            self.html.push_str(&inline(text));
        }
    }

    fn enter(&mut self, wanted: Open, tag: &str) {
        if self.open != wanted {
            self.close();
            self.html.push_str(tag);
            self.open = wanted;
        }
    }

    fn close(&mut self) {
        self.html.push_str(match self.open {
            Open::Nothing => "",
            Open::Paragraph => "</p>",
            Open::List => "</ul>",
            Open::Numbered => "</ol>",
            Open::Quote => "</blockquote>",
        });
        self.open = Open::Nothing;
    }
}

fn is_comment(text: &str) -> bool {
    text.starts_with("<!--") && text.ends_with("-->")
}

/// The tags of a folded part, which stand alone on their lines.
fn details_tag(text: &str) -> Option<String> {
    match text {
        "<details>" => return Some("<details>".to_owned()),
        "<details open>" => return Some("<details open>".to_owned()),
        "</details>" => return Some("</details>".to_owned()),
        _ => {}
    }
    let (lead, rest) = match text.strip_prefix("<details>") {
        Some(rest) => ("<details>", rest),
        None => ("", text),
    };
    let summary = rest.strip_prefix("<summary>")?.strip_suffix("</summary>")?;
    let plain = summary.replace("<b>", "**").replace("</b>", "**").replace("<code>", "`").replace("</code>", "`");
    Some(format!("{lead}<summary>{}</summary>", inline(&plain)))
}

fn heading(text: &str) -> Option<(usize, &str)> {
    let level = text.bytes().take_while(|byte| *byte == b'#').count();
    let title = text.get(level..)?.strip_prefix(' ')?;
    (1..=6).contains(&level).then_some((level, title))
}

fn numbered(text: &str) -> Option<&str> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return None;
    }
    text.get(digits..)?.strip_prefix(". ")
}

/// The fence that has to end the block, and the language after it.
fn fence(text: &str) -> Option<(&str, &str)> {
    let mark = ['`', '~'].into_iter().find(|mark| text.starts_with(&mark.to_string().repeat(3)))?;
    let length = text.chars().take_while(|character| *character == mark).count();
    Some((text.get(..length)?, text.get(length..)?.trim()))
}

fn is_table_row(text: &str) -> bool {
    text.contains('|') && !text.is_empty()
}

fn is_table_rule(text: &str) -> bool {
    text.contains('-') && text.chars().all(|character| matches!(character, '|' | '-' | ':' | ' '))
}

fn table(head: &str, rows: &[&str]) -> String {
    let row = |text: &str, tag: &str| -> String {
        let cells = cells(text);
        let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", inline(cell.trim()))).collect();
        format!("<tr>{cells}</tr>")
    };
    let body: String = rows.iter().map(|text| row(text, "td")).collect();
    format!("<table><thead>{}</thead><tbody>{body}</tbody></table>", row(head, "th"))
}

/// Cells of a row; `\|` is a bar inside one.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|');
    let row = row.strip_suffix('|').filter(|rest| !rest.ends_with('\\')).unwrap_or(row);
    let mut cells = vec![String::new()];
    let mut escaped = false;
    for character in row.chars() {
        match character {
            '|' if !escaped => cells.push(String::new()),
            _ => {
                if let Some(cell) = cells.last_mut() {
                    cell.push(character);
                }
            }
        }
        escaped = character == '\\' && !escaped;
    }
    cells
}

/// Code, bold, italics, links and backslash escapes inside one line.
fn inline(text: &str) -> String {
    let mut html = String::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let taken = code(rest).or_else(|| wrapped(rest)).or_else(|| anchor(rest)).or_else(|| backslash(rest));
        let (piece, length) =
            taken.unwrap_or_else(|| (escape(character.encode_utf8(&mut [0; 4])), character.len_utf8()));
        html.push_str(&piece);
        rest = &rest[length..];
    }
    html
}

fn code(text: &str) -> Option<(String, usize)> {
    let ticks = text.bytes().take_while(|byte| *byte == b'`').count();
    if ticks == 0 {
        return None;
    }
    let fence = &text[..ticks];
    let end = text[ticks..].find(fence)?;
    let inner = text[ticks..ticks + end].trim();
    Some((format!("<code>{}</code>", escape(inner)), ticks + end + ticks))
}

fn wrapped(text: &str) -> Option<(String, usize)> {
    for (mark, tag) in [("**", "b"), ("__", "b"), ("~~", "s"), ("*", "i"), ("_", "i")] {
        let Some(inner) = text.strip_prefix(mark) else { continue };
        let Some(end) = inner.find(mark).filter(|end| *end > 0 && !inner.starts_with(' ')) else { continue };
        // Links and code inside stay what they are; marks inside are rare and shown as text.
        return Some((format!("<{tag}>{}</{tag}>", plain_inline(&inner[..end])), mark.len() + end + mark.len()));
    }
    None
}

/// Inline text without further emphasis, so that nesting ends here.
fn plain_inline(text: &str) -> String {
    let mut html = String::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let taken = code(rest).or_else(|| anchor(rest)).or_else(|| backslash(rest));
        let (piece, length) =
            taken.unwrap_or_else(|| (escape(character.encode_utf8(&mut [0; 4])), character.len_utf8()));
        html.push_str(&piece);
        rest = &rest[length..];
    }
    html
}

fn anchor(text: &str) -> Option<(String, usize)> {
    let label_end = text.strip_prefix('[')?.find("](")? + 1;
    let target_start = label_end + 2;
    let target_end = target_start + text[target_start..].find(')')?;
    let (label, target) = (&text[1..label_end], &text[target_start..target_end]);
    let label = label.strip_prefix('`').and_then(|label| label.strip_suffix('`')).unwrap_or(label);
    let html = format!("<a href=\"{}\">{}</a>", escape(safe_target(target)), escape(&label.replace('\\', "")));
    Some((html, target_end + 1))
}

fn backslash(text: &str) -> Option<(String, usize)> {
    let next = text.strip_prefix('\\')?.chars().next()?;
    next.is_ascii_punctuation().then(|| (escape(next.encode_utf8(&mut [0; 4])), 1 + next.len_utf8()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bots_write_becomes_html() {
        assert_eq!(render("### Plan: **ok**"), "<h3>Plan: <b>ok</b></h3>");
        assert_eq!(render("a\nb\n\nc"), "<p>a<br>b</p><p>c</p>");
        assert_eq!(render("- x\n- `y`"), "<ul><li>x</li><li><code>y</code></li></ul>");
        assert_eq!(render("[run](https://e/x)"), "<p><a href=\"https://e/x\">run</a></p>");
        assert_eq!(render("```hcl\na < b\n```"), "<pre><code class=\"hcl\">a &lt; b</code></pre>");
        let table = "| A | B |\n| --- | --: |\n| 1 | `x\\|y` |";
        assert_eq!(
            render(table),
            "<table><thead><tr><th>A</th><th>B</th></tr></thead><tbody><tr><td>1</td><td><code>x\\|y</code></td></tr></tbody></table>"
        );
        assert_eq!(
            render("<details><summary><code>vpc</code></summary>\n\ntext\n\n</details>"),
            "<details><summary><code>vpc</code></summary><p>text</p></details>"
        );
        assert_eq!(render("<!-- robot:sticky -->\nhi"), "<p>hi</p>");
    }

    #[test]
    fn html_and_odd_input_stay_text() {
        assert_eq!(render("<script>alert(1)</script>"), "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>");
        assert_eq!(render("[x](javascript:alert(1))"), "<p><a href=\"#\">x</a>)</p>");
        assert_eq!(render("<details onclick=x>"), "<p>&lt;details onclick=x&gt;</p>");
        for odd in ["`", "**", "[x](", "```", "|", "\\", "é**é", "| a\n|-"] {
            render(odd);
        }
    }
}
