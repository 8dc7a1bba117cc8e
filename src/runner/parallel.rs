//! The same work many times, on all processors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Reading ends sooner on many processors, but a runner has few and shares them.
const THREADS_MAX: usize = 8;

/// Numbers that a thread takes at once, so that taking costs nothing beside reading a file.
const BATCH: usize = 32;

/// Does something once for each number below `count`. A panic of the work is one of the caller.
pub(super) fn each(count: usize, work: &(dyn Fn(usize) + Sync)) {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.min(THREADS_MAX).min(count.div_ceil(BATCH));
    if threads <= 1 {
        return (0..count).for_each(work);
    }
    let next = AtomicUsize::new(0);
    let share = || loop {
        let start = next.fetch_add(BATCH, Ordering::Relaxed);
        if start >= count {
            return;
        }
        (start..count.min(start + BATCH)).for_each(work);
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(share);
        }
        share();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_turn_once() {
        for count in [0, 1, BATCH, BATCH + 1, 10 * BATCH + 7] {
            let turns: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            each(count, &|at| {
                turns[at].fetch_add(1, Ordering::Relaxed);
            });
            assert!(turns.iter().all(|turns| turns.load(Ordering::Relaxed) == 1), "{count}");
        }
    }
}
