-- The dispatches of a run are read for each of its decisions.
create index dispatches_run on dispatches (run_id);
