//! Two small signals between tasks: stop this, and who is busy.

use tokio::sync::watch;

/// A request to stop that stays: whoever asks later still sees it. Clones are the same request.
#[derive(Debug, Clone)]
pub(super) struct Stop {
    own: watch::Sender<bool>,
    /// Also stopped when one of these is.
    above: Vec<watch::Receiver<bool>>,
}

impl Stop {
    pub(super) fn new() -> Self {
        Self { own: watch::Sender::new(false), above: Vec::new() }
    }

    /// A request of its own that also follows this one.
    pub(super) fn child(&self) -> Self {
        let mut above = self.above.clone();
        above.push(self.own.subscribe());
        Self { own: watch::Sender::new(false), above }
    }

    pub(super) fn set(&self) {
        self.own.send_replace(true);
    }

    pub(super) fn is_set(&self) -> bool {
        *self.own.borrow() || self.above.iter().any(|above| *above.borrow())
    }

    /// Resolves once it is set; never otherwise.
    pub(super) async fn wait(&self) {
        let mut receivers = self.above.clone();
        receivers.push(self.own.subscribe());
        let mut waiting = tokio::task::JoinSet::new();
        if receivers.iter().any(|r| *r.borrow()) {
            return;
        }
        for mut receiver in receivers {
            waiting.spawn(async move {
                if receiver.wait_for(|set| *set).await.is_err() {
                    std::future::pending::<()>().await;
                }
            });
        }
        waiting.join_next().await;
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
        assert!(other.is_set());
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
