//! What a story left in its directory, read without any code of the product: the fake's journal and the server's database.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{
    ColumnIndex, Connection, Database, Decode, Executor, IntoArguments, PgConnection, Row as _, SqliteConnection, Type,
};

pub struct Evidence {
    pub dir: PathBuf,
    /// Everything the fake GitHub saw, in the order in which it saw it.
    pub journal: Vec<Value>,
    /// Bodies of `runs`, by id.
    pub runs: BTreeMap<String, Value>,
    /// Bodies of `run_stacks`.
    pub rows: Vec<Value>,
    /// Bodies of `dispatches`, by id.
    pub dispatches: BTreeMap<String, Value>,
    /// Bodies of `graphs`, by commit.
    pub graphs: BTreeMap<String, Value>,
    /// In the order in which they were written.
    pub audit: Vec<Audit>,
    /// Stack to pull request, as the table has them at the end.
    pub locks: BTreeMap<String, i64>,
}

pub struct Audit {
    pub actor: String,
    pub action: String,
    pub target: String,
    pub details: Value,
}

/// A call of `POST …/dispatches` that GitHub took.
pub struct DispatchCall {
    /// Where in the journal.
    pub line: usize,
    pub run: String,
    pub mode: String,
    pub wave: u64,
    pub stacks: Vec<String>,
    pub workflow_run: i64,
}

/// A job of a dispatched workflow run that works on one stack.
pub struct Job {
    pub line: usize,
    pub mode: String,
    pub stack: String,
    pub workflow_run: i64,
    /// `None` while it runs.
    pub conclusion: Option<String>,
}

impl Evidence {
    /// Of a story whose server kept its data in the demo's own file.
    pub fn of(dir: &Path) -> Self {
        Self::with_database(dir, None)
    }

    /// Of a story whose servers kept their data there.
    pub fn on_postgres(dir: &Path, database: &str) -> Self {
        Self::with_database(dir, Some(database))
    }

    fn with_database(dir: &Path, database: Option<&str>) -> Self {
        let text = std::fs::read_to_string(dir.join("github.ndjson")).unwrap();
        let journal = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut evidence = Self {
            dir: dir.to_owned(),
            journal,
            runs: BTreeMap::new(),
            rows: Vec::new(),
            dispatches: BTreeMap::new(),
            graphs: BTreeMap::new(),
            audit: Vec::new(),
            locks: BTreeMap::new(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            match database {
                Some(url) => evidence.read(&mut PgConnection::connect(url).await.unwrap()).await,
                None => evidence.read_file().await,
            }
        });
        evidence
    }

    /// From a copy: whoever opens a database writes beside it, and evidence stays as it is.
    async fn read_file(&mut self) {
        let copy = tempfile::tempdir().unwrap();
        for file in ["server.db", "server.db-wal"] {
            let from = self.dir.join(file);
            if from.exists() {
                std::fs::copy(&from, copy.path().join(file)).unwrap();
            }
        }
        let options = SqliteConnectOptions::new().filename(copy.path().join("server.db"));
        self.read(&mut SqliteConnection::connect_with(&options).await.unwrap()).await;
    }

    async fn read<C: Connection>(&mut self, conn: &mut C)
    where
        for<'c> &'c mut C: Executor<'c, Database = C::Database>,
        <C::Database as Database>::Arguments: IntoArguments<C::Database>,
        for<'r> String: Decode<'r, C::Database> + Type<C::Database>,
        for<'r> i64: Decode<'r, C::Database> + Type<C::Database>,
        usize: ColumnIndex<<C::Database as Database>::Row>,
    {
        self.runs = keyed(conn, "select id, body from runs").await;
        self.dispatches = keyed(conn, "select id, body from dispatches").await;
        self.graphs = keyed(conn, "select sha, body from graphs").await;
        self.rows = keyed(conn, "select run_id || ' ' || stack_id, body from run_stacks").await.into_values().collect();
        let audit = sqlx::query("select actor, action, target, details from audit order by id");
        for row in audit.fetch_all(&mut *conn).await.unwrap() {
            let details = serde_json::from_str(&row.get::<String, _>(3)).unwrap();
            self.audit.push(Audit { actor: row.get(0), action: row.get(1), target: row.get(2), details });
        }
        for row in sqlx::query("select key, pr_number from locks").fetch_all(&mut *conn).await.unwrap() {
            self.locks.insert(row.get(0), row.get(1));
        }
    }

    /// Rows of apply runs that a job claimed.
    pub fn claimed(&self) -> Vec<&Value> {
        self.rows.iter().filter(|row| row["mode"] == "apply" && row["claim"].is_object()).collect()
    }

