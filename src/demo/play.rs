//! `stackorder demo` without flags: everything up, for a person to play with.

use anyhow::Context as _;
use fake_github::actions::model::Environment;

use super::laptop::{Laptop, LaptopOptions, REPOSITORY};
use super::sample::sample_file;

/// Stays up until interrupted.
pub async fn stay_up(options: LaptopOptions) -> anyhow::Result<()> {
    anstream::println!("Starting Stackorder, a simulated GitHub and an S3 store on this machine …");
    let laptop = Laptop::start(options).await?;
    let github = laptop.github.base_url().to_owned();
    // So that there is a deployment to approve on the way.
    laptop.hub().set_environment(
        REPOSITORY,
        Environment { name: "staging".to_owned(), reviewers: vec!["bob".to_owned()], ..Default::default() },
    );
    let number = open_sample(&laptop).context("cannot open the first pull request")?;
    anstream::println!(
        "\n  Stackorder        {}\n  GitHub (simulated) {github}/{REPOSITORY}\n  Tool              {}\n  Files             {}\n",
        laptop.server_url,
        laptop.tool,
        laptop.dir().display()
    );
    anstream::println!(
        "Pull request #{number} changes two stacks and is being planned. Things to try:\n\
         \n  1. Open {github}/{REPOSITORY}/pull/{number}\n  2. Comment `stackorder apply`: it is refused, and says why\n  \
         3. Act as bob, approve, and comment `stackorder apply` again\n  4. Approve the deployment that waits (Actions), twice\n  \
         5. Merge, and watch the locks go at {}\n\
         \nCtrl-C ends everything.",
        laptop.server_url
    );
    tokio::signal::ctrl_c().await?;
    anstream::println!("\nStopping.");
    Ok(())
}

/// A pull request over two stacks in two waves.
fn open_sample(laptop: &Laptop) -> anyhow::Result<i64> {
    let edit = |path: &str, from: &str, to: &str| -> anyhow::Result<Option<Vec<u8>>> {
        Ok(Some(sample_file(path)?.replace(from, to).into_bytes()))
    };
    let vpc = "stacks/staging/vpc/main.tf";
    let apps = "stacks/staging/apps/main.tf";
    let files = [(vpc, edit(vpc, "10.20.16.0/20", "10.20.32.0/20")?), (apps, edit(apps, "count = 2", "count = 3")?)];
    let hub = laptop.hub();
    hub.commit(REPOSITORY, "more-room", "Make room in staging", "alice", &files)?;
    hub.open_pull_request(
        REPOSITORY,
        "more-room",
        "main",
        "Make room in staging",
        "One subnet moves, and one app more.",
        "alice",
    )
}
