//! Every row of spec 30 §5.2, as the bullet that people read, and the rules of §5.3.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{ArtifactFacts, Comparison, Membership, Permission, PullRequest, Review, ReviewState};
use super::{Entry, GateFacts, GateRequest, GateScene, evaluate};
use crate::config::model::{InstanceConfig, RequireUpToDate, StackConfig};
use crate::ids::{RunId, Sha, StackId, StackKey};
use crate::render;
use crate::run::model::{Lock, Verdict};
use crate::run::plan_view::PlanView;
use crate::run::status::{RunStatus, Trigger, VerdictStatus};
use crate::run::tests::story::{Story, key, sha};

mod plans;

/// A request to apply everything of a pull request that nothing speaks against, until a test changes something.
struct Asked {
    story: Story,
    entry: Entry,
    requester: &'static str,
    keys: &'static str,
    plans_changed: bool,
    facts: GateFacts,
    stack_files: BTreeMap<StackKey, StackConfig>,
    commits: Vec<Sha>,
}

impl Asked {
    fn of(story: Story) -> Self {
        let pull = PullRequest {
            number: 1,
            title: "Change".to_owned(),
            open: true,
            merged: false,
            draft: false,
            author: "ada".to_owned(),
            head_sha: sha('a'),
            head_ref: "topic".to_owned(),
            from_fork: false,
            base_ref: "main".to_owned(),
            base_sha: sha('f'),
            mergeable: Some(true),
            mergeable_state: "clean".to_owned(),
            merge_commit_sha: None,
            merged_by: None,
        };
        let mut artifacts: BTreeMap<i64, Vec<ArtifactFacts>> = BTreeMap::new();
        for row in story.scene.rows.values().flat_map(|rows| rows.values()) {
            if !row.plan_artifact.is_empty() {
                let (name, expired) = (row.plan_artifact.clone(), false);
                let listed = artifacts.entry(row.plan_run_id).or_default();
                listed.push(ArtifactFacts { id: 1, name, expired, expires_at: None });
            }
        }
        let facts = GateFacts {
            asked_at: crate::clock::Millis::MAX,
            pull,
            permission: Permission::Write,
            teams: BTreeMap::new(),
            reviews: Vec::new(),
            reviewers: [("bob", Permission::Write), ("cyd", Permission::Admin), ("eve", Permission::Read)]
                .map(|(login, permission)| (login.to_owned(), permission))
                .into(),
            codeowners: None,
            owner_members: BTreeSet::new(),
            ahead: Comparison::default(),
            artifacts,
            unreadable_files: BTreeMap::new(),
        };
        Self {
            story,
            entry: Entry::Comment,
            requester: "ada",
            keys: "",
            plans_changed: false,
            facts,
            stack_files: BTreeMap::new(),
            commits: vec![sha('a')],
        }
    }

    /// `vpc <- eks <= apps, svpc`, all planned.
    fn usual() -> Self {
        Self::of(Story::planned("vpc +1, eks +1, apps +1, svpc +1"))
    }

    fn review(&mut self, author: &str, state: ReviewState) {
        let submitted_at = self.facts.reviews.len() as i64;
        let commit = sha('a').to_string();
        self.facts.reviews.push(Review { author: author.to_owned(), state, commit, submitted_at });
    }

    fn verdict(&mut self, stack: &str, name: &str, status: VerdictStatus, summary: &str) {
        let run_id = self.story.view('a').rows[stack].run_id.clone();
        let verdict = Verdict {
            run_id: run_id.clone(),
            stack_id: StackId::of(7, stack),
            key: key(stack),
            name: name.to_owned(),
            status,
            summary: summary.to_owned(),
            details: String::new(),
            details_url: String::new(),
            updated_at: 0,
        };
        self.story.scene.verdicts.insert((run_id, key(stack), name.to_owned()), verdict);
    }

