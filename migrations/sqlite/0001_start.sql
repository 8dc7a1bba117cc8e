-- What is queried or constrained has a column; `body` holds the whole value as JSON, written from the same value.
-- Times are milliseconds since the epoch, UTC. Keep in step with migrations/postgres.

create table installations (
    id integer primary key,
    account text not null,
    account_type text not null,
    suspended integer not null check (suspended in (0, 1))
) strict;

create table repos (
    id integer primary key,
    installation_id integer not null references installations (id) on delete cascade,
    full_name text not null,
    default_branch text not null,
    private integer not null check (private in (0, 1)),
    config text,
    config_sha text not null,
    default_graph text
) strict;
create unique index repos_full_name on repos (lower(full_name));
create index repos_installation on repos (installation_id);

create table graphs (
    repo_id integer not null references repos (id) on delete cascade,
    sha text not null,
    tree_hash text not null,
    content_hash text not null,
    pr_number integer not null,
    created_at integer not null,
    body text not null,
    primary key (repo_id, sha)
) strict;
create index graphs_tree_hash on graphs (repo_id, tree_hash);
create index graphs_newest on graphs (repo_id, created_at);

create table stacks (
    id text primary key,
    repo_id integer not null references repos (id) on delete cascade,
    key text not null,
    changed_at integer,
    first_seen_at integer not null,
    last_seen_at integer not null,
    removed_at integer,
    drift_issue integer,
    unique (repo_id, key)
) strict;

create table runs (
    id text primary key,
    repo_id integer not null references repos (id) on delete cascade,
    sha text not null,
    pr_number integer not null check (pr_number >= 0),
    trigger text not null
        check (trigger in ('pull_request', 'comment', 'push', 'schedule', 'rerequest', 'manual', 'upstream')),
    mode text not null check (mode in ('plan', 'apply', 'drift')),
    status text not null
        check (status in ('pending', 'planning', 'planned', 'applying', 'applied', 'failed', 'unconfirmed', 'superseded')),
    requested_by text not null,
    for_run text,
    for_wave integer not null,
    workflow_run_id integer not null,
    created_at integer not null,
    version integer not null,
    body text not null,
    -- I10: nothing scheduled, pushed or re-requested can apply, and every apply has somebody who asked for it.
    check (mode <> 'apply' or (requested_by <> '' and trigger in ('comment', 'pull_request', 'manual')))
) strict;
create index runs_pull_request on runs (repo_id, pr_number);
create index runs_sha on runs (repo_id, sha);
create index runs_newest on runs (created_at, id);
create index runs_workflow_run on runs (workflow_run_id) where workflow_run_id <> 0;
create index runs_open on runs (created_at, id)
    where status in ('pending', 'planning', 'applying') or (status = 'planned' and mode = 'apply');
-- One apply of a pull request at a time (I3).
create unique index runs_open_apply on runs (repo_id, pr_number)
    where mode = 'apply' and pr_number > 0 and status in ('pending', 'planned', 'applying');
-- Concurrent registrations of one commit share one run (spec 30 §3.1).
create unique index runs_open_plan on runs (repo_id, pr_number, sha)
    where mode = 'plan' and trigger = 'pull_request' and status in ('pending', 'planning');
-- At most one re-plan of a wave (spec 30 §6.2a).
create unique index runs_replan on runs (for_run, for_wave) where for_run is not null;

create table run_stacks (
    run_id text not null references runs (id) on delete cascade,
    stack_id text not null,
    status text not null
        check (status in ('pending', 'planning', 'planned', 'applying', 'applied', 'failed', 'blocked', 'noop',
            'unconfirmed', 'unknown', 'skipped')),
    updated_at integer not null,
    body text not null,
    primary key (run_id, stack_id)
) strict;

create table plan_texts (
    run_id text not null,
    stack_id text not null,
    content text not null,
    primary key (run_id, stack_id),
    foreign key (run_id, stack_id) references run_stacks (run_id, stack_id) on delete cascade
) strict;

create table checks (
    run_id text not null,
    stack_id text not null,
    name text not null,
    status text not null check (status in ('pass', 'fail', 'warn')),
    body text not null,
    primary key (run_id, stack_id, name),
    foreign key (run_id, stack_id) references run_stacks (run_id, stack_id) on delete cascade
) strict;

create table dispatches (
    id text primary key,
    run_id text not null references runs (id) on delete cascade,
    wave integer not null,
    environment text not null,
    mode text not null check (mode in ('plan', 'apply', 'drift')),
    chunk integer not null,
    workflow_run_id integer,
    dispatched_at integer not null,
    completed_at integer,
    body text not null,
    -- I6
    unique (run_id, wave, environment, mode, chunk)
) strict;
-- I7: a workflow run serves at most one dispatch.
create unique index dispatches_workflow_run on dispatches (workflow_run_id) where workflow_run_id is not null;
create index dispatches_open on dispatches (dispatched_at) where completed_at is null;

-- I1: the primary key makes a second lock on a stack impossible.
create table locks (
    stack_id text primary key references stacks (id) on delete cascade,
    repo_id integer not null references repos (id) on delete cascade,
    key text not null,
    run_id text not null references runs (id) on delete cascade,
    pr_number integer not null,
    taken_at integer not null,
    reason text not null
) strict;
create index locks_repo on locks (repo_id);

create table drift (
    stack_id text not null references stacks (id) on delete cascade,
    run_id text not null,
    repo_id integer not null references repos (id) on delete cascade,
    checked_at integer not null,
    body text not null,
    primary key (stack_id, run_id)
) strict;
create index drift_repo on drift (repo_id);

create table deliveries (
    id text primary key,
    event text not null,
    payload text not null,
    received_at integer not null,
    due_at integer not null,
    attempts integer not null,
    claimed_by text,
    claimed_until integer,
    done_at integer,
    dead integer not null check (dead in (0, 1)),
    last_error text not null
) strict;
create index deliveries_due on deliveries (due_at, received_at, id) where done_at is null and not dead;
create index deliveries_received on deliveries (received_at);

create table jobs (
    -- Never used again, so that a late finish cannot meet a younger job.
    id integer primary key autoincrement,
    kind text not null,
    payload text not null,
    key text unique,
    due_at integer not null,
    attempts integer not null,
    generation integer not null,
    claimed_by text,
    claimed_until integer,
    dead integer not null check (dead in (0, 1)),
    last_error text not null
) strict;
create index jobs_due on jobs (due_at, id) where not dead;

create table once (
    name text primary key
) strict;

create table oidc_jtis (
    jti text primary key,
    expires_at integer not null
) strict;

create table api_keys (
    id text primary key,
    key_hash text not null unique,
    last_used_at integer,
    revoked_at integer,
    body text not null
) strict;

create table audit (
    id integer primary key autoincrement,
    at integer not null,
    actor text not null,
    action text not null,
    target text not null,
    pr_number integer,
    details text not null
) strict;
create index audit_target on audit (action, target, at);

create table rendered (
    scope text not null,
    name text not null,
    github_id integer not null,
    digest text not null,
    written_at integer not null,
    primary key (scope, name)
) strict;

create table leases (
    name text primary key,
    holder text not null,
    expires_at integer not null
) strict;
