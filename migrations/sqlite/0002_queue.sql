-- Commits that take or free locks of a repository, or move its queue of applies, happen one after the other.
alter table repos add column locks_version integer not null default 0;

-- Applies that wait, first come first (spec 30 §7.6).
create index runs_queue on runs (repo_id, created_at, id) where mode = 'apply' and status = 'pending';