    fn lock(&mut self, stack: &str, pr_number: i64) {
        let lock = Lock {
            stack_id: StackId::of(7, stack),
            key: key(stack),
            repo_id: 7,
            run_id: RunId::parse("99999999-0000-4000-8000-000000000000").unwrap(),
            pr_number,
            taken_at: crate::clock::parse_rfc3339("2026-11-29T19:05:33Z").unwrap(),
            reason: String::new(),
        };
        self.story.scene.locks_mut().insert(key(stack), lock);
    }

    /// The bullets of the refusal comment.
    fn bullets(&self) -> Vec<String> {
        let commits: Vec<&Sha> = self.commits.iter().collect();
        let view = PlanView::of(&self.story.scene, &commits);
        let (named, unknown): (Vec<&str>, Vec<&str>) =
            self.keys.split_whitespace().partition(|name| view.rows.contains_key(*name));
        let selected: BTreeSet<StackKey> = if self.keys.is_empty() {
            view.rows.keys().cloned().collect()
        } else {
            named.into_iter().map(key).collect()
        };
        let request = GateRequest {
            entry: self.entry,
            requester: self.requester.to_owned(),
            selected,
            unknown: unknown.into_iter().map(str::to_owned).collect(),
            plans_changed: self.plans_changed,
        };
        let refusals = evaluate(&GateScene {
            request: &request,
            scene: &self.story.scene,
            view: &view,
            stack_files: &self.stack_files,
            facts: &self.facts,
            now: self.story.now,
        });
        let comment = render::refusal::comment("stackorder apply", &refusals);
        comment.lines().filter_map(|line| line.strip_prefix("- ")).map(without_help).collect()
    }

    fn policy(&mut self, change: impl FnOnce(&mut crate::config::model::ApplyConfig)) {
        self.story.policy(|policy| change(&mut policy.apply));
    }
}

/// A bullet without its link into the guide, which every one must have.
fn without_help(bullet: &str) -> String {
    let (reason, link) = bullet.split_once(" [why and what to do](").unwrap_or_else(|| panic!("no link: {bullet}"));
    assert!(link.contains("#refused-") && link.ends_with(')'), "{bullet}");
    reason.to_owned()
}

const NOBODY: [&str; 0] = [];

#[test]
fn an_apply_that_nothing_speaks_against_is_let_through() {
    assert_eq!(Asked::usual().bullets(), NOBODY);
}

// -- layer 1 --------------------------------------------------------------------------------------

#[test]
fn somebody_must_be_recorded_as_asking() {
    let mut asked = Asked::usual();
    asked.requester = "";

    assert_eq!(asked.bullets(), ["**Layer 1, authorization**: nobody is recorded as asking for this apply"]);
}

