//! From the `source` of a module call to the identity of the module (spec 11 §6.1).
//!
//! Two calls that mean the same module must give the same key, and a source that no rule knows gives none.

use crate::graph::model::ModuleKind;

/// What a source means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Relative to the calling directory, `/`-separated.
    Local(String),
    Remote(Remote),
    Unsupported,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    pub key: String,
    pub kind: ModuleKind,
    /// The git ref or the version constraint, as written; may be empty.
    pub reference: String,
}

/// Reads a source. `home` is the host of this repository's GitHub, `version` the argument beside the source.
pub fn parse(source: &str, version: &str, home: &str) -> Source {
    let source = source.trim();
    if ["./", "../", ".\\", "..\\"].iter().any(|start| source.starts_with(start)) {
        // `//` only marks where the package ends; the tool resolves the rest inside the same checkout.
        return Source::Local(source.replace('\\', "/"));
    }
    // A key is a line of text: it goes to terminals, comments and databases.
    if source.contains(char::is_control) {
        return Source::Unsupported;
    }
    let remote = registry(source, version).or_else(|| git(source, &home.to_ascii_lowercase()));
    remote.map_or(Source::Unsupported, Source::Remote)
}

const REGISTRIES: [&str; 2] = ["registry.terraform.io", "registry.opentofu.org"];
const SHORTHANDS: [&str; 2] = ["github.com", "bitbucket.org"];

fn registry(source: &str, version: &str) -> Option<Remote> {
    if source.contains('?') || source.contains("::") || source.contains("://") {
        return None;
    }
    let (address, subdirectory) = source.split_once("//").map_or((source, ""), |(address, sub)| (address, sub));
    let segments: Vec<&str> = address.split('/').collect();
    if SHORTHANDS.iter().any(|host| segments[0].eq_ignore_ascii_case(host)) {
        return None;
    }
    let (host, [namespace, name, provider]) = match segments.as_slice() {
        [namespace, name, provider] => (None, [*namespace, *name, *provider]),
        [host, namespace, name, provider] if is_host(host) => {
            (Some(host.to_ascii_lowercase()), [*namespace, *name, *provider])
        }
        _ => return None,
    };
    let version = version.trim();
    let named = is_registry_name(namespace) && is_registry_name(name) && is_provider_name(provider);
    if !named || version.contains(char::is_control) {
        return None;
    }
    let host =
        host.filter(|host| !REGISTRIES.contains(&host.as_str())).map_or(String::new(), |host| format!("{host}/"));
    let subdirectory = clean(subdirectory)?;
    let subdirectory = if subdirectory.is_empty() { String::new() } else { format!("//{subdirectory}") };
    let at = if version.is_empty() { String::new() } else { format!("@{version}") };
    Some(Remote {
        key: format!("registry:{host}{namespace}/{name}/{provider}{subdirectory}{at}"),
        kind: ModuleKind::Registry,
        reference: version.to_owned(),
    })
}

