//! As much of the Postgres protocol as it takes to see what passes: which statement a client runs, and which one the
//! server has done. Knows frames and texts, no socket.

use std::collections::{HashMap, VecDeque};

use anyhow::Context as _;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Longest frame: a graph in a parameter is far below it.
const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One message of the protocol with its type, which a client's first message has not.
pub struct Frame {
    kind: u8,
    bytes: Vec<u8>,
}

impl Frame {
    /// The next message; `None` at the end of the stream.
    pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> anyhow::Result<Option<Self>> {
        let mut kind = [0];
        if from.read(&mut kind).await? == 0 {
            return Ok(None);
        }
        Self::rest(vec![kind[0]], from).await.map(Some)
    }

    /// A client's first message, which has no type. With `sslmode=disable` it is the one that names user and database.
    pub async fn read_first(from: &mut (impl AsyncRead + Unpin)) -> anyhow::Result<Self> {
        Self::rest(Vec::new(), from).await
    }

    async fn rest(mut bytes: Vec<u8>, from: &mut (impl AsyncRead + Unpin)) -> anyhow::Result<Self> {
        let length = from.read_u32().await?;
        bytes.extend(length.to_be_bytes());
        let body = (length as usize).checked_sub(4).filter(|body| *body <= FRAME_BYTES_MAX);
        let start = bytes.len();
        bytes.resize(start + body.context("a frame has an impossible length")?, 0);
        from.read_exact(&mut bytes[start..]).await?;
        Ok(Self { kind: if start == 5 { bytes[0] } else { 0 }, bytes })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn body(&self) -> &[u8] {
        &self.bytes[5..]
    }
}

/// What a client asks for that somebody may be waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statement {
    /// Into the inbox.
    StoreDelivery,
    /// Into the outbox: GitHub is to be asked for a workflow run.
    QueueDispatch,
    Begin,
    Commit,
    Rollback,
    Other,
}

/// What a connection has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// One delivery or several are in the inbox, and the client does not know yet.
    DeliveryStored,
    /// A transaction that queued a dispatch is committed, and the client does not know yet.
    DispatchCommitted,
    /// A transaction that wrote anything is about to be committed: the server does not know yet.
    AboutToCommit,
    /// A transaction that wrote anything is committed, and the client does not know yet.
    Committed,
}

/// One connection, followed in both directions.
#[derive(Default)]
pub struct Conversation {
    prepared: HashMap<Vec<u8>, Statement>,
    /// What a client bound last; sqlx uses the unnamed portal alone.
    bound: Option<Statement>,
    /// Asked for and not answered, each with the number of the synchronisation that ends its group.
    asked: VecDeque<(u64, Statement)>,
    syncs_sent: u64,
    syncs_answered: u64,
    in_transaction: bool,
    wrote: bool,
    queued_dispatch: bool,
}

impl Conversation {
    /// A message of the client, before the server has it.
    pub fn asks(&mut self, frame: &Frame) -> Option<Seen> {
        match frame.kind {
            // The first message is answered like a synchronisation.
            0 => self.syncs_sent += 1,
            b'Q' => {
                let statement = statement_of(text(frame.body()));
                self.ask(statement);
                self.syncs_sent += 1;
                return self.about(statement);
            }
            b'P' => {
                let (name, rest) = split_text(frame.body());
                self.prepared.insert(name.to_vec(), statement_of(text(rest)));
            }
            b'B' => {
                let (_, rest) = split_text(frame.body());
                let (name, parameters) = split_text(rest);
                let statement = self.prepared.get(name).copied().unwrap_or(Statement::Other);
                self.bound = Some(match statement {
                    Statement::QueueDispatch if !contains(parameters, b"send_dispatch") => Statement::Other,
                    statement => statement,
                });
            }
            b'E' => {
                let statement = self.bound.unwrap_or(Statement::Other);
                self.ask(statement);
                return self.about(statement);
            }
            b'S' => self.syncs_sent += 1,
            _ => {}
        }
        None
    }

    fn ask(&mut self, statement: Statement) {
        self.asked.push_back((self.syncs_sent, statement));
    }

    fn about(&self, statement: Statement) -> Option<Seen> {
        (statement == Statement::Commit && self.in_transaction && self.wrote).then_some(Seen::AboutToCommit)
    }

