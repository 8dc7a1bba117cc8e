//! The line between the demo and its server: the server says when it is ready, the demo moves the server's clock.
//!
//! One TCP connection on loopback. The server is the client; when the connection ends, because the demo ended, the server
//! stops too, so that nothing is left behind.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot, watch};

use crate::clock::{Millis, SystemClock};

/// What the server's process is told: where the demo listens.
pub const CONTROL_VARIABLE: &str = "STACKORDER_DEMO_CONTROL";

/// The demo's end. Each server talks to it; a restarted one connects anew.
pub struct ControlDesk {
    address: SocketAddr,
    offset: watch::Sender<Millis>,
    ready: tokio::sync::Mutex<tokio::sync::mpsc::UnboundedReceiver<()>>,
}

impl ControlDesk {
    /// Every server's clock starts `offset_ms` ahead of the machine's.
    pub async fn open(offset_ms: Millis) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("cannot listen on loopback")?;
        let address = listener.local_addr()?;
        let offset = watch::Sender::new(offset_ms);
        let (said_ready, ready) = tokio::sync::mpsc::unbounded_channel();
        let offsets = offset.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(attend(stream, offsets.subscribe(), said_ready.clone()));
            }
        });
        Ok(Self { address, offset, ready: tokio::sync::Mutex::new(ready) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Moves the clock of the server, now and after every restart.
    pub fn set_offset(&self, offset_ms: Millis) {
        self.offset.send_replace(offset_ms);
    }

    /// Waits until a server says that it answers requests.
    pub async fn wait_ready(&self) -> anyhow::Result<()> {
        self.ready.lock().await.recv().await.context("the control desk closed")
    }

    /// Forgets an earlier server's readiness.
    pub async fn expect_new_server(&self) {
        let mut ready = self.ready.lock().await;
        while ready.try_recv().is_ok() {}
    }
}

async fn attend(stream: TcpStream, mut offset: watch::Receiver<Millis>, ready: tokio::sync::mpsc::UnboundedSender<()>) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let first = *offset.borrow_and_update();
    if write.write_all(format!("{first}\n").as_bytes()).await.is_err() {
        return;
    }
    loop {
        tokio::select! {
            changed = offset.changed() => {
                let now = *offset.borrow_and_update();
                if changed.is_err() || write.write_all(format!("{now}\n").as_bytes()).await.is_err() {
                    return;
                }
            }
            line = lines.next_line() => match line {
                Ok(Some(line)) if line == "ready" => { let _ = ready.send(()); }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }
}

/// The server's end.
pub struct ControlLine {
    said_ready: Option<oneshot::Sender<()>>,
}

impl ControlLine {
    /// Connects, takes the first offset, and follows every later one. `stop` turns true when the demo is gone.
    pub async fn connect(
        address: &str,
        clock: Arc<SystemClock>,
        clock_moved: Arc<Notify>,
        stop: watch::Sender<bool>,
    ) -> anyhow::Result<Self> {
        let stream =
            TcpStream::connect(address).await.with_context(|| format!("cannot reach the demo at {address}"))?;
        let (read, mut write) = stream.into_split();
        let mut lines = BufReader::new(read).lines();
        let first = lines.next_line().await?.context("the demo said nothing")?;
        clock.set_offset(first.parse().context("the demo sent no number")?);
        let (said_ready, is_ready) = oneshot::channel::<()>();
        tokio::spawn(async move {
            if is_ready.await.is_ok() {
                let _ = write.write_all(b"ready\n").await;
            }
            while let Ok(Some(line)) = lines.next_line().await {
                if let Ok(offset) = line.parse() {
                    clock.set_offset(offset);
                    clock_moved.notify_one();
                }
            }
            // Keeps the writing half open until the demo is gone.
            drop(write);
            stop.send_replace(true);
        });
        Ok(Self { said_ready: Some(said_ready) })
    }

    pub fn say_ready(&mut self) {
        if let Some(said) = self.said_ready.take() {
            let _ = said.send(());
        }
    }
}
