//! The ways to write a module call: its path, its source, the block around it.

use super::chance::Chance;

/// A call as some files, and what was odd about it.
pub struct Written {
    /// Names and contents; HCL of the same name is put together.
    pub files: Vec<(String, String)>,
    pub constructs: Vec<&'static str>,
}

/// The path from one directory to another, both relative to the root.
pub fn relative(from: &str, to: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (from.split('/').collect(), to.split('/').collect());
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = "../".repeat(from.len() - common);
    let down = to[common..].join("/");
    let path = format!("{up}{down}");
    let path = path.trim_end_matches('/');
    if up.is_empty() { format!("./{path}") } else { path.to_owned() }
}

/// Another spelling of a path that Terraform cleans to the same.
pub fn respell(path: &str, chance: &mut Chance) -> (String, &'static str) {
    let last = path.rfind('/').expect("a local source has a slash");
    match chance.below(7) {
        0 => (format!("{path}/"), "path_with_slash_behind"),
        1 => (format!("./{path}"), "path_with_dot_in_front"),
        2 => (format!("{path}/./"), "path_with_dot_behind"),
        3 => (format!("{path}/../{}", &path[last + 1..]), "path_with_detour"),
        4 if path[..last].contains("../") && !path.ends_with("..") => {
            (format!("{}/{}", &path[..last], &path[last..]).replacen("//", "//", 1), "path_with_package_mark")
        }
        _ => (path.to_owned(), "path_plain"),
    }
}

/// A call of the module at `path` under a name that is free in its directory; `number` tells calls of a directory apart.
pub fn write(name: &str, path: &str, number: usize, chance: &mut Chance) -> Written {
    let (path, construct) = respell(path, chance);
    let mut constructs = vec![construct];
    let file = (*chance.pick(&["main.tf", "calls.tf", "z.auto.tf"])).to_owned();
    let hcl = |text: String| vec![(file.clone(), text)];
    let plain = |body: &str| format!("module \"{name}\" {{\n{body}}}\n");
    let source = format!("  source = \"{path}\"\n");
    let (kind, files) = match chance.below(26) {
        0 => ("block_on_one_line", hcl(format!("module \"{name}\" {{ source = \"{path}\" }}\n"))),
        1 => ("block_without_blanks", hcl(format!("module\"{name}\"{{source=\"{path}\"}}\n"))),
        2 => ("block_with_tabs", hcl(format!("\tmodule\t\"{name}\"\t{{\n\t\tsource\t\t=\t\"{path}\"\t\n\t}}\n"))),
        3 => ("block_with_crlf", hcl(plain(&source).replace('\n', "\r\n"))),
        4 => (
            "comments_around_the_source",
            hcl(format!(
                "module /* {{ */ \"{name}\" {{ # }}\n  /* }} */ source /* = */ = /* \" */ \"{path}\" // \"\n}} # {{\n"
            )),
        ),
        5 => (
            "comment_with_another_source",
            hcl(plain(&format!("  # source = \"./nowhere\"\n{source}  /*\n  source = \"./nowhere\"\n  */\n"))),
        ),
        6 => (
            "heredoc_before_the_source",
            hcl(plain(&format!("  text = <<-EOT\n    source = \"./nowhere\"\n    }}\n    EOT\n{source}"))),
        ),
        7 => (
            "template_before_the_source",
            hcl(plain(&format!("  text = \"}} ${{upper(\"}}\")}} %{{ if true }}\\\"%{{ endif }}\"\n{source}"))),
        ),
        8 => (
            "object_with_another_source",
            hcl(plain(&format!("  data = {{\n    source = \"./nowhere\"\n  }}\n{source}"))),
        ),
        9 => (
            "for_expression_before_the_source",
            hcl(plain(&format!("  list = [\n    for x in [\"a\"] : # ]\n    x if x != \"]\"\n  ]\n{source}"))),
        ),
        10 => ("call_with_count", hcl(plain(&format!("{source}  count = 2\n")))),
        11 => ("call_with_for_each", hcl(plain(&format!("  for_each = toset([\"a\", \"b\"])\n{source}")))),
        12 => (
            "call_with_depends_on",
            hcl(format!(
                "resource \"terraform_data\" \"d{number}\" {{}}\n{}",
                plain(&format!("{source}  depends_on = [terraform_data.d{number}]\n"))
            )),
        ),
        13 => ("call_with_providers", hcl(plain(&format!("{source}  providers = {{}}\n")))),
        14 => ("source_with_escapes", hcl(plain(&format!("  source = \"{}\"\n", path.replace('/', "\\u002f"))))),
        15 => ("label_without_quotes", hcl(format!("module {name} {{\n{source}}}\n"))),
        16 => ("blank_lines", hcl(format!("\n\n\nmodule \"{name}\" {{\n\n\n{source}\n\n}}\n\n\n"))),
        17 => ("json_object", json(number, &format!("{{\"module\": {{\"{name}\": {{\"source\": \"{path}\"}}}}}}"))),
        18 => {
            ("json_lists", json(number, &format!("[{{\"module\": [{{\"{name}\": [{{\"source\": \"{path}\"}}]}}]}}]\n")))
        }
        19 => (
            "json_comments",
            json(
                number,
                &format!(
                    "{{\n  \"//\": \"}}\",\n  \"module\": {{\n    \"{name}\": {{\"//\": \"source\", \"source\": \"{path}\"}}\n  }}\n}}\n"
                ),
            ),
        ),
        20 => (
            "json_escapes",
            json(number, &format!("{{\"module\": {{\"{name}\": {{\"source\": \"{}\"}}}}}}", path.replace('/', "\\/"))),
        ),
        21 => {
            let base = plain("  source = \"./nowhere\"\n");
            ("override_of_the_source", vec![(file, base), (format!("o{number}_override.tf"), plain(&source))])
        }
        22 => {
            let base = plain("  source = \"./nowhere\"\n");
            let laid_over = format!("{{\"module\": {{\"{name}\": {{\"source\": \"{path}\"}}}}}}");
            ("override_in_json", vec![(file, base), (format!("o{number}_override.tf.json"), laid_over)])
        }
        23 => (
            "override_without_source",
            vec![(file, plain(&source)), (format!("o{number}_override.tf"), plain("  x = 1\n"))],
        ),
        24 => ("byte_order_mark", vec![(format!("bom{number}.tf"), format!("\u{feff}{}", plain(&source)))]),
        _ => ("no_newline_at_the_end", vec![(format!("end{number}.tf"), plain(&source).trim_end().to_owned())]),
    };
    constructs.push(kind);
    Written { files, constructs }
}

fn json(number: usize, text: &str) -> Vec<(String, String)> {
    vec![(format!("call{number}.tf.json"), text.to_owned())]
}

/// A file that Terraform does not read although it holds a call.
pub fn decoy(number: usize, chance: &mut Chance) -> (String, &'static str) {
    match chance.below(5) {
        0 => (format!(".decoy{number}.tf"), "file_hidden"),
        1 => (format!("decoy{number}.tf~"), "file_of_an_editor"),
        2 => (format!("#decoy{number}.tf#"), "file_saved_by_itself"),
        3 => (format!("decoy{number}.tofu"), "file_for_opentofu"),
        _ => (format!("decoy{number}.tfvars"), "file_of_values"),
    }
}
