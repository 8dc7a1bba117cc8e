//! Everything together: one Postgres, two servers on it, GitHub, and the lines between them all; and the waiting for
//! what they come to.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use sqlx::{Connection as _, PgConnection};
use stackorder::demo::balancer::Balancer;
use stackorder::demo::ports::free_port;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::database_line;
use super::gunner::{Gunner, OnDatabaseLine};
use super::jobs::Door;
use super::lines::GitHubLine;
use super::servers::Server;
use super::time::{Stillness, Time};
use super::town::{Town, WEBHOOK_SECRET, Work};

pub const SERVERS: usize = 2;
/// How often the database is asked whether something has come about.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often failed deliveries are looked for.
const REDELIVER_EVERY: Duration = Duration::from_millis(500);
/// How often a long wait says where it stands.
const TELL_EVERY: Duration = Duration::from_secs(20);

/// What is left when nothing moves: no job, no delivery, no dispatch.
pub const AT_REST: &str = "select (select count(*) from jobs where not dead) + \
     (select count(*) from deliveries where done_at is null and not dead) + \
     (select count(*) from dispatches where completed_at is null) = 0";

/// What is to be done, and under which conditions.
pub struct Terms {
    pub work: Work,
    pub time: Time,
    pub deadline: Duration,
    /// The servers keep to GitHub's limits for writes. Elsewhere more happens in a minute than GitHub takes in an hour.
    pub keeps_limits: bool,
}

pub struct Field {
    pub town: Arc<Town>,
    pub servers: Vec<Arc<Server>>,
    pub door: Arc<Door>,
    pub gunner: Arc<Gunner>,
    time: Time,
    database_url: String,
    operator: JoinHandle<()>,
    started: Instant,
    deadline: Duration,
    journal: PathBuf,
    _root: TempDir,
}

impl Field {
    /// With the database at this URL, which no other test uses.
    pub async fn prepare(
        database_url: String,
        gunner: Arc<Gunner>,
        Terms { work, time, deadline, keeps_limits }: Terms,
    ) -> Self {
        let started = Instant::now();
        let root = tempfile::tempdir().unwrap();
        let [front, door] = [listener().await, listener().await];
        let front_url = format!("http://{}", front.local_addr().unwrap());
        let door_port = door.local_addr().unwrap().port();
        let journal = root.path().join("github.ndjson");
        let webhooks = format!("{front_url}/webhooks/github");
        let town = Town::build(root.path(), work, webhooks, door_port, time.clone(), Some(journal.clone())).await;
        let mut servers = Vec::new();
        for number in 0..SERVERS {
            let eye = Arc::new(OnDatabaseLine { gunner: gunner.clone(), server: number });
            let github = GitHubLine::open(town.github.base_url(), gunner.clone(), number).await;
            let database_url = database_line::open(&database_url, eye).await;
            let mut variables = environment(&town, &front_url, &format!("{github}/api/v3"), database_url).await;
            if !keeps_limits {
                for limit in ["GITHUB_WRITES_PER_MINUTE", "GITHUB_WRITES_PER_HOUR"] {
                    variables.insert(limit.to_owned(), "none".to_owned());
                }
            }
            servers.push(Server::start(variables, time.desk(number)).await);
        }
        Balancer::open(front, servers.iter().map(|server| server.url.clone()).collect());
        let door = Door::open(door, front_url, work, Duration::ZERO);
        let town = Arc::new(town);
        let operator = tokio::spawn(redeliver(town.clone(), database_url.clone()));
        let field =
            Self { town, servers, door, gunner, time, database_url, operator, started, deadline, journal, _root: root };
        let repositories = field.town.repositories().len();
        field.until(&format!("select count(*) = {repositories} from repos"), "the servers know the repositories").await;
        field
    }

