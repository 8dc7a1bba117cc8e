//! Two small signals between tasks: stop this, and who is busy.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::watch;

/// A request to stop that stays: whoever asks later still sees it. Clones are the same request.
#[derive(Debug, Clone)]
pub(super) struct Stop(Arc<Request>);

#[derive(Debug)]
struct Request {
    set: watch::Sender<bool>,
    /// Set together with it.
    children: Mutex<Vec<Weak<Request>>>,
}

impl Stop {
    pub(super) fn new() -> Self {
        Self(Arc::new(Request { set: watch::Sender::new(false), children: Mutex::default() }))
    }

    /// A request of its own that also follows this one.
    pub(super) fn child(&self) -> Self {
        let child = Self::new();
        let mut children = self.0.children.lock().unwrap_or_else(PoisonError::into_inner);
        children.retain(|known| known.strong_count() > 0);
        children.push(Arc::downgrade(&child.0));
        child.0.set.send_replace(self.is_set());
        child
    }

    /// Depth is that of calls between workflows, which is bounded.
    pub(super) fn set(&self) {
        let children = {
            let mut children = self.0.children.lock().unwrap_or_else(PoisonError::into_inner);
            self.0.set.send_replace(true);
            std::mem::take(&mut *children)
        };
        children.iter().filter_map(Weak::upgrade).for_each(|child| Self(child).set());
    }

    pub(super) fn is_set(&self) -> bool {
        *self.0.set.borrow()
    }

    /// Resolves once it is set; never otherwise.
    pub(super) async fn wait(&self) {
        // The sender lives as long as `self`, so this ends only by being set.
        let _ = self.0.set.subscribe().wait_for(|set| *set).await;
    }
}

/// Counts who is at work, so that others can wait until nobody is.
#[derive(Debug, Clone)]
pub(super) struct Busy(watch::Sender<usize>);

impl Busy {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// Someone begins; it lasts until the value is dropped.
    pub(super) fn begin(&self) -> Working {
        self.0.send_modify(|count| *count += 1);
        Working(self.0.clone())
    }

    pub(super) fn idle(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut receiver = self.0.subscribe();
        async move {
            // An error means that the engine is gone, and with it all work.
            let _ = receiver.wait_for(|count| *count == 0).await;
        }
    }
}

/// Proof of being at work. Handed on rather than dropped and taken again, so that no gap looks like idleness.
#[derive(Debug)]
pub(super) struct Working(watch::Sender<usize>);

impl Clone for Working {
    fn clone(&self) -> Self {
        self.0.send_modify(|count| *count += 1);
        Self(self.0.clone())
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_child_stops_with_its_parent_and_not_the_other_way() {
        let parent = Stop::new();
        let child = parent.child();
        let grandchild = child.child();
        child.set();
        assert!(!parent.is_set());
        grandchild.wait().await;
        let other = parent.child();
        parent.set();
        other.wait().await;
        assert!(other.is_set() && parent.child().is_set());
    }

    #[tokio::test]
    async fn idle_waits_for_every_clone() {
        let busy = Busy::new();
        busy.idle().await;
        let first = busy.begin();
        let second = first.clone();
        drop(first);
        let idle = tokio::spawn(busy.idle());
        tokio::task::yield_now().await;
        assert!(!idle.is_finished());
        drop(second);
        idle.await.unwrap();
    }
}
