//! Lists: `per_page`, `page`, and the `Link` header that callers follow.

use serde_json::{Value, json};

use crate::shapes::encode;

use super::call::Call;
use super::reply::Reply;

const PER_PAGE: usize = 30;
const PER_PAGE_MAX: usize = 100;

impl Call {
    /// An array, one page of it.
    pub fn page<T>(&self, items: &[T], shape: impl Fn(&T) -> Value) -> Reply {
        let (page, headers) = self.slice(items);
        Reply { headers, ..Reply::ok(Value::Array(page.iter().map(shape).collect())) }
    }

    /// `{total_count, NAME: […]}`, one page of it.
    pub fn counted_page<T>(&self, name: &str, items: &[T], shape: impl Fn(&T) -> Value) -> Reply {
        let (page, headers) = self.slice(items);
        let shapes: Vec<Value> = page.iter().map(shape).collect();
        let mut body = json!({"total_count": items.len()});
        body[name] = Value::Array(shapes);
        Reply { headers, ..Reply::ok(body) }
    }

    fn slice<'a, T>(&self, items: &'a [T]) -> (&'a [T], Vec<(String, String)>) {
        let asked = |name: &str, default: usize| {
            self.query.get(name).and_then(|value| value.parse().ok()).filter(|value| *value > 0).unwrap_or(default)
        };
        let per_page = asked("per_page", PER_PAGE).min(PER_PAGE_MAX);
        let page = asked("page", 1);
        let last = items.len().div_ceil(per_page).max(1);
        let from = (page - 1).saturating_mul(per_page).min(items.len());
        let to = (from + per_page).min(items.len());
        (&items[from..to], self.link(page, last))
    }

    fn link(&self, page: usize, last: usize) -> Vec<(String, String)> {
        if last == 1 {
            return Vec::new();
        }
        let mut links = Vec::new();
        let mut link = |page: usize, rel: &str| links.push(format!("<{}>; rel=\"{rel}\"", self.page_url(page)));
        if page > 1 {
            link(page - 1, "prev");
        }
        if page < last {
            link(page + 1, "next");
            link(last, "last");
        }
        if page > 1 {
            link(1, "first");
        }
        vec![("link".to_owned(), links.join(", "))]
    }

    fn page_url(&self, page: usize) -> String {
        let page = page.to_string();
        let kept =
            self.query.iter().filter(|(name, _)| *name != "page").map(|(name, value)| (name.as_str(), value.as_str()));
        let query: Vec<String> = kept
            .chain([("page", page.as_str())])
            .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
            .collect();
        format!("{}{}?{}", self.hub.api_url(), self.path, query.join("&"))
    }
}
