//! The demo's S3-compatible state store.
//!
//! Terraform addresses buckets as `bucket.s3.stackorder.test`, a name nobody can resolve, and sends those requests
//! through `HTTP_PROXY`, which is this store: so backends and `terraform_remote_state` work with the HCL that would
//! run against AWS. Requests for any other host are refused; nothing here reaches a network.
//!
//! Objects are plain files under `root/<bucket>/<key>`. The store runs on a thread and runtime of its own, and ends
//! when its value is dropped.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::host::{S3Host, VirtualHost};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, S3Result};
use tokio::sync::watch;

use super::sts::{Keys, Sts, TrustPolicy};
use crate::clock::Millis;

/// The host behind `AWS_ENDPOINT_URL_S3`; buckets are its subdomains.
pub const S3_HOST: &str = "s3.stackorder.test";

/// States of the sample are a few kilobytes; the largest that the load runs make stays far below.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Requests under way when the store is dropped get this long to end.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// What a store is started with.
pub struct S3Options {
    /// Directory of the buckets; made if it is missing.
    pub root: PathBuf,
    /// Loopback port; 0 takes a free one.
    pub port: u16,
    /// Keys of the OIDC issuer whose tokens may assume a role.
    pub jwks_url: Option<String>,
    /// The `iss` those tokens must have.
    pub issuer: Option<String>,
    /// Role ARN to who may assume it.
    pub roles: BTreeMap<String, TrustPolicy>,
    /// The clock that tokens are judged by.
    pub now: Arc<dyn Fn() -> Millis + Send + Sync>,
}

/// A running store.
pub struct S3Store {
    address: SocketAddr,
    root: PathBuf,
    front: Arc<Front>,
    runtime: tokio::runtime::Handle,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl S3Store {
    /// Starts the store; it answers when this returns.
    pub fn start(options: S3Options) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&options.root)
            .with_context(|| format!("cannot make the store's directory {}", options.root.display()))?;
        let root = options.root.canonicalize().context("cannot resolve the store's directory")?;
        let files = s3s_fs::FileSystem::new(&root).map_err(|e| anyhow::anyhow!("cannot open the store: {e:?}"))?;

        let keys = Arc::new(Keys::default());
        let mut builder = S3ServiceBuilder::new(files);
        builder.set_host(Buckets);
        builder.set_auth(KnownKeys(Arc::clone(&keys)));
        builder.set_access(Everybody);
        let front = Arc::new(Front {
            s3: builder.build(),
            sts: Sts::new(options.jwks_url, options.issuer, options.roles, options.now, keys)?,
            locks: Mutex::default(),
        });

