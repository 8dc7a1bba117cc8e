//! What every store promises, told once and run on each of them.
//!
//! - `values`: small values to store.
//! - `scene`, `commit`, `graphs`: what decisions read, and the one write.
//! - `queue`, `repos`, `small`: the rest of the trait.
//! - `opening`: what only databases have.
//! - `alike`: any sequence of calls ends alike on SQLite and in memory.

mod alike;
mod commit;
mod graphs;
mod opening;
mod queue;
mod repos;
mod runs;
mod scene;
mod small;
pub mod values;

/// One test for each story and engine.
macro_rules! contract {
    ($($subject:ident { $($story:ident)+ })+) => {
        contract!(@engine memory Memory $($($subject $story)+)+);
        contract!(@engine sqlite Sqlite $($($subject $story)+)+);
        contract!(@engine postgres Postgres $($($subject $story)+)+);
    };
    (@engine $name:ident $engine:ident $($subject:ident $story:ident)+) => {
        mod $name {
            use crate::databases::{Engine, with_store};

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    let name = concat!(stringify!($name), "::", stringify!($story));
                    with_store(Engine::$engine, name, super::$subject::$story).await;
                }
            )+
        }
    };
}

contract! {
    scene {
        a_run_without_a_pull_request_stands_alone
        a_scene_holds_the_whole_pull_request
        a_scene_shows_locks_and_changes_of_the_whole_repository
        a_scene_of_a_new_pull_request_is_empty
        a_scene_of_very_many_runs_is_whole
        an_unknown_run_has_no_scene
        a_scene_shows_who_waits_in_other_pull_requests_first_come_first
        a_difference_of_two_scenes_can_be_committed
    }
    commit {
        a_commit_is_read_back_as_it_was_written
        a_moved_version_is_a_conflict_that_names_the_run
        a_conflict_leaves_nothing_behind
        of_two_racing_commits_one_wins
        a_second_open_apply_of_a_pull_request_is_a_conflict
        a_second_open_plan_of_a_commit_is_a_conflict
        a_second_replan_of_a_wave_is_a_conflict
        only_people_apply
        every_status_can_be_stored
        a_name_is_claimed_once
        a_dispatch_is_unique_within_its_run
        a_workflow_run_serves_one_dispatch
        a_stack_has_one_lock
        a_lock_moves_to_another_run_in_one_commit
        releasing_a_lock_of_someone_else_is_a_conflict
        releasing_a_lock_touches_its_holder
        racing_commits_take_a_lock_once
        commits_that_move_locks_or_queue_of_a_repository_happen_one_after_the_other
        a_stack_changes_only_forward
        rows_of_unknown_runs_are_refused
        many_rows_go_into_one_commit
    }
    graphs {
        a_graph_is_replaced_by_a_newer_upload
        a_graph_makes_its_own_stacks_known
        a_tree_hash_counts_for_its_pull_request_and_the_default_branch
        the_newest_graph_is_found
        stacks_outside_the_default_graph_are_removed
        the_newest_drift_of_a_stack_counts
    }
    runs {
        filters_narrow_the_list_of_runs
        a_list_of_runs_continues_where_it_stopped
        open_runs_are_those_that_wait_for_something
        rows_come_by_key
        open_dispatches_come_oldest_first
        runs_are_counted_by_status
    }
    queue {
        a_delivery_is_stored_once
        a_dead_delivery_can_be_delivered_again
        deliveries_that_come_at_once_are_all_stored_and_each_once
        deliveries_are_worked_off_oldest_first
        an_expired_lease_is_an_attempt
        a_renewed_claim_lasts_longer_and_is_no_attempt
        a_lost_claim_is_neither_renewed_nor_finished
        only_the_holder_finishes
        what_was_not_started_counts_no_attempt
        jobs_wait_for_their_time
        a_kind_is_claimed_alone
        a_key_waits_only_once
        a_key_asked_for_again_during_its_work_runs_again
        a_key_asked_for_again_is_not_lost_when_its_job_dies
        a_dead_key_lives_again
        a_finished_key_is_free_again
        errors_are_cut_and_dead_jobs_stay
        taking_over_ends_claims_and_leases_at_once_or_leaves_them_to_end
        racing_workers_share_the_jobs
        an_operator_sees_what_waits_what_is_worked_on_and_what_is_dead
        only_dead_letters_are_listed_where_only_they_are_asked_for
        a_dead_letter_is_put_back_once_and_that_is_audited
        what_is_no_dead_letter_is_not_put_back
    }
    repos {
        a_repository_keeps_its_configuration_when_it_is_saved_again
        a_repository_is_found_in_any_case
        a_name_belongs_to_one_repository
        suspending_an_installation_suspends_its_repositories
        a_repository_needs_its_installation
        forgetting_an_installation_forgets_everything_under_it
        forgetting_a_repository_leaves_the_others
    }
    small {
        the_database_answers
        audit_comes_newest_first
        audit_is_counted_by_target_and_time
        a_token_id_is_used_once
        an_api_key_is_found_by_its_hash
        a_revoked_key_stays_revoked
        noting_a_use_of_a_key_changes_nothing_else
        what_was_rendered_is_remembered
        a_lease_has_one_holder
        racing_holders_get_one_lease
        the_holder_of_a_lease_is_known
        old_things_are_pruned
        names_of_the_clock_are_forgotten_and_names_of_events_stay
        many_names_are_forgotten_in_one_pass
        nul_characters_are_dropped
    }
}
