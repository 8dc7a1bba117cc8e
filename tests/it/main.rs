//! The integration tests, in one binary.

mod actions;
mod databases;
mod readme;
mod store_contract;

/// Sorts behind every other test, so it is the last to start.
mod zz_not_run {
    #[test]
    fn lists_what_this_machine_lacks() {
        crate::databases::list_not_run();
    }
}
