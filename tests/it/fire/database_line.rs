//! Between a server and its Postgres: everything passes, frame by frame, until somebody who watches says stop.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::io::{AsyncWriteExt as _, BufReader, BufWriter};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use super::wire::{Conversation, Frame, Seen};

/// What becomes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    /// It ends for both sides, and what was just seen reaches nobody.
    Cut,
}

/// Who watches the connections of one server.
#[async_trait]
pub trait Watcher: Send + Sync + 'static {
    async fn look(&self, seen: Seen) -> Verdict;
}

/// The same database, reached through a line that listens on loopback for as long as the runtime lives.
pub async fn open(database_url: &str, watcher: Arc<dyn Watcher>) -> String {
    let mut url = reqwest::Url::parse(database_url).unwrap();
    let addresses = url.socket_addrs(|| Some(5432)).unwrap();
    let database = addresses.into_iter().next().expect("the database has an address");
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    url.set_ip_host(address.ip()).unwrap();
    url.set_port(Some(address.port())).unwrap();
    // What passes is read.
    url.query_pairs_mut().append_pair("sslmode", "disable");
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let watcher = watcher.clone();
            tokio::spawn(async move {
                // Whatever goes wrong on a connection ends it, as a network would.
                let _ = pass(client, database, watcher).await;
            });
        }
    });
    url.to_string()
}

async fn pass(client: TcpStream, database: SocketAddr, watcher: Arc<dyn Watcher>) -> anyhow::Result<()> {
    let server = TcpStream::connect(database).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let talk = Arc::new(Mutex::new(Conversation::default()));
    // When one direction ends, the other is dropped with it: both sockets close.
    tokio::select! {
        ended = asking(from_client, to_server, &talk, &watcher) => ended,
        ended = answering(from_server, to_client, &talk, &watcher) => ended,
    }
}

async fn asking(
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    talk: &Mutex<Conversation>,
    watcher: &Arc<dyn Watcher>,
) -> anyhow::Result<()> {
    let (mut from, mut to) = (BufReader::new(from), BufWriter::new(to));
    let mut frame = Frame::read_first(&mut from).await?;
    loop {
        let seen = talk.lock().expect("no holder panics").asks(&frame);
        if let Some(seen) = seen
            && watcher.look(seen).await == Verdict::Cut
        {
            return Ok(());
        }
        to.write_all(frame.bytes()).await?;
        if from.buffer().is_empty() {
            to.flush().await?;
        }
        match Frame::read(&mut from).await? {
            Some(next) => frame = next,
            None => return Ok(()),
        }
    }
}

async fn answering(
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    talk: &Mutex<Conversation>,
    watcher: &Arc<dyn Watcher>,
) -> anyhow::Result<()> {
    let (mut from, mut to) = (BufReader::new(from), BufWriter::new(to));
    while let Some(frame) = Frame::read(&mut from).await? {
        let seen = talk.lock().expect("no holder panics").answers(&frame);
        for seen in seen {
            if watcher.look(seen).await == Verdict::Cut {
                return Ok(());
            }
        }
        to.write_all(frame.bytes()).await?;
        if from.buffer().is_empty() {
            to.flush().await?;
        }
    }
    Ok(())
}
