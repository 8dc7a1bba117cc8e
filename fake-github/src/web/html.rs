//! Escaping, and the frame around every page.

use super::Visit;

/// Text as it may stand anywhere in HTML, attributes included.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A link with escaped text; the target is one of our own paths, or a web address.
pub fn link(target: &str, text: &str) -> String {
    format!("<a href=\"{}\">{}</a>", escape(safe_target(target)), escape(text))
}

/// Foreign addresses may only be web addresses or anchors: `javascript:` leads nowhere.
pub fn safe_target(target: &str) -> &str {
    let safe = ["http://", "https://", "/", "#", "mailto:"];
    if safe.iter().any(|prefix| target.starts_with(prefix)) { target } else { "#" }
}

/// A button that posts a form to a path.
pub fn button(action: &str, label: &str, fields: &[(&str, &str)]) -> String {
    let fields: String = fields
        .iter()
        .map(|(name, value)| format!("<input type=hidden name=\"{}\" value=\"{}\">", escape(name), escape(value)))
        .collect();
    format!("<form method=post action=\"{}\">{fields}<button>{}</button></form>", escape(action), escape(label))
}

/// A coloured word for the state of a check, run or pull request.
pub fn badge(state: &str) -> String {
    let tone = match state {
        "success" | "open" | "approved" | "merged" => "good",
        "failure" | "timed_out" | "startup_failure" | "closed" | "changes requested" => "bad",
        "action_required" | "waiting" => "warn",
        _ => "plain",
    };
    format!("<span class=\"badge {tone}\">{}</span>", escape(&state.replace('_', " ")))
}

pub fn page(visit: &Visit, people: &[String], title: &str, body: &str) -> String {
    let options: String = people
        .iter()
        .map(|login| {
            let selected = if *login == visit.login { " selected" } else { "" };
            format!("<option{selected}>{}</option>", escape(login))
        })
        .collect();
    format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\
         <title>{title} · Simulated GitHub</title><style>{STYLE}</style></head><body>\
         <header><a href=\"/\"><b>Simulated GitHub</b></a> <span class=note>runs on this machine; nothing is real</span>\
         <form method=post action=\"/_act_as\"><label>Act as <select name=login>{options}</select></label>\
         <input type=hidden name=back value=\"{path}\"><button>Switch</button></form></header>\
         <main>{notice}<h1>{title}</h1>{body}</main></body></html>",
        title = escape(title),
        path = escape(&visit.path),
        notice = notice(visit),
    )
}

/// What a form had to say, carried over by its redirect.
fn notice(visit: &Visit) -> String {
    match visit.query.get("notice") {
        Some(text) => format!("<p class=notice role=status>{}</p>", escape(text)),
        None => String::new(),
    }
}

const STYLE: &str = "\
:root{color-scheme:light dark}*{box-sizing:border-box}\
body{margin:0;font:16px/1.5 system-ui,sans-serif}\
header{display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:center;padding:.5rem 1rem;background:#57351a;color:#fff}\
header a{color:#fff}header form{margin-left:auto;display:flex;gap:.5rem;align-items:center}\
main{max-width:64rem;margin:0 auto;padding:1rem}h1{font-size:1.4rem;overflow-wrap:anywhere}h2{font-size:1.15rem}\
nav{display:flex;flex-wrap:wrap;gap:.25rem 1rem;margin:.5rem 0}\
table{border-collapse:collapse;display:block;overflow-x:auto}td,th{border:1px solid #8886;padding:.25rem .5rem;text-align:left}\
pre{overflow-x:auto;padding:.5rem;background:#8882;font-size:.85rem}code{background:#8882;padding:0 .2em;overflow-wrap:anywhere}\
pre code{background:none;padding:0}article{border:1px solid #8886;border-radius:6px;margin:1rem 0;padding:.25rem 1rem}\
article>h3{font-size:.95rem;margin:.5rem 0;font-weight:400}textarea{width:100%;min-height:6rem;font:inherit}\
button,select{font:inherit;padding:.4rem .8rem}form{margin:.5rem 0}.row{display:flex;flex-wrap:wrap;gap:.5rem}\
.badge{border-radius:1em;padding:.1rem .6rem;font-size:.85rem;border:1px solid}.good{color:#1a7f37}.bad{color:#cf222e}\
.warn{color:#9a6700}.plain{color:#777}.note{opacity:.8;font-size:.85rem}.notice{border-left:4px solid #9a6700;padding:.5rem}\
.add{background:#2da44e33}.del{background:#cf222e33}.hunk{color:#777}ul.list{padding-left:1.2rem}\
blockquote{border-left:4px solid #8886;margin-left:0;padding-left:1rem}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_leave_its_place() {
        assert_eq!(escape("<b a='1'>&\"</b>"), "&lt;b a=&#39;1&#39;&gt;&amp;&quot;&lt;/b&gt;");
        assert_eq!(link("javascript:alert(1)", "<x>"), "<a href=\"#\">&lt;x&gt;</a>");
        assert_eq!(link("https://e/?a=\"b", "x"), "<a href=\"https://e/?a=&quot;b\">x</a>");
    }
}
