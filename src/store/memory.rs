//! x
pub struct MemoryStore;
