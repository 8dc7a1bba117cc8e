//! Ports for servers whose address has to be known before they listen, and while they are down.

use std::net::TcpListener;
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use rand::RngExt as _;

/// Systems give ports above these to whoever connects to somebody or asks for any port: one that nobody listens on for a
/// moment would be taken.
const QUIET: Range<u16> = 20_000..32_768;

/// The wanted port, or with 0 a free one that stays free for as long as nobody asks for exactly this one. No two calls of a
/// process find the same.
///
/// # Errors
/// A taken port is one clear sentence before anything is made.
pub fn free_port(wanted: u16) -> anyhow::Result<u16> {
    let bind = |port: u16| TcpListener::bind(("127.0.0.1", port));
    if wanted != 0 {
        bind(wanted).with_context(|| format!("port {wanted} is in use"))?;
        return Ok(wanted);
    }
    // Two processes begin at different places.
    static NEXT: LazyLock<AtomicUsize> = LazyLock::new(|| AtomicUsize::new(rand::rng().random_range(0..QUIET.len())));
    let mut all = QUIET.map(|_| QUIET.start + (NEXT.fetch_add(1, Ordering::Relaxed) % QUIET.len()) as u16);
    all.find(|port| bind(*port).is_ok()).context("no port is free")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_named_and_any_free_one_is_found() {
        let port = free_port(0).unwrap();
        assert!(QUIET.contains(&port));
        assert_ne!(free_port(0).unwrap(), port, "nobody listens there yet, and it is given away");
        let _taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
        assert_eq!(free_port(port).unwrap_err().to_string(), format!("port {port} is in use"));
    }
}
