use std::process::{Command, Output};

use super::*;

fn store(root: &Path) -> S3Store {
    let options = S3Options {
        root: root.join("s3"),
        port: 0,
        jwks_url: None,
        issuer: None,
        roles: BTreeMap::new(),
        now: Arc::new(|| 0),
    };
    let store = S3Store::start(options).expect("the store starts");
    store.create_bucket("states").expect("the bucket is made");
    store
}

/// A client that sends everything through the store, as a job's tool does.
fn client(store: &S3Store) -> reqwest::Client {
    let proxy = reqwest::Proxy::http(store.address()).expect("the address is a URL");
    reqwest::Client::builder().proxy(proxy).build().expect("a client")
}

#[tokio::test]
async fn of_eight_racing_writers_exactly_one_creates_the_lock() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(directory.path());
    let client = client(&store);
    for round in 0..100 {
        let url = format!("http://states.{S3_HOST}/prod/vpc-{round}.tfstate.tflock");
        let writers = (0..8).map(|writer| {
            let put = client.put(&url).header("if-none-match", "*").body(format!("writer {writer}"));
            tokio::spawn(async move { put.send().await.expect("the store answers").status().as_u16() })
        });
        let mut answers = Vec::new();
        for writer in writers.collect::<Vec<_>>() {
            answers.push(writer.await.expect("the writer ends"));
        }
        answers.sort_unstable();
        assert_eq!(answers, [200, 412, 412, 412, 412, 412, 412, 412], "round {round}");
    }
    assert!(store.front.locks().is_empty(), "no lock outlives its requests");
}

#[tokio::test]
async fn a_bucket_is_the_same_by_host_and_by_path() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(directory.path());
    let by_host = format!("http://states.{S3_HOST}/a/b c.txt");
    let by_path = format!("{}/states/a/b c.txt", store.address());
    let proxied = client(&store);
    let direct = reqwest::Client::builder().no_proxy().build().expect("a client");

    let put = proxied.put(&by_host).body("one").send().await.expect("an answer");
    assert_eq!(put.status(), 200);
    assert_eq!(direct.get(&by_path).send().await.expect("an answer").text().await.expect("text"), "one");
    assert_eq!(store.get("states", "a/b c.txt").expect("readable"), Some(b"one".to_vec()));
    let listed =
        proxied.get(format!("http://states.{S3_HOST}/?list-type=2&prefix=a/")).send().await.expect("an answer");
    assert!(listed.text().await.expect("text").contains("<Key>a/b c.txt</Key>"));
    assert_eq!(proxied.head(&by_host).send().await.expect("an answer").status(), 200);
    assert_eq!(direct.delete(&by_path).send().await.expect("an answer").status(), 204);
    assert_eq!(proxied.get(&by_host).send().await.expect("an answer").status(), 404);
}

#[tokio::test]
async fn no_other_host_is_reached_through_the_store() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(directory.path());
    for url in ["http://example.com/", "http://evils3.stackorder.test/", "http://s3.stackorder.test.example.com/"] {
        assert_eq!(client(&store).get(url).send().await.expect("an answer").status(), 403, "{url}");
    }
}

#[tokio::test]
async fn what_the_demo_writes_is_what_clients_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(directory.path());
    store.put("states", "x/y.tfstate", b"first".to_vec()).expect("written");
    store.put("states", "x/y.tfstate", b"second".to_vec()).expect("written");
    let url = format!("http://states.{S3_HOST}/x/y.tfstate");
    let answer = client(&store).get(url).header("x-amz-checksum-mode", "ENABLED").send().await.expect("an answer");
    assert_eq!(answer.text().await.expect("text"), "second");
    assert_eq!(store.keys("states").expect("listed"), ["x/y.tfstate"]);
    assert!(store.put("states", "../out", Vec::new()).is_err());
    assert!(store.get("..", "x").is_err());
    assert!(store.create_bucket("a/b").is_err());
}

/// One stack of the sample's kind, run by the real tool.
struct Stack<'a> {
    store: &'a S3Store,
    directory: PathBuf,
}

