//! Style sheet, script and icon, compiled in. Their names change with their content, so browsers keep them for good.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::page::PageError;
use crate::ids::hex;

pub const ROUTE: &str = "/assets/{name}";
const PREFIX: &str = "/assets/";
/// Hex digits of the content's hash in a name: enough to tell versions apart.
const HASH_DIGITS: usize = 16;

struct Asset {
    path: String,
    media_type: &'static str,
    content: &'static str,
}

impl Asset {
    fn new(name: &str, media_type: &'static str, content: &'static str) -> Self {
        let hash = hex(&Sha256::digest(content.as_bytes()));
        Self { path: format!("{PREFIX}{}-{name}", &hash[..HASH_DIGITS]), media_type, content }
    }
}

static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("style.css", "text/css; charset=utf-8", include_str!("assets/style.css")));
static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("live.js", "text/javascript; charset=utf-8", include_str!("assets/live.js")));
static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")));

pub fn style() -> &'static str {
    &STYLE.path
}

pub fn script() -> &'static str {
    &SCRIPT.path
}

pub fn icon() -> &'static str {
    &ICON.path
}

pub fn is_asset(path: &str) -> bool {
    path.starts_with(PREFIX)
}

pub async fn serve(Path(name): Path<String>) -> Result<Response, PageError> {
    let path = format!("{PREFIX}{name}");
    let all = [&*STYLE, &*SCRIPT, &*ICON];
    let asset =
        all.into_iter().find(|asset| asset.path == path).ok_or(PageError::NotFound("There is no such file."))?;
    let headers =
        [(header::CONTENT_TYPE, asset.media_type), (header::CACHE_CONTROL, "public, max-age=31536000, immutable")];
    Ok((headers, asset.content).into_response())
}
