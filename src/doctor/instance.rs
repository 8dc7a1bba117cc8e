//! The server itself: its database, its leader, its queue, its address and its clock.

use super::facts::{DatabaseFacts, Facts};
use super::{Finding, SERVER};
use crate::clock::{MINUTE_MS, Millis, SECOND_MS, rfc3339};
use crate::guide::Topic;
use crate::store::Schema;

/// A clock this far off still works everywhere.
const CLOCK_OFF_FINE_MS: Millis = 5 * SECOND_MS;
/// GitHub takes the App's tokens from a clock that is a minute ahead, and servers on one database compare their leases.
const CLOCK_OFF_MAX_MS: Millis = 30 * SECOND_MS;

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut found = vec![address(facts), audience(facts), clock(facts)];
    match &facts.database {
        Err(reason) => found.push(Finding::problem(
            Topic::Database,
            SERVER,
            format!("the database cannot be used: {reason}"),
            "Check DATABASE_URL, that the database runs, and that this machine reaches it.",
        )),
        Ok(database) => {
            found.push(schema(database));
            if database.schema == Schema::Current {
                found.push(leader(database, facts.now));
                found.push(dead_letters(database));
            }
        }
    }
    found
}

fn schema(database: &DatabaseFacts) -> Finding {
    match database.schema {
        Schema::Current => Finding::ok(Topic::Database, SERVER, "the database answers and its schema is current"),
        Schema::Older(missing) => Finding::problem(
            Topic::Database,
            SERVER,
            format!("the schema lacks {missing} of this version's migrations"),
            "Start the server of this version: it migrates before it serves. Leader and queue were not looked at.",
        ),
        Schema::Newer(unknown) => Finding::problem(
            Topic::Database,
            SERVER,
            format!("a newer version made {unknown} migrations that this one does not know"),
            "Run the doctor of the version that serves. Leader and queue were not looked at.",
        ),
    }
}

fn leader(database: &DatabaseFacts, now: Millis) -> Finding {
    let fix =
        "Start a server, or look into its log: without a leader nothing is reconciled, pruned or checked for drift.";
    match &database.leader {
        Some(lease) if lease.expires_at > now => {
            Finding::ok(Topic::Leader, SERVER, format!("process {} leads", lease.holder))
        }
        Some(lease) => Finding::problem(
            Topic::Leader,
            SERVER,
            format!("no server leads: the last leader was not seen after {}", rfc3339(lease.expires_at)),
            fix,
        ),
        None => Finding::problem(Topic::Leader, SERVER, "no server leads", fix),
    }
}

fn dead_letters(database: &DatabaseFacts) -> Finding {
    let Some(newest) = database.dead.iter().max_by_key(|letter| letter.due_at) else {
        return Finding::ok(Topic::DeadLetters, SERVER, "no webhook and no job was given up");
    };
    let count = database.dead.len();
    let were = if count == 1 { "1 webhook or job was".to_owned() } else { format!("{count} webhooks or jobs were") };
    let (kind, at) = (&newest.kind, rfc3339(newest.due_at));
    Finding::warning(
        Topic::DeadLetters,
        SERVER,
        format!("{were} given up, the newest ({kind}, {}) at {at}", newest.id),
        "stackorder admin queue list --dead shows why; stackorder admin queue retry ID puts one back.",
    )
}

fn address(facts: &Facts) -> Finding {
    let url = &facts.base_url;
    let is_local = ["http://127.0.0.1", "http://localhost", "http://[::1]"].iter().any(|local| url.starts_with(local));
    if url.starts_with("https://") || is_local {
        return Finding::ok(Topic::ServerAddress, SERVER, format!("the public address is {url}"));
    }
    Finding::warning(
        Topic::ServerAddress,
        SERVER,
        format!("the public address {url} is not encrypted"),
        "Put TLS in front of the server and set STACKORDER_BASE_URL to the https address.",
    )
}

fn audience(facts: &Facts) -> Finding {
    if facts.audience.trim_end_matches('/') == facts.base_url {
        return Finding::ok(Topic::ServerAddress, SERVER, "tokens of jobs are made out to the public address");
    }
    Finding::warning(
        Topic::ServerAddress,
        SERVER,
        format!("tokens of jobs must be made out to {:?}, which is not the public address", facts.audience),
        "Give jobs the same STACKORDER_OIDC_AUDIENCE, or unset it on the server.",
    )
}

fn clock(facts: &Facts) -> Finding {
    let fix = "Synchronise the clock of the server's machine (NTP).";
    match facts.clock_ahead_by {
        Err(ref reason) => Finding::problem(
            Topic::Clock,
            SERVER,
            format!("GitHub cannot be asked for the time: {reason}"),
            "Check GITHUB_API_URL, and that this machine reaches it.",
        ),
        Ok(ahead) if ahead.abs() <= CLOCK_OFF_FINE_MS => {
            Finding::ok(Topic::Clock, SERVER, "the clock agrees with GitHub's")
        }
        Ok(ahead) => {
            let way = if ahead > 0 { "ahead of" } else { "behind" };
            let what = format!("the clock is {} {way} GitHub's", span(ahead.abs()));
            match ahead.abs() <= CLOCK_OFF_MAX_MS {
                true => Finding::warning(Topic::Clock, SERVER, what, fix),
                false => Finding::problem(Topic::Clock, SERVER, what, fix),
            }
        }
    }
}

fn span(ms: Millis) -> String {
    match ms {
        ms if ms < 2 * MINUTE_MS => format!("{} s", ms / SECOND_MS),
        ms => format!("{} min", ms / MINUTE_MS),
    }
}
