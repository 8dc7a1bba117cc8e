//! Walks a configuration against a state: planning says what would happen, applying does it.
//!
//! Everything is evaluated when something refers to it, so upstream resources come first without a graph. An apply is
//! the same walk with values instead of unknowns, held to the actions that were planned.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hcl_edit::expr::Expression;

use super::configuration::{LocalExec, Module, Modules, RemoteState, Repeat, Resource, Variable};
use super::expression::{Bound, Evaluated, Names, text_of};
use super::state::{Instance, OutputValue, Place, State};
use super::value::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    NoOp,
    Create,
    Update,
    Replace,
    Delete,
}

impl Action {
    /// As `actions` of the plan JSON.
    pub(super) fn names(self) -> &'static [&'static str] {
        match self {
            Self::NoOp => &["no-op"],
            Self::Create => &["create"],
            Self::Update => &["update"],
            Self::Replace => &["delete", "create"],
            Self::Delete => &["delete"],
        }
    }

    pub(super) fn from_names(names: &[&str]) -> Option<Self> {
        let all = [Self::NoOp, Self::Create, Self::Update, Self::Replace, Self::Delete];
        all.into_iter().find(|action| action.names() == names)
    }
}

pub(super) struct Change {
    pub(super) place: Place,
    pub(super) action: Action,
    pub(super) tainted: bool,
    pub(super) before: Value,
    pub(super) after: Value,
}

/// A remote state that was read.
pub(super) struct Read {
    pub(super) module: String,
    pub(super) name: String,
    pub(super) values: Value,
}

/// What a walk has seen and done.
#[derive(Default)]
pub(super) struct Record {
    pub(super) changes: Vec<Change>,
    pub(super) reads: Vec<Read>,
    pub(super) outputs: BTreeMap<String, OutputValue>,
    pub(super) errors: BTreeSet<String>,
    /// Apply only: the instances as they are now.
    pub(super) instances: BTreeMap<String, Instance>,
}

/// What an evaluation needs of the machine.
pub(super) trait Machine {
    /// The outputs of another stack's state; `None` when there is no such state.
    fn remote_outputs(&self, bucket: &str, key: &str) -> Result<Option<BTreeMap<String, OutputValue>>, String>;
    fn local_exec(&self, address: &str, command: &str, environment: &BTreeMap<String, String>) -> Result<(), String>;
    fn new_id(&self) -> String;
    fn say(&self, line: &str);
}

pub(super) enum Phase {
    Plan,
    /// Address to what was planned for it.
    Apply(BTreeMap<String, Action>),
}

pub(super) struct Walk<'r> {
    pub(super) modules: &'r Modules,
    pub(super) workspace: &'r str,
    pub(super) variables: &'r BTreeMap<String, Value>,
    pub(super) prior: &'r State,
    pub(super) phase: Phase,
    pub(super) machine: &'r dyn Machine,
    pub(super) record: RefCell<Record>,
}

impl Walk<'_> {
    pub(super) fn run(self) -> Record {
        if let Phase::Apply(_) = self.phase {
            self.record.borrow_mut().instances = self.prior.instances.clone();
        }
        let root = Scope::new(&self, ".".to_owned(), String::new(), self.variables.clone());
        root.walk();
        for (name, output) in &root.module().outputs {
            match root.output(name) {
                Ok(value) => {
                    let sensitive = output.sensitive;
                    self.record.borrow_mut().outputs.insert(name.clone(), OutputValue { value, sensitive });
                }
                Err(error) => self.fail(error),
            }
        }
        self.delete_the_rest();
        drop(root);
        self.record.into_inner()
    }

    fn fail(&self, error: String) {
        self.record.borrow_mut().errors.insert(error);
    }

    fn delete_the_rest(&self) {
        let mut record = self.record.borrow_mut();
        match &self.phase {
            Phase::Plan => {
                let kept: BTreeSet<String> = record.changes.iter().map(|change| change.place.address()).collect();
                for (address, instance) in &self.prior.instances {
                    if !kept.contains(address) {
                        record.changes.push(Change {
                            place: instance.place.clone(),
                            action: Action::Delete,
                            tainted: false,
                            before: instance.attributes(),
                            after: Value::Null,
                        });
                    }
                }
                record.changes.sort_by_key(|change| change.place.address());
            }
            Phase::Apply(planned) => {
                for (address, _) in planned.iter().filter(|(_, action)| **action == Action::Delete) {
                    record.instances.remove(address);
                    self.machine.say(&format!("{address}: Destruction complete after 0s"));
                }
            }
        }
    }
}

