//! What a plan says, for everyone who cannot or must not read the plan itself.
//!
//! - `summary`: `show -json` counted, one count per change, with the addresses behind the counts.
//! - `digest`: the hashes that tie what people reviewed to what a job applies.
//! - `text`: the plan as people read it, cut to the size that may travel.
//!
//! Nothing here runs the tool, and nothing here masks secrets: that is `redaction`.

pub mod digest;
pub mod summary;
pub mod text;
