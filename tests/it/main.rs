#[test]
fn t() {}
mod actions;