enum Memo {
    Working,
    Done(Evaluated),
}

/// One module in use.
struct Scope<'r> {
    walk: &'r Walk<'r>,
    /// `path.module`.
    directory: String,
    /// `module.a`, empty at the top.
    address: String,
    inputs: BTreeMap<String, Value>,
    memo: RefCell<BTreeMap<String, Memo>>,
    children: RefCell<BTreeMap<String, Rc<Scope<'r>>>>,
}

impl<'r> Scope<'r> {
    fn new(walk: &'r Walk<'r>, directory: String, address: String, inputs: BTreeMap<String, Value>) -> Self {
        Self { walk, directory, address, inputs, memo: RefCell::default(), children: RefCell::default() }
    }

    fn module(&self) -> &'r Module {
        &self.walk.modules[&self.directory]
    }

    fn walk(&self) {
        let module = self.module();
        for name in module.remote_states.keys() {
            self.report(self.remote_state(name));
        }
        for name in module.resources.keys() {
            self.report(self.resource(name));
        }
        for name in module.calls.keys() {
            match self.child(name) {
                Ok(child) => child.walk(),
                Err(error) => self.walk.fail(error),
            }
        }
    }

    fn report(&self, evaluated: Evaluated) {
        if let Err(error) = evaluated {
            self.walk.fail(error);
        }
    }

    fn bound(&self) -> Bound<'_> {
        Bound { names: self, variables: BTreeMap::new() }
    }

    /// Evaluates once; whoever refers to itself on the way is told so.
    fn once(&self, key: String, evaluate: impl FnOnce() -> Evaluated) -> Evaluated {
        match self.memo.borrow().get(&key) {
            Some(Memo::Done(done)) => return done.clone(),
            Some(Memo::Working) => return Err(format!("Cycle: {key} refers to itself")),
            None => {}
        }
        self.memo.borrow_mut().insert(key.clone(), Memo::Working);
        let done = evaluate();
        self.memo.borrow_mut().insert(key, Memo::Done(done.clone()));
        done
    }

    fn child(&self, name: &str) -> Result<Rc<Scope<'r>>, String> {
        if let Some(child) = self.children.borrow().get(name) {
            return Ok(Rc::clone(child));
        }
        let call = self.module().calls.get(name).ok_or_else(|| format!("no module call is named {name:?}"))?;
        let arguments = self.once(format!("module.{name}"), || {
            let values = call.arguments.iter().map(|(key, it)| Ok((key.clone(), self.bound().eval(it)?)));
            Ok(Value::Map(values.collect::<Result<_, String>>()?))
        })?;
        let dot = if self.address.is_empty() { "" } else { "." };
        let address = format!("{}{dot}module.{name}", self.address);
        let Value::Map(inputs) = arguments else {
            return Err(format!("{address} has no arguments"));
        };
        let declared = &self.walk.modules[&call.directory].variables;
        if let Some(unknown) = inputs.keys().find(|name| !declared.contains_key(*name)) {
            return Err(format!("Unsupported argument: {address} has no variable named {unknown:?}"));
        }
        let child = Rc::new(Scope::new(self.walk, call.directory.clone(), address, inputs));
        self.children.borrow_mut().insert(name.to_owned(), Rc::clone(&child));
        Ok(child)
    }

    fn variable(&self, name: &str) -> Evaluated {
        let variable = self
            .module()
            .variables
            .get(name)
            .ok_or_else(|| format!("Reference to undeclared input variable: {name:?} in {}", self.directory))?;
        let value = match (self.inputs.get(name), &variable.default) {
            (Some(given), _) => given.clone(),
            (None, Some(default)) => self.bound().eval(default)?,
            (None, None) => return Err(format!("No value for required variable {name:?}")),
        };
        convert(value, variable).map(|value| value.marked(variable.sensitive))
    }

    fn output(&self, name: &str) -> Evaluated {
        let output = self
            .module()
            .outputs
            .get(name)
            .ok_or_else(|| format!("Unsupported attribute: {} has no output named {name:?}", self.address))?;
        self.once(format!("output.{name}"), || {
            let value = self.bound().eval(&output.value)?;
            if value.is_sensitive() && !output.sensitive && self.address.is_empty() {
                return Err(format!("Output refers to sensitive values: {name}"));
            }
            Ok(value.marked(output.sensitive))
        })
    }

    fn remote_state(&self, name: &str) -> Evaluated {
        let data = self
            .module()
            .remote_states
            .get(name)
            .ok_or_else(|| format!("Reference to undeclared resource: data.terraform_remote_state.{name}"))?;
        self.once(format!("data.{name}"), || self.read_remote_state(name, data))
    }

    fn read_remote_state(&self, name: &str, data: &RemoteState) -> Evaluated {
        let config = self.bound().eval(&data.config)?.plain();
        let Value::Map(fields) = &config else {
            return Err(format!("data.terraform_remote_state.{name}: config must be an object"));
        };
        let field = |field: &str| match fields.get(field) {
            Some(value) => text_of(value, field),
            None => Err(format!("data.terraform_remote_state.{name}: config has no {field}")),
        };
        let workspace = match &data.workspace {
            Some(workspace) => text_of(&self.bound().eval(workspace)?, "workspace")?,
            None => "default".to_owned(),
        };
        let bucket = field("bucket")?;
        let key = super::backend::object_key(&field("key")?, &workspace, fields.get("workspace_key_prefix"));
        let outputs = self.walk.machine.remote_outputs(&bucket, &key)?.ok_or_else(|| {
            format!(
                "Unable to find remote state: data.terraform_remote_state.{name}: \
                 No stored state was found for the given workspace in the given backend (s3://{bucket}/{key})."
            )
        })?;
        // The real tool forgets the mark of a sensitive output here, and so do we.
        let outputs = Value::Map(outputs.into_iter().map(|(name, output)| (name, output.value)).collect());
        let values = Value::Map(
            [
                ("backend", Value::text("s3")),
                ("config", config.clone()),
                ("defaults", Value::Null),
                ("outputs", outputs),
                ("workspace", if data.workspace.is_some() { Value::text(workspace) } else { Value::Null }),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        );
        let read = Read { module: self.address.clone(), name: name.to_owned(), values: values.clone() };
        self.walk.record.borrow_mut().reads.push(read);
        Ok(values)
    }

    fn resource(&self, name: &str) -> Evaluated {
        let resource =
            self.module().resources.get(name).ok_or_else(|| {
                format!("Reference to undeclared resource: terraform_data.{name} in {}", self.directory)
            })?;
        self.once(format!("terraform_data.{name}"), || self.repeat(name, resource))
    }

    fn repeat(&self, name: &str, resource: &Resource) -> Evaluated {
        let place = |index| Place { module: self.address.clone(), name: name.to_owned(), index };
        match &resource.repeat {
            Repeat::Once => self.instance(place(None), resource, None),
            Repeat::Count(count) => {
                let count = match self.bound().eval(count)?.plain() {
                    Value::Number(count) => count.as_u64(),
                    _ => None,
                };
                let count = count.ok_or_else(|| format!("Invalid count argument: terraform_data.{name}"))?;
                let instances = (0..count).map(|at| {
                    let at = Value::Number(at.into());
                    let bound = ("count", Value::Map([("index".to_owned(), at.clone())].into()));
                    self.instance(place(Some(at)), resource, Some(bound))
                });
                // All of them run although one failed; the first failure is the answer.
                let instances: Vec<Evaluated> = instances.collect();
                Ok(Value::List(instances.into_iter().collect::<Result<_, _>>()?))
            }
            Repeat::ForEach(for_each) => {
                let entries = match self.bound().eval(for_each)? {
                    Value::Map(entries) => entries,
                    Value::List(items) => items
                        .into_iter()
                        .map(|item| Ok((text_of(&item, "an element of for_each")?, item)))
                        .collect::<Result<_, String>>()?,
                    _ => return Err(format!("Invalid for_each argument: terraform_data.{name}")),
                };
                let instances = entries.into_iter().map(|(key, value)| {
                    let each = [("key".to_owned(), Value::text(&key)), ("value".to_owned(), value)];
                    let bound = ("each", Value::Map(each.into()));
                    (key.clone(), self.instance(place(Some(Value::String(key))), resource, Some(bound)))
                });
                let instances: Vec<(String, Evaluated)> = instances.collect();
                let values = instances.into_iter().map(|(key, value)| Ok((key, value?)));
                Ok(Value::Map(values.collect::<Result<_, String>>()?))
            }
        }
    }

    fn instance(&self, place: Place, resource: &Resource, each: Option<(&str, Value)>) -> Evaluated {
        let mut bound = self.bound();
        bound.variables.extend(each.map(|(name, value)| (name.to_owned(), value)));
        let value = |it: &Option<Expression>| it.as_ref().map_or(Ok(Value::Null), |it| bound.eval(it));
        let (input, triggers) = (value(&resource.input)?, value(&resource.triggers_replace)?);
        let address = place.address();
        let prior = self.walk.prior.instances.get(&address);
        match &self.walk.phase {
            Phase::Plan => Ok(self.plan(place, prior, input, triggers)),
            Phase::Apply(planned) => {
                let action = planned.get(&address).copied();
                self.apply(place, action, prior, (input, triggers), |address| {
                    for provisioner in &resource.provisioners {
                        self.provision(address, provisioner, &bound)?;
                    }
                    Ok(())
                })
            }
        }
    }

    fn plan(&self, place: Place, prior: Option<&Instance>, input: Value, triggers: Value) -> Value {
        let action = decide(prior, &input, &triggers);
        let after = match (action, prior) {
            (Action::NoOp, Some(prior)) => {
                // Marks are not kept in the state; they come from the configuration each time.
                let kept = Instance { input, triggers_replace: triggers, ..prior.clone() };
                kept.attributes()
            }
            (Action::Update, Some(prior)) => object(Value::text(&prior.id), input, Value::Unknown, triggers),
            _ => {
                let output = if input == Value::Null { Value::Null } else { Value::Unknown };
                object(Value::Unknown, input, output, triggers)
            }
        };
        let before = prior.map_or(Value::Null, Instance::attributes);
        let tainted = prior.is_some_and(|prior| prior.tainted);
        let change = Change { place, action, tainted, before, after: after.clone() };
        self.walk.record.borrow_mut().changes.push(change);
        after
    }

    fn apply(
        &self,
        place: Place,
        planned: Option<Action>,
        prior: Option<&Instance>,
        (input, triggers): (Value, Value),
        provision: impl FnOnce(&str) -> Result<(), String>,
    ) -> Evaluated {
        let address = place.address();
        let say = |text: &str| self.walk.machine.say(&format!("{address}: {text}"));
        let (id, creating) = match (planned, prior) {
            (Some(Action::NoOp), Some(prior)) if decide(Some(prior), &input, &triggers) == Action::NoOp => {
                return Ok(prior.attributes());
            }
            (Some(Action::Update), Some(prior)) => (prior.id.clone(), false),
            (Some(Action::Create), None) | (Some(Action::Replace), Some(_)) => (self.walk.machine.new_id(), true),
            _ => return Err(format!("{address}: the apply came to another action than the plan")),
        };
        say(if creating { "Creating..." } else { "Modifying..." });
        let mut instance = Instance {
            place,
            id,
            output: input.plain(),
            input: input.plain(),
            triggers_replace: triggers.plain(),
            tainted: false,
        };
        let provisioned = if creating { provision(&address) } else { Ok(()) };
        instance.tainted = provisioned.is_err();
        let value = object(Value::text(&instance.id), input.clone(), input, triggers);
        if provisioned.is_ok() {
            let what = if creating { "Creation" } else { "Modifications" };
            say(&format!("{what} complete after 0s [id={}]", instance.id));
        }
        self.walk.record.borrow_mut().instances.insert(address, instance);
        provisioned.map(|()| value)
    }

    fn provision(&self, address: &str, provisioner: &LocalExec, bound: &Bound<'_>) -> Result<(), String> {
        let command = text_of(&bound.eval(&provisioner.command)?, "the command of a provisioner")?;
        let environment = match &provisioner.environment {
            None => BTreeMap::new(),
            Some(environment) => match bound.eval(environment)?.plain() {
                Value::Map(fields) => {
                    let texts = fields.iter().map(|(k, v)| Ok((k.clone(), text_of(v, "a variable of a provisioner")?)));
                    texts.collect::<Result<_, String>>()?
                }
                other => {
                    return Err(format!("the environment of a provisioner must be a map, not {}", other.to_json()));
                }
            },
        };
        self.walk.machine.local_exec(address, &command, &environment)
    }
}

