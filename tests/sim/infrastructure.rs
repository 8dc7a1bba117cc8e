//! What is really deployed: the truth that every promise is measured by.

use std::collections::{BTreeMap, BTreeSet};

use stackorder::graph::model::{EdgeType, Graph};
use stackorder::ids::RunId;
use stackorder::plan::summary::PlanSummary;

/// The stacks as they are deployed.
#[derive(Debug)]
pub struct Infrastructure {
    stacks: BTreeMap<String, Deployed>,
    /// Whose outputs each stack reads.
    reads: BTreeMap<String, BTreeSet<String>>,
    /// Who applies each stack at this moment, by job.
    pub applying: BTreeMap<String, i64>,
    /// Every change: the stack, and the run that made it; none when somebody went past all runs.
    pub history: Vec<(String, Option<RunId>)>,
}

#[derive(Debug, Clone, Default)]
struct Deployed {
    /// Raised by whatever changes the state: a plan of an earlier one is stale.
    serial: u64,
    content: u32,
    inputs: BTreeMap<String, u32>,
    /// An apply ended half-way.
    is_broken: bool,
}

/// A plan as its bundle holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub stack: String,
    serial: u64,
    content: u32,
    inputs: BTreeMap<String, u32>,
    pub actions: String,
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.actions == "none"
    }

    pub fn summary(&self) -> PlanSummary {
        let changed: Vec<String> = match self.actions.as_str() {
            "none" => Vec::new(),
            actions => actions.split('+').map(str::to_owned).collect(),
        };
        PlanSummary {
            changes: u32::try_from(changed.len()).expect("a few"),
            changed,
            actions_digest: Some(self.actions.clone()),
            ..PlanSummary::default()
        }
    }
}

impl Infrastructure {
    pub fn of(graph: &Graph) -> Self {
        let mut reads: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for edge in graph.edges.iter().filter(|edge| edge.kind == EdgeType::ReadsState) {
            reads.entry(edge.from.key.clone()).or_default().insert(edge.to.key.clone());
        }
        let stacks = graph.stacks.iter().map(|stack| (stack.key.clone(), Deployed::default())).collect();
        let mut all = Self { stacks, reads, applying: BTreeMap::new(), history: Vec::new() };
        let keys: Vec<String> = all.stacks.keys().cloned().collect();
        for key in keys {
            let inputs = all.inputs(&key);
            all.stacks.get_mut(&key).expect("it is a stack").inputs = inputs;
        }
        all
    }

    /// Half of the changes of a stack's code change what others read of it.
    fn output(&self, key: &str) -> u32 {
        self.stacks[key].content / 2
    }

    fn inputs(&self, key: &str) -> BTreeMap<String, u32> {
        let reads = self.reads.get(key).into_iter().flatten();
        reads.map(|of| (of.clone(), self.output(of))).collect()
    }

    /// What the tool would do to bring the stack to this content, with what its upstreams say now.
    pub fn plan(&self, key: &str, content: u32) -> Plan {
        let deployed = &self.stacks[key];
        let inputs = self.inputs(key);
        let mut actions = Vec::new();
        if deployed.content != content || deployed.is_broken {
            actions.push("code");
        }
        let read = inputs.iter().filter(|(of, value)| deployed.inputs.get(*of) != Some(value));
        let read: Vec<String> = read.map(|(of, _)| format!("input[{of}]")).collect();
        let all: Vec<String> = actions.into_iter().map(str::to_owned).chain(read).collect();
        let actions = if all.is_empty() { "none".to_owned() } else { all.join("+") };
        Plan { stack: key.to_owned(), serial: deployed.serial, content, inputs, actions }
    }

    /// Applies a saved plan; the tool refuses one of another state.
    pub fn apply(&mut self, plan: &Plan, run: Option<&RunId>) -> Result<(), &'static str> {
        let deployed = self.stacks.get_mut(&plan.stack).expect("it is a stack");
        if deployed.serial != plan.serial {
            return Err("saved plan is stale");
        }
        if !plan.is_empty() {
            deployed.serial += 1;
            self.history.push((plan.stack.clone(), run.cloned()));
        }
        deployed.content = plan.content;
        deployed.inputs.clone_from(&plan.inputs);
        deployed.is_broken = false;
        Ok(())
    }

    /// An apply that ends half-way.
    pub fn break_off(&mut self, plan: &Plan, run: Option<&RunId>) {
        let deployed = self.stacks.get_mut(&plan.stack).expect("it is a stack");
        if deployed.serial == plan.serial && !plan.is_empty() {
            deployed.serial += 1;
            deployed.is_broken = true;
            self.history.push((plan.stack.clone(), run.cloned()));
        }
    }

    /// Somebody changes what is deployed without any run: the next plan of the stack puts it back.
    pub fn change_by_hand(&mut self, key: &str) {
        let deployed = self.stacks.get_mut(key).expect("it is a stack");
        deployed.serial += 1;
        deployed.is_broken = true;
        self.history.push((key.to_owned(), None));
    }
}
