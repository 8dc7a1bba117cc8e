//! Lists: where the next page is, and the answers that may be asked for again by `ETag`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use axum::http::HeaderValue;
use axum::http::header::ETAG;

use super::transport::Answer;

/// Most pages of one list.
pub(super) const PAGES_MAX: usize = 1000;

/// The address with `rel="next"` of a `Link` header.
pub(super) fn next_page(link: &str) -> Option<&str> {
    link.split(',').find_map(|entry| {
        let (address, parameters) = entry.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = parameters.split(';').any(|parameter| {
            parameter.trim().split_once('=').is_some_and(|(name, value)| {
                name.trim().eq_ignore_ascii_case("rel") && value.trim().trim_matches('"').eq_ignore_ascii_case("next")
            })
        });
        is_next.then_some(address)
    })
}

/// Most answers kept, and most bytes of one: lists of workflow runs, a page of which is below a megabyte.
const ENTRIES_MAX: usize = 64;
const ENTRY_BYTES_MAX: usize = 1024 * 1024;

/// The last answers of the lists that are polled, by address; the one used longest ago leaves first.
#[derive(Default)]
pub(super) struct EtagCache(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    by_url: BTreeMap<String, Entry>,
    uses: u64,
}

struct Entry {
    etag: HeaderValue,
    answer: Answer,
    used: u64,
}

impl EtagCache {
    pub fn find(&self, url: &str) -> Option<(HeaderValue, Answer)> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.uses += 1;
        let used = entries.uses;
        let entry = entries.by_url.get_mut(url)?;
        entry.used = used;
        Some((entry.etag.clone(), entry.answer.clone()))
    }

    pub fn keep(&self, url: &str, answer: &Answer) {
        let Some(etag) = answer.headers.get(ETAG) else { return };
        if answer.body.len() > ENTRY_BYTES_MAX {
            return;
        }
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.uses += 1;
        let entry = Entry { etag: etag.clone(), answer: answer.clone(), used: entries.uses };
        entries.by_url.insert(url.to_owned(), entry);
        if entries.by_url.len() > ENTRIES_MAX {
            let oldest = entries.by_url.iter().min_by_key(|(_, entry)| entry.used).map(|(url, _)| url.clone());
            entries.by_url.remove(&oldest.expect("the map is over its limit, so it is not empty"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found_among_the_other_links() {
        let link =
            r#"<https://x/a?page=1>; rel="prev", <https://x/a?page=3>; rel="next", <https://x/a?page=9>; rel="last""#;
        assert_eq!(next_page(link), Some("https://x/a?page=3"));
        assert_eq!(next_page(r#"<https://x/a?page=1>; rel="first""#), None);
        assert_eq!(next_page("nonsense, <unclosed; rel=next"), None);
    }

    #[test]
    fn the_cache_forgets_what_was_used_longest_ago() {
        let cache = EtagCache::default();
        let answer = Answer {
            status: axum::http::StatusCode::OK,
            headers: [(ETAG, HeaderValue::from_static("\"1\""))].into_iter().collect(),
            body: Vec::new(),
        };
        for n in 0..ENTRIES_MAX {
            cache.keep(&format!("u{n}"), &answer);
        }
        assert!(cache.find("u0").is_some());
        cache.keep("one more", &answer);
        assert!(cache.find("u0").is_some());
        assert!(cache.find("u1").is_none());
        assert!(cache.find("one more").is_some());
    }

    #[test]
    fn answers_without_an_etag_or_over_the_limit_are_not_kept() {
        let cache = EtagCache::default();
        let mut answer = Answer {
            status: axum::http::StatusCode::OK,
            headers: Default::default(),
            body: vec![0; ENTRY_BYTES_MAX + 1],
        };
        cache.keep("u", &answer);
        assert!(cache.find("u").is_none());
        answer.headers.insert(ETAG, HeaderValue::from_static("\"1\""));
        cache.keep("u", &answer);
        assert!(cache.find("u").is_none());
    }
}
