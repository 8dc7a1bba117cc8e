//! The pages as a browser without scripts uses them.

use crate::world::{REPO, World};

struct Browser<'a> {
    world: &'a World,
    login: &'static str,
}

impl Browser<'_> {
    async fn read(&self, path: &str) -> (u16, String) {
        let url = format!("{}{path}", self.world.hub.base_url());
        let request = self.world.client.get(url).header("cookie", format!("fake_github_user={}", self.login));
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// Sends a form; where it leads.
    async fn send(&self, path: &str, fields: &str) -> (u16, String) {
        let request = self
            .world
            .client
            .post(format!("{}{path}", self.world.hub.base_url()))
            .header("cookie", format!("fake_github_user={}", self.login))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(fields.to_owned());
        let answer = request.send().await.unwrap();
        let location = answer.headers().get("location").map(|value| value.to_str().unwrap().to_owned());
        (answer.status().as_u16(), location.unwrap_or_default())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_comments_approves_and_merges_in_a_browser() {
    let world = World::new().await;
    let number = world.pull_request();
    let path = format!("/{REPO}/pull/{number}");
    let (alice, bob) = (Browser { world: &world, login: "alice" }, Browser { world: &world, login: "bob" });

    bob.send(&format!("{path}/comment"), "body=**fine**+%3Cscript%3E").await;
    let (status, page) = bob.read(&path).await;
    assert_eq!(status, 200);
    for wanted in
        ["Simulated GitHub", "A bigger vpc", "<b>fine</b> &lt;script&gt;", "+# a bigger vpc", "Merge pull request"]
    {
        assert!(page.contains(wanted), "no {wanted} in {page}");
    }
    assert!(
        alice.send(&format!("{path}/review"), "event=approve").await.1.contains("notice="),
        "nobody approves their own"
    );
    bob.send(&format!("{path}/review"), "event=approve").await;
    assert_eq!(world.hub.issue(REPO, number).unwrap().pull.unwrap().reviews.len(), 1);
    assert_eq!(alice.send(&format!("{path}/merge"), "").await, (303, path.clone()));
    assert!(alice.read(&path).await.1.contains("Merged by alice"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_answers_and_strangers_see_none_of_a_private_repository() {
    let world = World::new().await;
    let number = world.pull_request();
    let issue = world.hub.open_issue(REPO, "Drift", "- a", &[], "alice", None);
    let alice = Browser { world: &world, login: "alice" };
    let mallory = Browser { world: &world, login: "mallory" };
    let pages = ["", "/pulls", "/issues", "/actions", "/settings/environments"].map(str::to_owned);
    let pages = pages.into_iter().chain([format!("/pull/{number}"), format!("/issues/{issue}")]);
    for page in pages.map(|page| format!("/{REPO}{page}")) {
        assert_eq!(alice.read(&page).await.0, 200, "{page}");
        assert_eq!(mallory.read(&page).await.0, 404, "{page}");
    }
    assert_eq!(alice.read("/").await.0, 200);
    assert_eq!(mallory.send(&format!("/{REPO}/pull/{number}/merge"), "").await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_signs_a_person_in_and_learns_only_what_both_reach() {
    let world = World::new().await;
    let alice = Browser { world: &world, login: "alice" };
    let form = format!("client_id={}&redirect_uri=http%3A%2F%2Flocalhost%2Fcallback&state=s1", world.app.client_id);
    let refused = alice.send("/login/oauth/authorize", &form).await;
    assert_eq!(refused, (404, String::new()), "the app has no callback");

    world.hub.set_callback_urls(world.app.id, &["http://localhost/callback"]);
    let (status, location) = alice.send("/login/oauth/authorize", &form).await;
    assert_eq!(status, 303);
    let code = location.split("code=").nth(1).unwrap().split('&').next().unwrap().to_owned();
    assert!(location.ends_with("state=s1"));
    let exchange = serde_json::json!({
        "client_id": world.app.client_id, "client_secret": world.app.client_secret, "code": code,
    });
    let url = format!("{}/login/oauth/access_token", world.hub.base_url());
    let accept = [("accept", "application/json")];
    let token = world.call_with("POST", &url, "", Some(exchange.clone()), &accept).await.body;
    let token = token["access_token"].as_str().unwrap().to_owned();
    assert_eq!(world.call("GET", "/user", &token, None).await.body["login"], "alice");
    let installations = world.call("GET", "/user/installations", &token, None).await.body;
    assert_eq!(installations["total_count"], 1);

    let again = world.call_with("POST", &url, "", Some(exchange), &accept).await;
    assert_eq!((again.status, again.body["error"].as_str()), (200, Some("bad_verification_code")));
}
