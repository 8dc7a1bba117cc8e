//! Several `stackorder serve` processes: killed as a machine dies, and started again at once on the same database.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stackorder::demo::control::{CONTROL_VARIABLE, ControlDesk};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// From the start of a process until it serves, on a machine that is busy with much else.
const START_MAX: Duration = Duration::from_secs(60);

/// One server, whichever process it is at the moment.
pub struct Server {
    environment: BTreeMap<String, String>,
    /// Whoever moves its clock; without one it is `stackorder serve`, with one `stackorder demo serve`, the same server.
    desk: Option<Arc<ControlDesk>>,
    /// `http://127.0.0.1:PORT`, the same for every process.
    pub url: String,
    child: tokio::sync::Mutex<Option<Child>>,
    starts: AtomicU32,
    /// Lines of its log that tell of an error or a panic.
    complaints: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts it, and waits until it serves.
    pub async fn start(mut environment: BTreeMap<String, String>, desk: Option<Arc<ControlDesk>>) -> Arc<Self> {
        let url = format!("http://{}", environment["STACKORDER_LISTEN"]);
        if let Some(desk) = &desk {
            environment.insert(CONTROL_VARIABLE.to_owned(), desk.address().to_string());
        }
        let server = Arc::new(Self {
            environment,
            desk,
            url,
            child: tokio::sync::Mutex::new(None),
            starts: AtomicU32::new(0),
            complaints: Arc::default(),
        });
        server.start_again().await;
        server
    }

    pub fn starts(&self) -> u32 {
        self.starts.load(Ordering::SeqCst)
    }

    pub fn complaints(&self) -> Vec<String> {
        self.complaints.lock().unwrap().clone()
    }

    /// `kill -9`; returns once nothing of the process is left. False when it was dead already.
    pub async fn kill(&self) -> bool {
        let mut child = self.child.lock().await;
        let Some(mut dying) = child.take() else { return false };
        dying.kill().await.expect("it was running");
        true
    }

    /// Starts it when it is dead.
    pub async fn start_again(&self) {
        let mut child = self.child.lock().await;
        if child.is_some() {
            return;
        }
        let mut started = Command::new(env!("CARGO_BIN_EXE_stackorder"))
            .args(if self.desk.is_some() { &["demo", "serve"][..] } else { &["serve"] })
            .env_clear()
            .envs(&self.environment)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program is built");
        let mut log = BufReader::new(started.stderr.take().expect("it is piped")).lines();
        let serves = async {
            let mut said = Vec::new();
            while let Ok(Some(line)) = log.next_line().await {
                if line.contains("\"message\":\"serving\"") {
                    return;
                }
                said.push(line);
            }
            panic!("a server ended at once: {said:#?}");
        };
        tokio::time::timeout(START_MAX, serves).await.expect("a server starts within a minute");
        let complaints = self.complaints.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = log.next_line().await {
                if line.contains("\"level\":\"ERROR\"") || line.contains("panicked") {
                    complaints.lock().unwrap().push(line);
                }
            }
        });
        *child = Some(started);
        self.starts.fetch_add(1, Ordering::SeqCst);
    }
}