impl Names for Scope<'_> {
    fn resolve(&self, name: &str, path: &[&str]) -> Result<(Value, usize), String> {
        Ok(match (name, path) {
            ("var", [name, ..]) => (self.variable(name)?, 1),
            ("local", [name, ..]) => {
                let local = self.module().locals.get(*name);
                let local = local.ok_or_else(|| format!("Reference to undeclared local value: {name:?}"))?;
                (self.once(format!("local.{name}"), || self.bound().eval(local))?, 1)
            }
            ("module", [name, output, ..]) => (self.child(name)?.output(output)?, 2),
            ("data", ["terraform_remote_state", name, ..]) => (self.remote_state(name)?, 2),
            ("terraform_data", [name, ..]) => (self.resource(name)?, 1),
            ("path", ["module", ..]) => (Value::text(&self.directory), 1),
            ("path", ["root" | "cwd", ..]) => (Value::text("."), 1),
            ("terraform", ["workspace", ..]) => (Value::text(self.walk.workspace), 1),
            (name, path) => {
                let path: Vec<&str> = [name].into_iter().chain(path.iter().copied()).collect();
                return Err(format!("Reference to undeclared resource: {}", path.join(".")));
            }
        })
    }
}

fn object(id: Value, input: Value, output: Value, triggers: Value) -> Value {
    let fields = [("id", id), ("input", input), ("output", output), ("triggers_replace", triggers)];
    Value::Map(fields.map(|(name, value)| (name.to_owned(), value)).into())
}