fn is_registry_name(name: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    name.len() <= 64
        && edge(name.bytes().next())
        && edge(name.bytes().last())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn is_provider_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// A host has a dot or a port, or is `localhost`.
fn is_host(text: &str) -> bool {
    let (name, port) = text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
    let name_ok = !name.is_empty()
        && !name.starts_with(['.', '-'])
        && !name.ends_with('.')
        && !name.contains("..")
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-'));
    let port_ok = port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    name_ok && port_ok && (name.contains('.') || port.is_some() || name == "localhost")
}

fn git(source: &str, home: &str) -> Option<Remote> {
    let (forced, rest) = match source.strip_prefix("git::") {
        Some(rest) => (true, rest.trim_start()),
        None => (false, source),
    };
    if rest.contains("::") {
        return None;
    }
    let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, path) = host_and_path(address, forced)?;
    let host = host.to_ascii_lowercase();
    let (package, subdirectory) = path.split_once("//").unwrap_or((path, ""));
    let segments: Vec<&str> = package.split('/').filter(|segment| !segment.is_empty()).collect();
    let two_segments = host == home || SHORTHANDS.contains(&host.as_str());
    let length = if two_segments {
        2
    } else {
        segments.iter().position(|segment| segment.ends_with(".git")).map_or(segments.len(), |at| at + 1)
    };
    if segments.len() < length || segments.is_empty() || segments.iter().any(|segment| matches!(*segment, "." | "..")) {
        return None;
    }
    let (repository, extra) = segments.split_at(length);
    let repository = repository.join("/");
    let repository = repository.strip_suffix(".git").unwrap_or(&repository);
    // Without its ending `...git` is a way out, too.
    if matches!(repository.rsplit('/').next(), None | Some("" | "." | "..")) {
        return None;
    }
    let subdirectory = clean(&format!("{}/{subdirectory}", extra.join("/")))?;
    let reference = reference(query);
    let host = if host == home { String::new() } else { format!("{host}/") };
    let subdirectory = if subdirectory.is_empty() { String::new() } else { format!("//{subdirectory}") };
    let at = if reference.is_empty() { String::new() } else { format!("@{reference}") };
    let key = format!("{host}{repository}{subdirectory}{at}");
    // Keys of registries begin like this; a host or owner of that name must not pose as one.
    (!key.starts_with("registry:")).then_some(Remote { key, kind: ModuleKind::Git, reference })
}

/// The two parts of a git address, by the shapes 2 to 6 of the table.
fn host_and_path(address: &str, forced: bool) -> Option<(&str, &str)> {
    if let Some((scheme, rest)) = address.split_once("://") {
        let known = matches!(scheme, "ssh" | "git") || (forced && matches!(scheme, "https" | "http"));
        let (authority, path) = rest.split_once('/')?;
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        return (known && !host.trim_matches('.').is_empty()).then_some((host, path));
    }
    let (first, path) = address.split_once('/').unwrap_or((address, ""));
    if let Some((user, _)) = first.split_once('@') {
        let (host, path) = address[user.len() + 1..].split_once(':')?;
        let user_ok = !user.is_empty() && (forced || user == "git");
        return (user_ok && is_host(host)).then_some((host, path));
    }
    let shorthand = SHORTHANDS.iter().any(|host| first.eq_ignore_ascii_case(host));
    let any_host = forced && is_host(first) && first.contains('.');
    (shorthand || any_host).then_some((first, path))
}

/// The `ref` of a query, percent-decoded where it is plain ASCII.
fn reference(query: &str) -> String {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("ref=")).unwrap_or("");
    value.replace("%2F", "/").replace("%2f", "/").trim().to_owned()
}

