//! `strategy.matrix`: from vectors, `include` and `exclude` to the legs of a job.

use serde_json::{Map, Value};

/// GitHub's limit for one job.
const LEGS_MAX: usize = 256;

/// Legs in GitHub's order. `order` is the order in which the file names the vectors; those of a computed matrix follow
/// in theirs.
pub(super) fn expand(matrix: &Value, order: &[String]) -> Result<Vec<Map<String, Value>>, String> {
    let Value::Object(members) = matrix else { return Err("Matrix must be a mapping".to_owned()) };
    let include = combinations(members.get("include"), "include")?;
    let exclude = combinations(members.get("exclude"), "exclude")?;
    let mut names: Vec<&String> = order.iter().filter(|name| members.contains_key(*name)).collect();
    names.extend(members.keys().filter(|name| !order.contains(name)));
    names.retain(|name| !matches!(name.as_str(), "include" | "exclude"));

    let mut legs = product(members, &names)?;
    legs.retain(|leg| !exclude.iter().any(|out| matches(leg, out)));
    let from_vectors = legs.len();
    let vectors = legs.clone();
    for extra in &include {
        let mut used = false;
        for (leg, original) in legs.iter_mut().take(from_vectors).zip(&vectors) {
            // An entry may add to a leg but never change what the vectors gave it.
            if extra.iter().all(|(key, value)| original.get(key).is_none_or(|own| own == value)) {
                leg.extend(extra.clone());
                used = true;
            }
        }
        if !used {
            legs.push(extra.clone());
        }
    }
    match legs.len() {
        0 => Err("Matrix must define at least one vector".to_owned()),
        n if n > LEGS_MAX => Err(format!("Matrix has {n} combinations, the maximum is {LEGS_MAX}")),
        _ => Ok(legs),
    }
}

fn product(members: &Map<String, Value>, names: &[&String]) -> Result<Vec<Map<String, Value>>, String> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut legs = vec![Map::new()];
    for name in names {
        let values = members.get(*name).and_then(Value::as_array);
        let values = values.ok_or_else(|| format!("Matrix vector '{name}' is not a list"))?;
        if values.is_empty() {
            return Err(format!("Matrix vector '{name}' does not contain any values"));
        }
        if legs.len() * values.len() > LEGS_MAX * LEGS_MAX {
            return Err(format!("Matrix has more than {} combinations", LEGS_MAX * LEGS_MAX));
        }
        let with = |leg: &Map<String, Value>, value: &Value| {
            let mut leg = leg.clone();
            leg.insert((*name).clone(), value.clone());
            leg
        };
        legs = legs.iter().flat_map(|leg| values.iter().map(|value| with(leg, value)).collect::<Vec<_>>()).collect();
    }
    Ok(legs)
}

fn combinations(value: Option<&Value>, name: &str) -> Result<Vec<Map<String, Value>>, String> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let items = value.as_array().ok_or_else(|| format!("Matrix {name} is not a list"))?;
    let entry =
        |item: &Value| item.as_object().cloned().ok_or_else(|| format!("Matrix {name} has a non-mapping entry"));
    items.iter().map(entry).collect()
}

fn matches(leg: &Map<String, Value>, filter: &Map<String, Value>) -> bool {
    filter.iter().all(|(key, value)| leg.get(key) == Some(value))
}

/// `(a, b)` behind the name of a leg whose job names no matrix value itself: every scalar, in order.
pub(super) fn suffix(leg: &Map<String, Value>, order: &[String]) -> String {
    fn scalars(value: &Value, out: &mut Vec<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| scalars(item, out)),
            Value::Object(members) => members.values().for_each(|item| scalars(item, out)),
            plain => out.push(super::expression::coerce::to_text(plain)),
        }
    }
    let mut out = Vec::new();
    let named = order.iter().filter_map(|name| leg.get(name));
    let others = leg.iter().filter(|(name, _)| !order.contains(name)).map(|(_, value)| value);
    named.chain(others).for_each(|value| scalars(value, &mut out));
    format!("({})", out.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn legs(matrix: &Value, order: &[&str]) -> Vec<Value> {
        let order: Vec<String> = order.iter().map(|n| (*n).to_owned()).collect();
        expand(matrix, &order).unwrap().into_iter().map(Value::Object).collect()
    }

    #[test]
    fn include_follows_the_documented_example() {
        let matrix = json!({"fruit": ["apple", "pear"], "animal": ["cat", "dog"], "include": [
            {"color": "green"}, {"color": "pink", "animal": "cat"}, {"fruit": "apple", "shape": "circle"},
            {"fruit": "banana"}, {"fruit": "banana", "animal": "cat"}]});
        assert_eq!(
            legs(&matrix, &["fruit", "animal"]),
            [
                json!({"fruit": "apple", "animal": "cat", "color": "pink", "shape": "circle"}),
                json!({"fruit": "apple", "animal": "dog", "color": "green", "shape": "circle"}),
                json!({"fruit": "pear", "animal": "cat", "color": "pink"}),
                json!({"fruit": "pear", "animal": "dog", "color": "green"}),
                json!({"fruit": "banana"}),
                json!({"fruit": "banana", "animal": "cat"}),
            ]
        );
    }

    #[test]
    fn exclude_takes_every_leg_that_has_all_its_values() {
        let matrix = json!({"os": ["a", "b"], "v": [1, 2], "exclude": [{"os": "a"}, {"os": "b", "v": 1}]});
        assert_eq!(legs(&matrix, &["os", "v"]), [json!({"os": "b", "v": 2})]);
    }

    #[test]
    fn only_include_gives_its_entries() {
        let matrix = json!({"include": [{"key": "a"}, {"key": "b"}]});
        assert_eq!(legs(&matrix, &[]), [json!({"key": "a"}), json!({"key": "b"})]);
    }

    #[test]
    fn odd_matrices_are_refused_in_words() {
        let refused = |matrix: Value| expand(&matrix, &[]).unwrap_err();
        assert!(refused(json!({"include": []})).contains("at least one"));
        assert!(refused(json!({"a": []})).contains("'a'"));
        assert!(refused(json!({"a": "b"})).contains("not a list"));
        assert!(refused(json!([])).contains("mapping"));
        let wide: Vec<u32> = (0..257).collect();
        assert!(refused(json!({"a": wide})).contains("257"));
    }

    #[test]
    fn a_suffix_flattens_what_the_leg_holds() {
        let leg = json!({"b": {"x": 1, "y": [true, "z"]}, "a": "first"});
        assert_eq!(suffix(leg.as_object().unwrap(), &["a".to_owned(), "b".to_owned()]), "(first, 1, true, z)");
    }
}
