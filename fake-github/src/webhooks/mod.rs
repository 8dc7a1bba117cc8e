//! Webhooks: what an app is told, and how it gets there.
//!
//! - `payloads`: the body of every event. `sender`: signing, sending, recording, redelivering.

mod payloads;
mod sender;

pub use payloads::RefMove;
pub use sender::Sender;