    /// A message of the server, before the client has it. In the order in which a watcher wants to hear: the closest first.
    pub fn answers(&mut self, frame: &Frame) -> Vec<Seen> {
        match frame.kind {
            b'C' => match self.asked.pop_front() {
                Some((_, statement)) => self.done(statement, text(frame.body())),
                None => Vec::new(),
            },
            b'I' => {
                self.asked.pop_front();
                Vec::new()
            }
            b'Z' => {
                self.syncs_answered += 1;
                // What failed and what came after it in its group was never answered.
                while self.asked.front().is_some_and(|(group, _)| *group < self.syncs_answered) {
                    self.asked.pop_front();
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn done(&mut self, statement: Statement, tag: &str) -> Vec<Seen> {
        let wrote_a_row = ["INSERT 0 ", "UPDATE ", "DELETE "]
            .iter()
            .any(|verb| tag.strip_prefix(verb).is_some_and(|rows| rows != "0"));
        self.wrote |= wrote_a_row;
        let mut seen = Vec::new();
        match statement {
            Statement::StoreDelivery if wrote_a_row => seen.push(Seen::DeliveryStored),
            Statement::QueueDispatch => {
                self.queued_dispatch = true;
                if !self.in_transaction {
                    seen.push(Seen::DispatchCommitted);
                }
            }
            Statement::Begin => (self.in_transaction, self.wrote, self.queued_dispatch) = (true, false, false),
            // A failed transaction answers ROLLBACK to a commit.
            Statement::Commit if tag == "COMMIT" => {
                if self.queued_dispatch {
                    seen.push(Seen::DispatchCommitted);
                }
                if self.wrote {
                    seen.push(Seen::Committed);
                }
                self.in_transaction = false;
            }
            Statement::Commit | Statement::Rollback => self.in_transaction = false,
            Statement::StoreDelivery | Statement::Other => {}
        }
        if !self.in_transaction {
            (self.wrote, self.queued_dispatch) = (false, false);
        }
        seen
    }
}

fn statement_of(sql: &str) -> Statement {
    let mut words = sql.split_ascii_whitespace().map(str::to_ascii_lowercase);
    let first_three: Vec<String> = words.by_ref().take(3).collect();
    match first_three.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["begin", ..] => Statement::Begin,
        ["commit", ..] => Statement::Commit,
        ["rollback", ..] => Statement::Rollback,
        ["insert", "into", "deliveries"] => Statement::StoreDelivery,
        ["insert", "into", "jobs"] => Statement::QueueDispatch,
        _ => Statement::Other,
    }
}

/// A text that ends with a zero byte, and what stands behind it.
fn split_text(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(split_text(bytes).0).unwrap_or_default()
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

mod tests {
    use super::*;

    async fn frame(kind: u8, body: &[u8]) -> Frame {
        let mut bytes = vec![kind];
        bytes.extend(u32::try_from(body.len() + 4).unwrap().to_be_bytes());
        bytes.extend(body);
        Frame::read(&mut bytes.as_slice()).await.unwrap().unwrap()
    }

    async fn run(talk: &mut Conversation, sql: &str, parameters: &[u8]) {
        talk.asks(&frame(b'P', format!("s\0{sql}\0").as_bytes()).await);
        talk.asks(&frame(b'B', &[b"\0s\0", parameters].concat()).await);
        assert_eq!(talk.asks(&frame(b'E', b"\0\0\0\0\0").await), None);
        talk.asks(&frame(b'S', b"").await);
    }

    async fn began() -> Conversation {
        let mut talk = Conversation::default();
        let mut first = [0, 0, 0, 8, 0, 3, 0, 0].as_slice();
        talk.asks(&Frame::read_first(&mut first).await.unwrap());
        talk.answers(&frame(b'Z', b"I").await);
        talk
    }

    #[tokio::test]
    async fn a_stored_delivery_is_seen_when_it_is_stored_and_a_known_one_is_not() {
        let mut talk = began().await;
        for (tag, seen) in [
            ("INSERT 0 1\0", vec![Seen::DeliveryStored]),
            ("INSERT 0 3\0", vec![Seen::DeliveryStored]),
            ("INSERT 0 0\0", vec![]),
        ] {
            run(&mut talk, "insert into deliveries (id) values ($1)", b"").await;
            assert_eq!(talk.answers(&frame(b'C', tag.as_bytes()).await), seen);
            talk.answers(&frame(b'Z', b"I").await);
        }
    }

    #[tokio::test]
    async fn only_a_committed_transaction_with_a_dispatch_counts_as_one() {
        for (kind, commit, seen) in [
            (b"send_dispatch".as_slice(), "COMMIT\0", vec![Seen::DispatchCommitted, Seen::Committed]),
            (b"render", "COMMIT\0", vec![Seen::Committed]),
            (b"send_dispatch", "ROLLBACK\0", vec![]),
        ] {
            let mut talk = began().await;
            talk.asks(&frame(b'Q', b"begin\0").await);
            talk.answers(&frame(b'C', b"BEGIN\0").await);
            talk.answers(&frame(b'Z', b"T").await);
            run(&mut talk, "insert into jobs (kind) values ($1)", kind).await;
            assert_eq!(talk.answers(&frame(b'C', b"INSERT 0 1\0").await), []);
            talk.answers(&frame(b'Z', b"T").await);
            assert_eq!(talk.asks(&frame(b'Q', b"COMMIT\0").await), Some(Seen::AboutToCommit));
            assert_eq!(talk.answers(&frame(b'C', commit.as_bytes()).await), seen);
        }
    }

    #[tokio::test]
    async fn a_failed_statement_does_not_shift_the_answers_after_it() {
        let mut talk = began().await;
        run(&mut talk, "insert into once (name) values ($1)", b"").await;
        talk.answers(&frame(b'E', b"SERROR\0\0").await);
        talk.answers(&frame(b'Z', b"I").await);
        run(&mut talk, "insert into deliveries (id) values ($1)", b"").await;
        assert_eq!(talk.answers(&frame(b'C', b"INSERT 0 1\0").await), [Seen::DeliveryStored]);
    }
}