impl<'a> Stack<'a> {
    fn new(store: &'a S3Store, root: &Path, name: &str, body: &str) -> Self {
        let directory = root.join(name);
        std::fs::create_dir_all(&directory).expect("a stack directory");
        let backend = format!(
            "terraform {{\n  backend \"s3\" {{\n    bucket = \"states\"\n    key = \"{name}.tfstate\"\n    \
             region = \"us-east-1\"\n    use_lockfile = true\n  }}\n}}\n"
        );
        std::fs::write(directory.join("main.tf"), backend + body).expect("a file");
        Self { store, directory }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new("terraform")
            .args(arguments)
            .current_dir(&self.directory)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("CHECKPOINT_DISABLE", "1")
            .envs(self.store.environment())
            .output()
            .expect("terraform runs")
    }

    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }
}

/// Prints why a test did nothing; `.ci/run` makes that a failure with `STACKORDER_TEST_REQUIRE`.
pub(in crate::demo) fn terraform_is_missing(test: &str) -> bool {
    let found = Command::new("terraform").arg("version").env("CHECKPOINT_DISABLE", "1").output().is_ok();
    if !found {
        println!("not run: {test} (no terraform)");
        let required = std::env::var("STACKORDER_TEST_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|name| name == "terraform"), "terraform is required here and not on PATH");
    }
    !found
}

#[test]
fn terraform_keeps_its_state_here_with_untouched_hcl() {
    if terraform_is_missing("terraform_keeps_its_state_here_with_untouched_hcl") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(directory.path());
    let net = "resource \"terraform_data\" \"net\" {\n  input = \"10.0.0.0/16\"\n}\n\
               output \"cidr\" {\n  value = terraform_data.net.output\n}\n";
    let app = "data \"terraform_remote_state\" \"net\" {\n  backend = \"s3\"\n  config = {\n    bucket = \"states\"\n    \
               key = \"net.tfstate\"\n    region = \"us-east-1\"\n  }\n}\n\
               output \"cidr\" {\n  value = data.terraform_remote_state.net.outputs.cidr\n}\n";
    let net = Stack::new(&store, directory.path(), "net", net);
    net.succeeds(&["init", "-input=false", "-no-color"]);
    net.succeeds(&["plan", "-input=false", "-no-color", "-lock=false", "-out=p.tfplan"]);
    net.succeeds(&["apply", "-input=false", "-no-color", "p.tfplan"]);
    assert_eq!(store.keys("states").expect("listed"), ["net.tfstate"], "the lock is gone");

    let app = Stack::new(&store, directory.path(), "app", app);
    app.succeeds(&["init", "-input=false"]);
    app.succeeds(&["apply", "-auto-approve", "-no-color"]);
    assert!(app.succeeds(&["output", "-json"]).contains("\"10.0.0.0/16\""));
    assert!(net.fails(&["apply", "-input=false", "-no-color", "p.tfplan"]).contains("Saved plan is stale"));
}

#[test]
fn a_state_lock_holds_until_it_is_broken_by_name() {
    if terraform_is_missing("a_state_lock_holds_until_it_is_broken_by_name") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(directory.path());
    let net = Stack::new(&store, directory.path(), "net", "resource \"terraform_data\" \"net\" {}\n");
    net.succeeds(&["init", "-input=false"]);
    let id = "0f3d1c5a-5b1d-4c55-9a52-3a0a9d0f6d11";
    let lock = format!(
        "{{\"ID\":\"{id}\",\"Operation\":\"OperationTypeApply\",\"Info\":\"\",\"Who\":\"job@runner\",\
         \"Version\":\"1.11.4\",\"Created\":\"2026-01-01T00:00:00Z\",\"Path\":\"states/net.tfstate\"}}"
    );
    store.put("states", "net.tfstate.tflock", lock.into_bytes()).expect("written");

    let refused = net.fails(&["apply", "-auto-approve", "-no-color"]);
    assert!(refused.contains("Error acquiring the state lock") && refused.contains("412"), "{refused}");
    assert!(refused.contains(id), "{refused}");
    net.succeeds(&["force-unlock", "-force", id]);
    net.succeeds(&["apply", "-auto-approve", "-no-color"]);
    assert_eq!(store.keys("states").expect("listed"), ["net.tfstate"]);
}