    /// Every call that GitHub saw, in their order.
    pub fn calls(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.journal).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["kind"] == "rest").collect()
    }

    pub async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.database_url).await.unwrap()
    }

    /// Waits until a question to the database is answered with yes.
    pub async fn until(&self, question: &str, hope: &str) {
        let mut conn = self.connect().await;
        let (mut told, mut stillness) = (Instant::now(), Stillness::default());
        while !ask::<bool>(&mut conn, question).await {
            if told.elapsed() > TELL_EVERY {
                told = Instant::now();
                self.tell(&format!("until {hope}: {}", standing(&mut conn).await));
            }
            if self.started.elapsed() > self.deadline {
                let standing = standing(&mut conn).await;
                let ledger = self.door.ledger();
                panic!(
                    "after {:?} still not so: {hope}\n{}\nbroken: {:#?}\nthe last refused: {:#?}\nlogged: {:#?}",
                    self.deadline,
                    standing,
                    ledger.broken,
                    ledger.refused.iter().rev().take(10).collect::<Vec<_>>(),
                    self.servers.iter().flat_map(|server| server.complaints()).take(20).collect::<Vec<_>>(),
                );
            }
            if self.time.jump_if_still(&mut stillness, &mut conn).await {
                self.town.github.engine().clock_moved();
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.tell(hope);
        conn.close().await.unwrap();
    }

    pub fn tell(&self, what: &str) {
        eprintln!("{:4} s, struck {:?}: {what}", self.started.elapsed().as_secs(), self.gunner.struck());
    }

    /// Ends the processes that were started here.
    pub async fn clear(self) {
        self.operator.abort();
        for server in &self.servers {
            server.kill().await;
        }
    }
}

pub async fn ask<T>(conn: &mut PgConnection, question: &str) -> T
where
    T: Send + Unpin + sqlx::Type<sqlx::Postgres> + for<'r> sqlx::Decode<'r, sqlx::Postgres>,
{
    sqlx::query_scalar(sqlx::AssertSqlSafe(question.to_owned())).fetch_one(conn).await.unwrap()
}

/// Where everything stands, in a line.
async fn standing(conn: &mut PgConnection) -> String {
    const STANDING: &str = "select coalesce(string_agg(what || ' ' || many, ', ' order by what), 'nothing') from (
         select mode || ' runs ' || status as what, count(*) as many from runs group by 1
         union all select 'jobs ' || kind || case when dead then ' dead' else '' end, count(*) from jobs group by 1
         union all select 'deliveries ' || case when dead then 'dead' else 'open' end, count(*)
             from deliveries where done_at is null group by 1
         union all select 'dispatches open', count(*) from dispatches where completed_at is null
         union all select 'locks', count(*) from locks) as counted";
    ask(conn, STANDING).await
}

/// GitHub never repeats a delivery by itself: an operator does, from the App's page. What the inbox has is promised, so
/// only what it has not is delivered again.
async fn redeliver(town: Arc<Town>, database_url: String) {
    let mut conn = PgConnection::connect(&database_url).await.unwrap();
    let mut looked_at = std::collections::BTreeSet::new();
    loop {
        tokio::time::sleep(REDELIVER_EVERY).await;
        let failed: Vec<i64> =
            town.github.failed_deliveries().into_iter().filter(|delivery| looked_at.insert(*delivery)).collect();
        if failed.is_empty() {
            continue;
        }
        let guids: BTreeMap<i64, String> =
            town.github.deliveries().into_iter().map(|delivery| (delivery.id, delivery.guid)).collect();
        for delivery in failed {
            let known = sqlx::query_scalar::<_, bool>("select count(*) = 1 from deliveries where id = $1")
                .bind(&guids[&delivery])
                .fetch_one(&mut conn)
                .await
                .unwrap();
            if !known {
                town.github.redeliver(delivery);
            }
        }
    }
}

async fn environment(town: &Town, front_url: &str, github_api: &str, database_url: String) -> BTreeMap<String, String> {
    let variables = [
        ("STACKORDER_BASE_URL", front_url.to_owned()),
        ("STACKORDER_LISTEN", format!("127.0.0.1:{}", free_port(0).unwrap())),
        ("DATABASE_URL", database_url),
        ("GITHUB_APP_ID", town.app.id.to_string()),
        ("GITHUB_APP_PRIVATE_KEY", town.app.private_key_pem.clone()),
        ("GITHUB_WEBHOOK_SECRET", WEBHOOK_SECRET.to_owned()),
        ("GITHUB_API_URL", github_api.to_owned()),
        ("GITHUB_WEB_URL", town.github.base_url().to_owned()),
        ("GITHUB_OIDC_ISSUER", town.github.oidc_issuer()),
    ];
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// On any free port.
async fn listener() -> TcpListener {
    TcpListener::bind(("127.0.0.1", 0)).await.unwrap()
}
