//! What a plan says, for everyone who cannot or must not read the plan itself.
//!
//! - `summary`: `show -json` counted, one count per change, with the addresses behind the counts.
//! - `digest`: the hashes that tie what people reviewed to what a job applies.
//! - `text`: the plan as people read it, cut to the size that may travel.
//! - `diff`: before and after of each attribute, as far as anybody may see them.
//!
//! Nothing here runs the tool. What looks secret is decided in `redaction`, which `diff` asks for every string.

pub mod diff;
pub mod digest;
pub mod summary;
pub mod text;
