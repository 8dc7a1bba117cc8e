//! JSON Schemas of both files, for editors that complete and check YAML while it is written.
//!
//! A schema knows less than `parse`: what it accepts may still be refused (a template with a typo), but it never refuses
//! what `parse` accepts. Draft 7, because that is the newest that the common YAML language server reads whole.

use serde_json::{Map, Value, json};

/// The schema of `stackorder.yaml`.
pub fn root_schema() -> Value {
    let properties = json!({
        "version": { "description": "Version of the format.", "enum": [1, null], "default": 1 },
        "tool": tool(),
        "tool_version": text("Version of the tool that the workflows install; empty means whatever they install."),
        "environments": {
            "description": "GitHub environment of applies: from a path prefix, prefix:instance or :instance to a name.",
            "type": ["object", "null"],
            "additionalProperties": text("Name of the environment; a template."),
        },
        "backend_config": backend_config(),
        "var_files": var_files(),
        "env": env(),
        "plan_output": plan_output(),
        "plan_lock": switch("Plans and drift checks take the state lock.", false),
        "stacks": object("Which directories are stacks.", json!({
            "discover": globs("Directories that are stacks when they declare an s3 backend.", json!(["stacks/**"])),
            "include": texts("Directories that are stacks in any case."),
            "exclude": globs("Directories that never are stacks.", json!([])),
            "ignore": globs("Changed files that affect nothing.", json!(["**/*.md", "**/README*"])),
            "ignore_lockfile": switch("Changes of .terraform.lock.hcl affect nothing.", false),
            "instances": object("Where instances come from.", json!({
                "from_var_files": text("Glob from the stack directory; each file that matches is an instance."),
            })),
            "plan_files": texts("Globs from the stack directory of files made while planning that the apply needs."),
        })),
        "modules": object("Which directories are modules.", json!({
            "paths": globs("Directories that hold modules.", json!(["modules/**"])),
        })),
        "apply": object("Who may apply, when, and how.", json!({
            "mode": choice("When stacks are applied.", &["before_merge", "on_merge"], "before_merge"),
            "require_approvals": count("Approving reviews needed on the head commit.", 0, 0),
            "require_codeowner_review": switch("Each stack needs a review by one of its owners.", false),
            "allowed_teams": teams(),
            "four_eyes": switch("The author of a pull request may not ask for its apply.", false),
            "from_plan": switch("Apply the saved plan; otherwise plan again and compare.", true),
            "max_parallel": count("Most stacks of one dispatch.", 1, 20),
            "on_conflict": {
                "description": "What a request does when only locks stand in its way; \
                                refuse in before_merge and queue in on_merge by default.",
                "enum": ["refuse", "queue", null],
            },
            "require_complete": switch("The check stays open until every affected stack is applied.", true),
            "require_up_to_date": choice("Refuse heads that lack changes of the default branch.", &["affected", "off"], "affected"),
            "required_checks": list("Named checks that must have a verdict.", json!({
                "type": ["string", "number", "boolean"],
                "pattern": "^[A-Za-z0-9._-]{1,64}$",
                "not": { "enum": ["resolve", "plan", "apply"] },
            })),
        })),
        "propagate": object("How far a change reaches.", json!({
            "dependents": switch("Stacks that need a changed one are affected too.", true),
            "cross_repo": choice("Whether stacks of other repositories are planned after an apply.", &["off", "plan"], "off"),
        })),
        "drift": object("Drift checks.", json!({
            "schedule": text("Five cron fields in UTC, or after CRON_TZ=<zone>; empty means never."),
            "open_issue": switch("Keep an issue open for each drifted stack.", false),
        })),
        "checks": object("Checks on pull requests.", json!({
            "per_stack_max": count("Most affected stacks that get checks of their own.", 0, 20),
        })),
    });
    document("stackorder", "Configuration of a repository for Stackorder.", properties)
}

/// The schema of `.stackorder.yaml`.
pub fn stack_schema() -> Value {
    let mut properties = overrides();
    let own = json!({
        "tool": tool(),
        "tool_version": text("Version of the tool that the workflows install for this stack."),
        "instances": {
            "description": "The complete set of instances: a list of names, or a mapping of names to what they override.",
            "anyOf": [
                { "type": "null" },
                { "type": "array", "uniqueItems": true, "items": instance_name() },
                {
                    "type": "object",
                    "propertyNames": instance_name(),
                    "additionalProperties": object("What this instance overrides.", Value::Object(overrides())),
                },
            ],
        },
    });
    if let Value::Object(own) = own {
        properties.extend(own);
    }
    document("stack", "Settings of one stack directory for Stackorder.", Value::Object(properties))
}