fn decide(prior: Option<&Instance>, input: &Value, triggers: &Value) -> Action {
    match prior {
        None => Action::Create,
        Some(prior) if prior.tainted || prior.triggers_replace != triggers.plain() => Action::Replace,
        Some(prior) if prior.input != input.plain() => Action::Update,
        Some(_) => Action::NoOp,
    }
}

/// Converts to the declared type, as far as texts and numbers stand for each other.
fn convert(value: Value, variable: &Variable) -> Evaluated {
    match &variable.kind {
        None => Ok(value),
        Some(kind) => convert_to(value, kind),
    }
}

fn convert_to(value: Value, kind: &Expression) -> Evaluated {
    let (value, sensitive) = value.unmarked();
    let converted = match (kind, value) {
        (_, value @ (Value::Null | Value::Unknown)) => value,
        (Expression::Variable(name), value) => match (name.as_str(), value) {
            ("any", value) => value,
            ("string", value) => Value::String(text_of(&value, "a value of type string")?),
            ("number", Value::String(text)) => {
                let number = text.parse().map_err(|_| format!("a number is required, not {text:?}"))?;
                Value::Number(number)
            }
            ("number", value @ Value::Number(_)) | ("bool", value @ Value::Bool(_)) => value,
            ("bool", Value::String(text)) if text == "true" || text == "false" => Value::Bool(text == "true"),
            (kind, value) => return Err(format!("{kind} is required, not {}", value.to_json())),
        },
        (Expression::FuncCall(call), value) => {
            let inner = call.args.get(0);
            match (call.name.name.as_str(), inner, value) {
                ("map", Some(inner), Value::Map(fields)) => {
                    let converted = fields.into_iter().map(|(k, v)| Ok((k, convert_to(v, inner)?)));
                    Value::Map(converted.collect::<Result<_, String>>()?)
                }
                ("list" | "set", Some(inner), Value::List(items)) => {
                    let converted = items.into_iter().map(|item| convert_to(item, inner));
                    Value::List(converted.collect::<Result<_, _>>()?)
                }
                ("object", _, value @ Value::Map(_)) | ("tuple", _, value @ Value::List(_)) => value,
                (kind, _, value) => return Err(format!("{kind} is required, not {}", value.to_json())),
            }
        }
        _ => return Err("this type of a variable is not played here".to_owned()),
    };
    Ok(converted.marked(sensitive))
}