        let listener = std::net::TcpListener::bind(("127.0.0.1", options.port))
            .with_context(|| format!("cannot listen on 127.0.0.1:{}", options.port))?;
        listener.set_nonblocking(true).context("cannot use the store's socket")?;
        let address = listener.local_addr().context("cannot read the store's address")?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the store's runtime")?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = watch::channel(false);
        let served = Arc::clone(&front);
        let thread = std::thread::Builder::new()
            .name("s3-store".to_owned())
            .spawn(move || runtime.block_on(serve(listener, served, stopped)))
            .context("cannot start the store's thread")?;
        Ok(Self { address, root, front, runtime: handle, stop, thread: Some(thread) })
    }

    /// `http://127.0.0.1:<port>`.
    pub fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What a process needs in its environment for its S3 backend to end up here.
    pub fn environment(&self) -> BTreeMap<String, String> {
        [
            ("AWS_ENDPOINT_URL_S3", format!("http://{S3_HOST}")),
            ("AWS_ENDPOINT_URL_STS", self.address()),
            ("HTTP_PROXY", self.address()),
            ("NO_PROXY", "127.0.0.1,localhost".to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
            ("AWS_ACCESS_KEY_ID", super::sts::DUMMY_ACCESS_KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", super::sts::DUMMY_SECRET_KEY.to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Makes a bucket; one that exists already stays as it is.
    pub fn create_bucket(&self, name: &str) -> anyhow::Result<()> {
        ensure!(!name.is_empty() && is_plain(name) && !name.contains('/'), "{name:?} is no bucket name");
        std::fs::create_dir_all(self.root.join(name)).with_context(|| format!("cannot make the bucket {name}"))
    }

    /// An object's content; `None` when there is no such object.
    pub fn get(&self, bucket: &str, key: &str) -> anyhow::Result<Option<Vec<u8>>> {
        match std::fs::read(self.object_path(bucket, key)?) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read s3://{bucket}/{key}")),
        }
    }

    /// Writes an object as a client would, so that checksums and locks agree.
    pub fn put(&self, bucket: &str, key: &str, bytes: Vec<u8>) -> anyhow::Result<()> {
        self.object_path(bucket, key)?;
        let request = Request::put(format!("/{bucket}/{}", percent_encode(key)))
            .header(HOST, self.address.to_string())
            .header("content-length", bytes.len())
            .body(bytes)
            .context("the key cannot stand in a request")?;
        let front = Arc::clone(&self.front);
        let (sender, answer) = mpsc::channel();
        self.runtime.spawn(async move {
            // The receiver is gone only when this store is being dropped.
            let _ = sender.send(front.s3_request(request).await.status());
        });
        let status = answer.recv().context("the store has ended")?;
        if !status.is_success() {
            bail!("cannot write s3://{bucket}/{key}: {status}");
        }
        Ok(())
    }

    /// Keys of a bucket, sorted.
    pub fn keys(&self, bucket: &str) -> anyhow::Result<Vec<String>> {
        let top = self.object_path(bucket, "")?;
        let mut found = Vec::new();
        let mut directories = vec![top.clone()];
        while let Some(directory) = directories.pop() {
            let entries = std::fs::read_dir(&directory)
                .with_context(|| format!("cannot list {} of bucket {bucket}", directory.display()))?;
            for entry in entries {
                let entry = entry.context("cannot list a bucket")?;
                if entry.file_type().context("cannot list a bucket")?.is_dir() {
                    directories.push(entry.path());
                } else if let Ok(key) = entry.path().strip_prefix(&top) {
                    found.push(key.to_string_lossy().into_owned());
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Ends the store once the requests under way have ended.
    pub fn shutdown(self) {
        drop(self);
    }

    fn object_path(&self, bucket: &str, key: &str) -> anyhow::Result<PathBuf> {
        ensure!(is_plain(bucket) && is_plain(key), "s3://{bucket}/{key} is no object of this store");
        Ok(self.root.join(bucket).join(key))
    }
}

impl Drop for S3Store {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

/// Whether a bucket or key stays below the store's directory when joined to it.
fn is_plain(name: &str) -> bool {
    !name.contains('\0') && Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

async fn serve(listener: std::net::TcpListener, front: Arc<Front>, mut stopped: watch::Receiver<bool>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the state store cannot listen"),
    };
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let stream = tokio::select! {
            () = stopping(&mut stopped) => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // Out of descriptors, or a client that left: the next accept decides.
                Err(error) => {
                    tracing::warn!(%error, "the state store cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let front = Arc::clone(&front);
        let mut stopped = stopped.clone();
        connections.spawn(async move {
            let service = hyper::service::service_fn(move |request| {
                let front = Arc::clone(&front);
                async move { Ok::<_, Infallible>(front.answer(request).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            let mut connection = std::pin::pin!(connection);
            let stopping = tokio::select! {
                // A client that breaks off is its own affair.
                _ = connection.as_mut() => false,
                () = stopping(&mut stopped) => true,
            };
            if stopping {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        });
    }
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(SHUTDOWN_GRACE, drained).await.is_err() {
        tracing::warn!("the state store ended with requests under way");
    }
}

/// Returns once the store is to end; a sender that is gone means the same.
async fn stopping(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stop| *stop).await;
}

/// `bucket/key` to the lock of that object, while somebody needs it.
type Locks = BTreeMap<String, Arc<tokio::sync::Mutex<()>>>;

/// Sorts requests: S3 by its host or path, STS by its form, everything else refused.
struct Front {
    s3: S3Service,
    sts: Sts,
    locks: Mutex<Locks>,
}

impl Front {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let host = match host_of(&request) {
            Some(host) if is_ours(&host) => host,
            host => return refuse(StatusCode::FORBIDDEN, &format!("this store is no proxy for {host:?}")),
        };
        let (mut parts, body) = request.into_parts();
        let Ok(body) = axum::body::to_bytes(axum::body::Body::new(body), BODY_BYTES_MAX).await else {
            let text = format!("a body has at most {BODY_BYTES_MAX} bytes");
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, &text);
        };

        let is_form =
            parts.headers.get(CONTENT_TYPE).is_some_and(|v| v.as_bytes().starts_with(b"application/x-www-form"));
        if is_form && parts.method == Method::POST && parts.uri.path() == "/" {
            let authorization = parts.headers.get(AUTHORIZATION).and_then(|v| v.to_str().ok());
            let (status, xml) = self.sts.answer(authorization, &body).await;
            return response(status, "text/xml", xml);
        }

        // A proxy is asked in absolute form; the signature is over host and path, so both stay as they are.
        if let Some(path) = parts.uri.path_and_query() {
            parts.uri = path.clone().into();
        }
        let Ok(host) = HeaderValue::try_from(host) else {
            return refuse(StatusCode::BAD_REQUEST, "the host cannot stand in a header");
        };
        parts.headers.entry(HOST).or_insert(host);
        self.s3_request(Request::from_parts(parts, body.to_vec())).await
    }

    /// One request at a time per object: `s3s-fs` looks whether an object exists and then writes it, so of several
    /// `If-None-Match: *` writers more than one would win a state lock.
    async fn s3_request(&self, request: Request<Vec<u8>>) -> Response<Body> {
        let name = object_name(&request);
        let lock = Arc::clone(self.locks().entry(name.clone()).or_default());
        let answer = {
            let _held = lock.lock().await;
            self.s3.call(request.map(Body::from)).await
        };
        drop(lock);
        let mut locks = self.locks();
        // Counted under the map's lock: nobody can take a copy between the look and the removal.
        if locks.get(&name).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&name);
        }
        drop(locks);
        answer.unwrap_or_else(|error| {
            tracing::error!(?error, "the state store failed");
            refuse(StatusCode::INTERNAL_SERVER_ERROR, "the state store failed")
        })
    }

    fn locks(&self) -> std::sync::MutexGuard<'_, Locks> {
        // Nobody who holds this lock can leave a half-made map behind.
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The host a request is for, without its port: of an absolute form the URI's, else the header's.
fn host_of<B>(request: &Request<B>) -> Option<String> {
    let named = request.uri().authority().map(|authority| authority.as_str());
    let header = || request.headers().get(HOST).and_then(|host| host.to_str().ok());
    named.or_else(header).map(str::to_ascii_lowercase)
}

fn is_ours(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    matches!(name, "127.0.0.1" | "localhost" | S3_HOST) || bucket_of(name).is_some()
}

/// `b` of `b.s3.stackorder.test`.
fn bucket_of(host: &str) -> Option<&str> {
    host.strip_suffix(S3_HOST)?.strip_suffix('.').filter(|bucket| !bucket.is_empty())
}

/// `bucket/key`, the same for both ways to address an object.
fn object_name<B>(request: &Request<B>) -> String {
    let host = host_of(request).unwrap_or_default();
    let path = percent_decode(request.uri().path());
    match bucket_of(&host) {
        Some(bucket) => format!("{bucket}{path}"),
        None => path.trim_start_matches('/').to_owned(),
    }
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = |at: usize| tail.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        match (first, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'%'));
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(super) fn percent_encode(key: &str) -> String {
    key.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

fn refuse(status: StatusCode, text: &str) -> Response<Body> {
    response(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Buckets as subdomains of [`S3_HOST`]; any other host means that the bucket stands in the path.
struct Buckets;

impl S3Host for Buckets {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let name = VirtualHost::new(S3_HOST);
        Ok(match bucket_of(host) {
            Some(bucket) => name.with_bucket(bucket),
            None => name,
        })
    }
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = S3Result<T>> + Send + 'a>>;

/// Signatures are checked against the dummy key and those that STS gave out.
struct KnownKeys(Arc<Keys>);

// The traits of s3s are written with `async_trait`; these are the signatures it makes.
impl S3Auth for KnownKeys {
    fn get_secret_key<'a, 'b, 'c>(&'a self, access_key: &'b str) -> Answer<'c, SecretKey>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        Box::pin(async move {
            match self.0.secret_of(access_key) {
                Some(secret) => Ok(SecretKey::from(secret)),
                None => Err(s3s::s3_error!(InvalidAccessKeyId, "no such access key")),
            }
        })
    }
}

/// The store listens on loopback only, and a person may look into it with `curl`: unsigned requests are fine.
struct Everybody;

impl S3Access for Everybody {
    fn check<'a, 'b, 'c, 'd>(&'a self, _: &'b mut S3AccessContext<'c>) -> Answer<'d, ()>
    where
        'a: 'd,
        'b: 'd,
        'c: 'd,
        Self: 'd,
    {
        Box::pin(async { Ok(()) })
    }
}

#[cfg(test)]
pub(super) mod tests;