/// A cleaned subdirectory; `None` when it leaves the package.
fn clean(path: &str) -> Option<String> {
    let path = crate::ids::normalise_path(path);
    (path != ".." && !path.starts_with("../")).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(source: &str, version: &str, home: &str) -> String {
        match parse(source, version, home) {
            Source::Local(path) => format!("local {path}"),
            Source::Remote(remote) => remote.key,
            Source::Unsupported => "unsupported".to_owned(),
        }
    }

    #[test]
    fn sources_have_the_keys_of_the_table() {
        for (source, version, expected) in [
            ("git::https://github.com/acme/mods.git//net?ref=v2", "", "acme/mods//net@v2"),
            ("git@github.com:acme/mods.git//net?ref=v2", "", "acme/mods//net@v2"),
            ("github.com/acme/mods/net/vpc?ref=v3", "", "acme/mods//net/vpc@v3"),
            ("git::https://github.com/acme/mods.git//a/b/?depth=1&ref=rel/1", "", "acme/mods//a/b@rel/1"),
            ("git::https://gitlab.com/g/sub/mods.git//m?ref=v1", "", "gitlab.com/g/sub/mods//m@v1"),
            ("git::https://git.corp.io/infra.git/net", "", "git.corp.io/infra//net"),
            ("github.com/acme/vpc/aws", "", "acme/vpc//aws"),
            ("acme/vpc/aws", "5.1.0", "registry:acme/vpc/aws@5.1.0"),
            ("localhost:8443/acme/vpc/aws", "1.0.0", "registry:localhost:8443/acme/vpc/aws@1.0.0"),
            ("acme/vpc/AWS", "", "unsupported"),
            ("acme/vpc", "", "unsupported"),
            ("gitlab.com/o/r//s?ref=v1", "", "unsupported"),
            ("deploy@github.com:o/r.git", "", "unsupported"),
            ("git::repo", "", "unsupported"),
        ] {
            assert_eq!(key(source, version, "github.com"), expected, "{source}");
        }
    }

    #[test]
    fn the_other_shapes_of_the_rules_hold_too() {
        for (source, version, expected) in [
            ("  ./m  ", "", "local ./m"),
            ("..\\m", "", "local ../m"),
            ("acme/vpc/aws//sub/./dir", " ~> 0.1 ", "registry:acme/vpc/aws//sub/dir@~> 0.1"),
            ("registry.opentofu.org/acme/vpc/aws", "", "registry:acme/vpc/aws"),
            ("registry.terraform.io/acme/vpc/aws", "", "registry:acme/vpc/aws"),
            ("app.terraform.io/acme/vpc/aws", "1", "registry:app.terraform.io/acme/vpc/aws@1"),
            ("ssh://git@github.com/acme/mods.git", "", "acme/mods"),
            ("git::ssh://git@git.corp.io:2222/g/r.git//x", "", "git.corp.io:2222/g/r//x"),
            ("git::git@git.corp.io:g/r.git", "9", "git.corp.io/g/r"),
            ("git::deploy@git.corp.io:g/r.git", "", "git.corp.io/g/r"),
            ("git@git.corp.io:g/r.git", "", "git.corp.io/g/r"),
            ("bitbucket.org/o/r", "", "bitbucket.org/o/r"),
            ("GitHub.com/acme/mods", "", "acme/mods"),
            ("git::git.corp.io/g/r", "", "git.corp.io/g/r"),
            ("https://github.com/acme/mods.git", "", "unsupported"),
            ("https://example.com/m.zip", "", "unsupported"),
            ("s3::https://s3.amazonaws.com/b/m.zip", "", "unsupported"),
            ("gcs::https://x/y", "", "unsupported"),
            ("hg::http://x.io/y", "", "unsupported"),
            ("/abs/m", "", "unsupported"),
            ("file:///abs/m", "", "unsupported"),
            ("m", "", "unsupported"),
            ("github.com/acme", "", "unsupported"),
            ("git::https://github.com/acme/mods//../x", "", "unsupported"),
            ("", "", "unsupported"),
            ("git::https://git.corp.io:2\u{1c}/g/r.git", "", "unsupported"),
            ("git::https://git.corp.io/\0/r.git", "", "unsupported"),
            ("acme/vpc/aws", "1\n2", "unsupported"),
            ("ssh://../acme/mods.git", "", "unsupported"),
            ("ssh://registry:8443/vpc/aws", "", "unsupported"),
            ("git::https://git.corp.io/g/...git", "", "unsupported"),
            ("github.com/acme/..git//x", "", "unsupported"),
            ("github.com/registry:acme/vpc/aws", "", "unsupported"),
        ] {
            assert_eq!(key(source, version, "github.com"), expected, "{source}");
        }
    }

    #[test]
    fn on_an_enterprise_server_its_own_host_goes_and_github_com_stays() {
        let home = "github.acme.io";
        assert_eq!(key("git::https://github.acme.io/o/r/extra?ref=1", "", home), "o/r//extra@1");
        assert_eq!(key("github.com/acme/mods/net", "", home), "github.com/acme/mods//net");
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_an_answer_and_keys_stay_inside(source in ".{0,80}", version in ".{0,10}") {
            if let Source::Remote(remote) = parse(&source, &version, "github.com") {
                proptest::prop_assert!(!remote.key.contains("/../"));
            }
        }
    }
}