/// What a stack and an instance say with the same words.
fn overrides() -> Map<String, Value> {
    let properties = json!({
        "depends_on": texts("Stacks that must be applied first: path, path:instance or owner/repo//path; templates."),
        "ignore_inferred": texts("Stacks whose state is read without depending on them; templates."),
        "watch": texts("Globs from the stack directory of files elsewhere whose changes reach the stack; templates."),
        "workspace": text("Terraform workspace; a template."),
        "backend_config": backend_config(),
        "var_files": var_files(),
        "env": env(),
        "environment": text("GitHub environment of applies; a template."),
        "plan_output": plan_output(),
        "apply": object("Who may apply.", json!({ "allowed_teams": teams() })),
    });
    match properties {
        Value::Object(properties) => properties,
        _ => unreachable!("the literal above is an object"),
    }
}

fn document(name: &str, title: &str, properties: Value) -> Value {
    let mut schema = object(title, properties);
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["$id"] =
        json!(format!("https://raw.githubusercontent.com/stackorder/stackorder/main/docs/schema/{name}.json"));
    schema["title"] = json!(title);
    schema
}

/// A mapping with these keys; those that start with `x-` are a place for anchors.
fn object(description: &str, properties: Value) -> Value {
    json!({
        "description": description,
        "type": ["object", "null"],
        "properties": properties,
        "patternProperties": { "^x-": true },
        "additionalProperties": false,
    })
}

/// Numbers and booleans are texts too, as they are written.
fn text(description: &str) -> Value {
    json!({ "description": description, "type": ["string", "number", "boolean", "null"] })
}

fn list(description: &str, items: Value) -> Value {
    json!({ "description": description, "type": ["array", "null"], "items": items })
}

fn texts(description: &str) -> Value {
    list(description, json!({ "type": ["string", "number", "boolean"], "minLength": 1 }))
}

/// Globs that start at the repository root.
fn globs(description: &str, default: Value) -> Value {
    let item = json!({ "type": ["string", "number", "boolean"], "not": { "type": "string", "pattern": "^\\.{1,2}/" } });
    let mut globs = list(description, item);
    globs["default"] = default;
    globs
}

fn switch(description: &str, default: bool) -> Value {
    json!({ "description": description, "type": ["boolean", "null"], "default": default })
}

fn count(description: &str, least: u32, default: u32) -> Value {
    json!({ "description": description, "type": ["integer", "null"], "minimum": least, "maximum": u32::MAX, "default": default })
}

fn choice(description: &str, words: &[&str], default: &str) -> Value {
    let words: Vec<Value> = words.iter().map(|word| json!(word)).chain([Value::Null]).collect();
    json!({ "description": description, "enum": words, "default": default })
}

fn tool() -> Value {
    json!({ "description": "The program that plans and applies.", "enum": ["terraform", "tofu", null] })
}

fn plan_output() -> Value {
    let description = "summary lets only counts and resource addresses leave the runner.";
    json!({ "description": description, "enum": ["full", "summary", null] })
}

fn backend_config() -> Value {
    texts("-backend-config values: name=value, or a file from the repository root; templates.")
}

fn var_files() -> Value {
    texts("-var-file values from the stack directory; templates.")
}

fn teams() -> Value {
    texts("Teams that may ask for an apply: slug or org/slug; empty means everybody with push permission.")
}

fn env() -> Value {
    let value = || json!({ "type": ["string", "number", "boolean"] });
    json!({
        "description": "Environment variables of the tool and the hooks; templates.",
        "type": ["object", "null"],
        "patternProperties": { "^x-": true },
        "additionalProperties": {
            "description": "One value, or one for each of plan, apply and drift.",
            "type": ["string", "number", "boolean", "object"],
            "properties": { "plan": value(), "apply": value(), "drift": value() },
            "patternProperties": { "^x-": true },
            "additionalProperties": false,
            "minProperties": 1,
        },
    })
}

fn instance_name() -> Value {
    let reserved = json!({ "type": "string", "pattern": "^[dD][eE][fF][aA][uU][lL][tT]$" });
    json!({ "type": ["string", "number", "boolean"], "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", "not": reserved })
}

#[cfg(test)]
mod tests;
