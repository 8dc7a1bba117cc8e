//! `stackorder version`.

use super::{FormatFlag, Outcome, output};

/// What the build was told about itself; a build by hand is told nothing.
const COMMIT: &str = match option_env!("STACKORDER_BUILD_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};
const DATE: &str = match option_env!("STACKORDER_BUILD_DATE") {
    Some(date) => date,
    None => "unknown",
};
const RUST: &str = match option_env!("STACKORDER_BUILD_RUST") {
    Some(rust) => rust,
    None => concat!("rust ", env!("CARGO_PKG_RUST_VERSION")),
};

pub fn run(format: FormatFlag) -> Outcome {
    let version = env!("CARGO_PKG_VERSION");
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    let text = match format {
        FormatFlag::Text => format!("stackorder {version} ({COMMIT}, {DATE}, {RUST}, {platform})"),
        FormatFlag::Json => serde_json::json!({
            "version": version, "commit": COMMIT, "date": DATE, "rust": RUST, "platform": platform,
        })
        .to_string(),
        FormatFlag::Dot | FormatFlag::Mermaid | FormatFlag::Svg => {
            anstream::eprintln!("error: {}", super::PICTURES_ONLY_OF_GRAPHS);
            return Outcome::Error;
        }
    };
    output::printed(format!("{text}\n").as_bytes())
}