#[test]
fn case_038_without_a_team_list_write_access_decides() {
    let mut asked = Asked::usual();
    let reason = |permission| {
        format!(
            "**Layer 1, authorization**: ada only has {permission} permission on acme/infra, and an apply takes write access"
        )
    };
    for (permission, refused) in [
        (Permission::None, Some("none")),
        (Permission::Read, Some("read")),
        (Permission::Triage, Some("triage")),
        (Permission::Write, None),
        (Permission::Maintain, None),
        (Permission::Admin, None),
    ] {
        asked.facts.permission = permission;
        assert_eq!(asked.bullets(), refused.map(reason).into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn with_a_team_list_one_active_membership_decides_however_teams_are_written() {
    let mut asked = Asked::usual();
    asked.facts.permission = Permission::Read;
    asked.policy(|apply| apply.allowed_teams = vec!["sre".to_owned(), "@other/core".to_owned()]);
    let refused =
        "**Layer 1, authorization**: ada is in none of the teams `apply.allowed_teams` names: `acme/sre`, `other/core`";
    assert_eq!(asked.bullets(), [refused]);

    asked.facts.teams.insert("other/core".to_owned(), Membership::Active);
    assert_eq!(asked.bullets(), NOBODY);
}

#[test]
fn case_046_a_stricter_list_of_one_stack_refuses_only_that_stack() {
    let mut asked = Asked::usual();
    let mut file = StackConfig::default();
    file.apply.allowed_teams = vec!["core".to_owned()];
    asked.stack_files.insert(key("vpc"), file);
    let refused =
        "**Layer 1, authorization** (`vpc`): ada is in none of the teams `apply.allowed_teams` names: `acme/core`";

    assert_eq!(asked.bullets(), [refused]);
    asked.keys = "vpc";
    assert_eq!(asked.bullets(), [refused]);
    asked.keys = "eks apps";
    assert_eq!(asked.bullets(), NOBODY);
}

#[test]
fn case_046_a_list_of_an_instance_is_that_instances_own() {
    let mut story = Story::of("kyc:blue, kyc:green");
    story.resolved('a', "kyc:blue, kyc:green");
    story.plans("kyc:blue +1, kyc:green +1");
    let mut asked = Asked::of(story);
    let mut file = StackConfig::default();
    let mut blue = InstanceConfig::default();
    blue.apply.allowed_teams = vec!["core".to_owned()];
    file.instances = [("blue".to_owned(), blue), ("green".to_owned(), InstanceConfig::default())].into();
    asked.stack_files = ["kyc:blue", "kyc:green"].map(|stack| (key(stack), file.clone())).into();

    assert_eq!(
        asked.bullets(),
        [
            "**Layer 1, authorization** (`kyc:blue`): ada is in none of the teams `apply.allowed_teams` names: `acme/core`"
        ]
    );
}

#[test]
fn stacks_with_the_same_teams_are_one_refusal_however_the_teams_are_spelled() {
    let mut asked = Asked::usual();
    asked.policy(|apply| apply.allowed_teams = vec!["sre".to_owned()]);
    for (stack, team) in [("vpc", "core"), ("eks", "@acme/core"), ("apps", "acme/core")] {
        let mut file = StackConfig::default();
        file.apply.allowed_teams = vec![team.to_owned()];
        asked.stack_files.insert(key(stack), file);
    }

    assert_eq!(
        asked.bullets(),
        [
            "**Layer 1, authorization** (`apps`, `eks`, `vpc`): ada is in none of the teams `apply.allowed_teams` names: `acme/core`",
            "**Layer 1, authorization** (`svpc`): ada is in none of the teams `apply.allowed_teams` names: `acme/sre`",
        ]
    );
}

#[test]
fn case_047_an_unreadable_membership_names_the_missing_permission() {
    let mut asked = Asked::usual();
    asked.policy(|apply| apply.allowed_teams = vec!["sre".to_owned()]);
    asked.facts.teams.insert("acme/sre".to_owned(), Membership::Unreadable);

    assert_eq!(
        asked.bullets(),
        ["**Layer 1, authorization**: team membership is unreadable because the App lacks Members: Read, which \
          `apply.allowed_teams` needs"]
    );
}

#[test]
fn case_048_a_default_branch_template_that_does_not_render_refuses_its_stack_once() {
    let mut asked = Asked::usual();
    asked.facts.permission = Permission::Write;
    let file = StackConfig { environment: "{{ .nothing }}".to_owned(), ..StackConfig::default() };
    asked.stack_files.insert(key("vpc"), file);

    let bullets = asked.bullets();
    assert_eq!(bullets.len(), 1, "{bullets:?}");
    assert!(
        bullets[0].starts_with("**Layer 1, authorization** (`vpc`): `apply.allowed_teams` cannot be determined: "),
        "{bullets:?}"
    );
}

#[test]
fn a_default_branch_file_that_does_not_parse_refuses_its_stack() {
    let mut asked = Asked::usual();
    asked.facts.unreadable_files.insert(key("vpc"), "vpc/.stackorder.yaml:3: unknown key".to_owned());

    let bullets = asked.bullets();
    assert_eq!(bullets.len(), 1, "{bullets:?}");
    assert!(
        bullets[0].starts_with("**Layer 1, authorization** (`vpc`): `apply.allowed_teams` cannot be determined: vpc/"),
        "{bullets:?}"
    );
}

#[test]
fn an_api_key_passes_layer_1() {
    let mut asked = Asked::usual();
    asked.requester = "apikey:ci";
    asked.facts.permission = Permission::None;

    assert_eq!(asked.bullets(), NOBODY);
}

// -- layer 2 --------------------------------------------------------------------------------------

#[test]
fn case_043_144_bl_135_the_state_of_the_pull_request_decides() {
    type Change = fn(&mut PullRequest);
    let cases: [(Change, &str); 6] = [
        (|pull| (pull.open, pull.merged) = (false, true), "pull request is merged"),
        (|pull| pull.open = false, "pull request is closed"),
        (|pull| pull.draft = true, "pull request is a draft"),
        (
            |pull| pull.base_ref = "release".to_owned(),
            "pull request targets `release`; only the default branch is applied",
        ),
        (|pull| pull.mergeable = Some(false), "pull request conflicts with its base branch"),
        (|pull| pull.mergeable_state = "dirty".to_owned(), "pull request conflicts with its base branch"),
    ];
    for (change, reason) in cases {
        let mut asked = Asked::usual();
        change(&mut asked.facts.pull);
        assert_eq!(asked.bullets(), [format!("**Layer 2, approvals**: {reason}")]);
    }
}

#[test]
fn case_043_145_bl_124_what_blocks_the_merge_does_not_refuse_and_an_unknown_answer_does() {
    for state in ["blocked", "unstable", "behind"] {
        let mut asked = Asked::usual();
        asked.facts.pull.mergeable_state = state.to_owned();
        assert_eq!(asked.bullets(), NOBODY, "{state}");
    }
    let mut asked = Asked::usual();
    asked.facts.pull.mergeable = None;

    assert_eq!(asked.bullets(), ["**Layer 2, approvals**: GitHub has not worked out mergeability yet; comment again"]);
}

/// One approval is wanted.
fn wanting_one() -> Asked {
    let mut asked = Asked::usual();
    asked.policy(|apply| apply.require_approvals = 1);
    asked
}

const TOO_FEW: &str =
    "**Layer 2, approvals**: head commit aaaaaaa has 0 approvals that count; `apply.require_approvals` wants 1";

#[test]
fn case_039_040_041_042_only_the_last_word_of_somebody_else_who_may_push_on_the_head_counts() {
    use ReviewState::{Approved, ChangesRequested, Commented, Dismissed, Pending};
    for (reviews, counts) in [
        (vec![("bob", Approved)], true),
        (vec![("bob", Approved), ("bob", Commented)], true),
        (vec![("bob", Approved), ("BOB", ChangesRequested)], false),
        (vec![("bob", Approved), ("bob", Dismissed)], false),
        (vec![("bob", ChangesRequested), ("bob", Approved)], true),
        (vec![("bob", Pending)], false),
        (vec![("ada", Approved)], false),
        (vec![("Ada", Approved)], false),
        (vec![("eve", Approved)], false),
        (vec![("nobody", Approved)], false),
    ] {
        let mut asked = wanting_one();
        for (author, state) in &reviews {
            asked.review(author, *state);
        }
        let expected: &[&str] = if counts { &[] } else { &[TOO_FEW] };
        assert_eq!(asked.bullets(), expected, "{reviews:?}");
    }
    let mut older = wanting_one();
    older.review("bob", Approved);
    older.facts.reviews[0].commit = sha('b').to_string();
    assert_eq!(older.bullets(), [TOO_FEW]);
}

#[test]
fn four_eyes_are_not_the_authors_own() {
    let mut asked = Asked::usual();
    asked.policy(|apply| apply.four_eyes = true);
    asked.requester = "Ada";
    assert_eq!(
        asked.bullets(),
        ["**Layer 2, four eyes**: Ada authored this pull request; `apply.four_eyes` wants another person to apply it"]
    );

    asked.requester = "bob";
    assert_eq!(asked.bullets(), NOBODY);
}

#[test]
fn case_044_bl_116_the_last_matching_owner_must_have_approved() {
    let mut asked = Asked::usual();
    asked.policy(|apply| apply.require_codeowner_review = true);
    asked.keys = "vpc";
    assert_eq!(
        asked.bullets(),
        [
            "**Layer 2, code owner review**: `apply.require_codeowner_review` is on, yet the default branch has no CODEOWNERS"
        ]
    );

    asked.facts.codeowners = Some("/vpc/ @cyd\n*.tf @bob\n".to_owned());
    asked.review("cyd", ReviewState::Approved);
    assert_eq!(
        asked.bullets(),
        ["**Layer 2, code owner review** (`vpc`): no approval on the head commit by a code owner (`@bob`)"]
    );

    asked.review("bob", ReviewState::Approved);
    assert_eq!(asked.bullets(), NOBODY);
}

#[test]
fn case_045_a_stack_that_nobody_owns_passes_and_a_teams_member_speaks_for_it() {
    let mut asked = Asked::usual();
    asked.policy(|apply| apply.require_codeowner_review = true);
    asked.facts.codeowners = Some("/vpc/ @acme/net\n".to_owned());
    asked.review("bob", ReviewState::Approved);
    assert_eq!(
        asked.bullets(),
        ["**Layer 2, code owner review** (`vpc`): no approval on the head commit by a code owner (`@acme/net`)"]
    );

    asked.facts.owner_members.insert(("acme/net".to_owned(), "bob".to_owned()));
    assert_eq!(asked.bullets(), NOBODY);
}

#[test]
fn case_146_a_base_that_moved_on_under_a_selected_stack_refuses_it() {
    let mut asked = Asked::usual();
    asked.facts.ahead = Comparison {
        files: vec!["vpc/main.tf".to_owned(), "docs/a.md".to_owned()],
        truncated: false,
        commits: ['b', 'c', 'd', 'e'].map(|letter| sha(letter).to_string()).to_vec(),
    };
    assert_eq!(
        asked.bullets(),
        ["**Layer 2, base branch** (`vpc`): `main` has moved on under it since this branch left it \
          (eeeeeee, ddddddd, ccccccc); update the branch and plan again"]
    );

    asked.keys = "eks apps";
    assert_eq!(asked.bullets(), NOBODY, "reached by propagation only");
    asked.keys = "vpc";
    asked.policy(|apply| apply.require_up_to_date = RequireUpToDate::Off);
    assert_eq!(asked.bullets(), NOBODY);
}

#[test]
fn a_comparison_that_github_cut_reaches_every_stack() {
    let mut asked = Asked::usual();
    asked.facts.ahead = Comparison { files: Vec::new(), truncated: true, commits: vec![sha('b').to_string()] };

    assert_eq!(
        asked.bullets(),
        [
            "**Layer 2, base branch** (`apps`, `eks`, `svpc`, `vpc`): `main` has moved on under it since this branch left it \
          (bbbbbbb); update the branch and plan again"
        ]
    );
}

// -- layer 5 --------------------------------------------------------------------------------------

#[test]
fn a_lock_of_somebody_else_refuses_and_the_pull_requests_own_does_not() {
    let mut asked = Asked::usual();
    asked.lock("vpc", 2);
    asked.lock("eks", 0);
    asked.lock("apps", 1);

    let since = "has held the lock since 2026-11-29 19:05 UTC; free it from there with `stackorder unlock`";
    assert_eq!(
        asked.bullets(),
        [
            format!("**Layer 5, locks** (`eks`): a manual run {since}"),
            format!("**Layer 5, locks** (`vpc`): #2 {since}"),
        ]
    );
    asked.keys = "apps svpc";
    assert_eq!(asked.bullets(), NOBODY);
}

#[test]
fn case_055_a_lock_that_was_taken_while_github_was_asked_was_taken_in_a_race() {
    let mut asked = Asked::usual();
    asked.lock("vpc", 2);
    asked.facts.asked_at = asked.story.scene.locks["vpc"].taken_at;

    assert_eq!(asked.bullets(), ["**Layer 5, locks** (`vpc`): #2 took the lock first"]);
}

#[test]
fn case_056_a_running_apply_of_the_same_pull_request_is_named_with_its_status() {
    let mut story = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    let id = story.apply("vpc");
    story.claim("vpc").unwrap();

    let bullets = Asked::of(story).bullets();

    assert_eq!(bullets.len(), 1, "a plan in use is no second reason: {bullets:?}");
    assert!(bullets[0].starts_with(&format!("**Layer 5, locks**: apply run {id} is applying; let it end first (")));
}

#[test]
fn case_057_an_apply_that_is_stuck_in_pending_refuses_nobody() {
    let mut story = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    let id = story.apply("vpc");
    story.scene.runs.get_mut(&id).unwrap().status = RunStatus::Pending;
    let mut asked = Asked::of(story);
    assert_eq!(asked.bullets().len(), 1);

    asked.story.now += 60_000;
    assert_eq!(asked.bullets(), NOBODY);
}

// -- all layers -----------------------------------------------------------------------------------

#[test]
fn case_037_every_layer_speaks_in_order() {
    let mut asked = Asked::of(Story::planned("vpc +1, eks +1, apps ?, svpc +1"));
    asked.facts.permission = Permission::Read;
    asked.facts.pull.draft = true;
    asked.verdict("vpc", "cost", VerdictStatus::Fail, "");
    asked.lock("svpc", 2);

    let layers: Vec<String> = asked.bullets().iter().map(|bullet| bullet[8..9].to_owned()).collect();
    assert_eq!(layers, ["1", "2", "3", "4", "5"]);
}

#[test]
fn case_051_the_default_branchs_policy_counts() {
    let mut asked = Asked::usual();
    asked.story.scene.repo.config = None;
    assert_eq!(asked.bullets(), NOBODY, "without a file the defaults count");

    asked.policy(|apply| apply.require_approvals = 1);
    assert_eq!(asked.bullets(), [TOO_FEW]);
}

#[test]
fn each_entry_asks_its_own_layers() {
    let mut asked = Asked::of(Story::planned("vpc +1, eks +1, apps ?, svpc +1"));
    asked.facts.permission = Permission::Read;
    asked.facts.pull.draft = true;
    asked.facts.ahead = Comparison { truncated: true, ..Comparison::default() };
    asked.verdict("vpc", "cost", VerdictStatus::Fail, "");
    asked.lock("svpc", 2);
    for (entry, layers) in [
        (Entry::Comment, "1 2 2 3 4 5"),
        (Entry::Merge, "1 3 4 5"),
        (Entry::AfterMerge, "1 2 3 4 5"),
        (Entry::ProtectionRule { comment_apply: true }, "1 2"),
        (Entry::ProtectionRule { comment_apply: false }, "1"),
    ] {
        asked.entry = entry;
        let asked_layers: Vec<String> = asked.bullets().iter().map(|bullet| bullet[8..9].to_owned()).collect();
        assert_eq!(asked_layers.join(" "), layers, "{entry:?}");
    }
}

#[test]
fn case_136_a_request_for_an_older_merge_is_refused_once_a_later_one_reached_its_stack() {
    let mut story = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    story.apply_at(sha('f'), &[sha('f'), sha('a')], Trigger::PullRequest, "vpc", &["vpc"]);
    let replan = story.replan().id.clone();
    story.plan_result(&replan, "vpc", "+2").unwrap();
    let mut asked = Asked::of(story);
    asked.entry = Entry::AfterMerge;
    asked.commits = vec![sha('f'), sha('a')];
    asked.keys = "vpc";
    (asked.facts.pull.open, asked.facts.pull.merged) = (false, true);
    assert_eq!(asked.bullets(), NOBODY);

    let files = vec!["vpc/main.tf".to_owned()];
    asked.facts.ahead = Comparison { files, truncated: false, commits: vec![sha('e').to_string()] };
    assert_eq!(
        asked.bullets(),
        [
            "**Layer 2, base branch** (`vpc`): `main` has moved on under it since this branch left it (eeeeeee); update the \
          branch and plan again"
        ]
    );
}