    pub fn rows_of(&self, run: &str) -> impl Iterator<Item = &Value> {
        self.rows.iter().filter(move |row| row["run_id"] == run)
    }

    /// How many workflow runs claimed stacks for each dispatch of an apply, in words that two stories share.
    pub fn accepted_workflow_runs(&self) -> BTreeMap<String, usize> {
        let applies = self.runs.iter().filter(|(_, run)| run["mode"] == "apply" && run["pr_number"].is_i64());
        let mut in_order: Vec<(i64, i64, &str)> =
            applies.map(|(id, run)| (number(&run["pr_number"]), number(&run["created_at"]), id.as_str())).collect();
        in_order.sort_unstable();
        let mut accepted: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
        for row in self.claimed() {
            let dispatch = &self.dispatches[text(&row["dispatch_id"])];
            let (pull, _, _) = in_order.iter().find(|(_, _, id)| row["run_id"] == *id).expect("its run is stored");
            let of_pull: Vec<&str> = in_order.iter().filter(|(of, _, _)| of == pull).map(|(_, _, id)| *id).collect();
            let ordinal = of_pull.iter().position(|id| row["run_id"] == *id).expect("it is among them");
            let (wave, environment, chunk) = (&dispatch["wave"], text(&dispatch["environment"]), &dispatch["chunk"]);
            let name = format!("#{pull} apply {} wave {wave} {environment} chunk {chunk}", ordinal + 1);
            accepted.entry(name).or_default().insert(number(&row["claim"]["workflow_run_id"]));
        }
        accepted.into_iter().map(|(name, runs)| (name, runs.len())).collect()
    }

    /// Every dispatch that GitHub answered with success.
    pub fn dispatch_calls(&self) -> Vec<DispatchCall> {
        let mut calls = Vec::new();
        for (line, entry) in self.journal.iter().enumerate() {
            let path = entry["path"].as_str().unwrap_or_default();
            let taken = matches!(entry["status"].as_u64(), Some(200 | 204));
            if entry["kind"] != "rest" || entry["method"] != "POST" || !path.ends_with("/dispatches") || !taken {
                continue;
            }
            let inputs = &entry["request"]["inputs"];
            let stacks: Vec<Value> = serde_json::from_str(text(&inputs["stacks"])).unwrap();
            calls.push(DispatchCall {
                line,
                run: text(&inputs["run_id"]).to_owned(),
                mode: text(&inputs["mode"]).to_owned(),
                wave: text(&inputs["wave"]).parse().unwrap(),
                stacks: stacks.iter().map(|stack| text(&stack["key"]).to_owned()).collect(),
                workflow_run: number(&entry["response"]["workflow_run_id"]),
            });
        }
        calls
    }

    /// Jobs named `… / <mode> wave <n> <stack>`, as `run.yml` names them: every start, or every end.
    pub fn jobs(&self, kind: &str) -> Vec<Job> {
        let mut jobs = Vec::new();
        for (line, entry) in self.journal.iter().enumerate().filter(|(_, entry)| entry["kind"] == kind) {
            let words: Vec<&str> = text(&entry["name"]).split(' ').collect();
            let [_, "/", mode, "wave", _, stack] = words[..] else { continue };
            jobs.push(Job {
                line,
                mode: mode.to_owned(),
                stack: stack.to_owned(),
                workflow_run: number(&entry["run_id"]),
                conclusion: entry["conclusion"].as_str().map(str::to_owned),
            });
        }
        jobs
    }

    /// Comments that were posted: the issue's number and the text, in order.
    pub fn comments(&self) -> Vec<(i64, &str)> {
        let mut comments = Vec::new();
        for entry in &self.journal {
            let segments: Vec<&str> = entry["path"].as_str().unwrap_or_default().split('/').collect();
            if let (["", "repos", _, _, "issues", issue, "comments"], Some("POST"), Some(201)) =
                (&segments[..], entry["method"].as_str(), entry["status"].as_u64())
            {
                comments.push((issue.parse().unwrap(), text(&entry["request"]["body"])));
            }
        }
        comments
    }
}

async fn keyed<C: Connection>(conn: &mut C, query: &'static str) -> BTreeMap<String, Value>
where
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
    <C::Database as Database>::Arguments: IntoArguments<C::Database>,
    for<'r> String: Decode<'r, C::Database> + Type<C::Database>,
    usize: ColumnIndex<<C::Database as Database>::Row>,
{
    let rows = sqlx::query(query).fetch_all(conn).await.unwrap();
    rows.iter().map(|row| (row.get(0), serde_json::from_str(&row.get::<String, _>(1)).unwrap())).collect()
}

#[track_caller]
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

#[track_caller]
pub fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}
