//! Signals that ask this process to end, counted (spec 12 §9, "Cancellation").

use tokio::sync::watch;

/// How often somebody has asked, and whether the processes we started have heard it too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Raised {
    pub count: u32,
    /// A terminal sends its interrupt to every process in the foreground; GitHub sends it to us alone.
    pub reached_children: bool,
}

/// A listener. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Interrupts(watch::Receiver<Raised>);

impl Interrupts {
    /// Listens to the signals of this process from now on; they no longer end it.
    pub fn of_process() -> Self {
        let (raise, heard) = watch::channel(Raised::default());
        #[cfg(unix)]
        tokio::spawn(listen(raise));
        #[cfg(not(unix))]
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                raise.send_modify(|raised| *raised = Raised { count: raised.count + 1, reached_children: true });
            }
        });
        Self(heard)
    }

    /// Hears what somebody else counts.
    pub fn by_hand() -> (watch::Sender<Raised>, Self) {
        let (raise, heard) = watch::channel(Raised::default());
        (raise, Self(heard))
    }

    pub fn raised(&self) -> Raised {
        *self.0.borrow()
    }

    /// Waits until more than `count` have been raised; for ever when nobody can raise any.
    pub async fn beyond(&self, count: u32) -> Raised {
        let mut heard = self.0.clone();
        match heard.wait_for(|raised| raised.count > count).await {
            Ok(raised) => *raised,
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(unix)]
async fn listen(raise: watch::Sender<Raised>) {
    use std::io::IsTerminal;
    use tokio::signal::unix::{SignalKind, signal};

    let (Ok(mut interrupts), Ok(mut terminations)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        tracing::warn!("signals cannot be listened to: an interrupt ends the command at once");
        return;
    };
    let at_terminal = std::io::stdin().is_terminal();
    loop {
        let reached_children = tokio::select! {
            _ = interrupts.recv() => at_terminal,
            // GitHub escalates a cancel after 7.5 s. That is no second request of a person, and killing the tool
            // now would take from it the last seconds to drop its state lock.
            _ = terminations.recv() => if raise.borrow().count == 0 { false } else { continue },
        };
        raise.send_modify(|raised| *raised = Raised { count: raised.count + 1, reached_children });
    }
}
