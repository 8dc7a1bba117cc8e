//! Deliveries that come in at once are stored together: whoever comes first writes, and those who come while it writes are in
//! one of the next statements.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::{ColumnIndex, Decode, Encode, Executor, IntoArguments, QueryBuilder, Type};
use tokio::sync::{Semaphore, oneshot};

use super::SqlStore;
use super::value::{column, text};
use crate::clock::Millis;
use crate::store::dialect::Dialect;
use crate::store::{Result, Stored};

/// A statement that takes longer holds nobody else up: each of its deliveries is stored by itself then.
const TOGETHER_FOR: Duration = Duration::from_secs(3);

/// Most deliveries in one statement. Each number of them is a statement of its own, which every connection keeps prepared.
const TOGETHER_MAX: usize = 8;

/// Statements at one time: the next one is made while the database works on the last.
const STATEMENTS_MAX: usize = 2;

pub(super) struct Arrivals {
    waiting: Mutex<VecDeque<Waiting>>,
    /// Taken by whoever writes.
    turns: Semaphore,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self { waiting: Mutex::default(), turns: Semaphore::new(STATEMENTS_MAX) }
    }
}

struct Waiting {
    delivery: Arc<Arrival>,
    told: oneshot::Sender<Stored>,
}

struct Arrival {
    id: String,
    event: String,
    payload: String,
    at: Millis,
}

impl Arrivals {
    fn add(&self, delivery: Arc<Arrival>) -> oneshot::Receiver<Stored> {
        let (told, stored) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(Waiting { delivery, told });
        stored
    }

    /// Those who came first, in the order of their ids: of two statements that share some, one waits for the other. The same
    /// one comes once; the second time it is known.
    fn take(&self) -> Vec<Waiting> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut taken, mut left, mut ids) = (Vec::new(), VecDeque::new(), BTreeSet::new());
        for one in waiting.drain(..) {
            if taken.len() < TOGETHER_MAX && ids.insert(one.delivery.id.clone()) {
                taken.push(one);
            } else {
                left.push_back(one);
            }
        }
        *waiting = left;
        taken.sort_by(|a, b| a.delivery.id.cmp(&b.delivery.id));
        taken
    }
}

impl<DB: Dialect> SqlStore<DB>
where
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'q> i64: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> String: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    pub(super) async fn queue_delivery(&self, id: &str, event: &str, payload: &str, at: Millis) -> Result<Stored> {
        let own = Arc::new(Arrival { id: text(id), event: text(event), payload: text(payload), at });
        let stored = self.arrivals.add(own.clone());
        let turn = self.arrivals.turns.acquire().await.expect("it is never closed");
        loop {
            let together = self.arrivals.take();
            // When nobody waits, somebody else has it in hand.
            let is_last = together.is_empty() || together.iter().any(|one| Arc::ptr_eq(&one.delivery, &own));
            self.store_together(together).await;
            if is_last {
                break;
            }
        }
        drop(turn);
        // Untold, whoever wrote it failed, maybe over another one, or took too long.
        if let Ok(stored) = stored.await {
            return Ok(stored);
        }
        let queued = self.insert_deliveries(&[&own]).await?;
        Ok(if queued.is_empty() { Stored::Known } else { Stored::Queued })
    }

    /// Tells each what became of it, or nobody anything.
    async fn store_together(&self, together: Vec<Waiting>) {
        if together.is_empty() {
            return;
        }
        let deliveries: Vec<&Arrival> = together.iter().map(|one| &*one.delivery).collect();
        let written = tokio::time::timeout(TOGETHER_FOR, self.insert_deliveries(&deliveries)).await;
        let Ok(Ok(queued)) = written else { return };
        for one in together {
            let stored = if queued.contains(&one.delivery.id) { Stored::Queued } else { Stored::Known };
            // Nobody may wait for it any more.
            let _ = one.told.send(stored);
        }
    }

    /// The ids of those that were not known, or were given up before.
    async fn insert_deliveries(&self, deliveries: &[&Arrival]) -> Result<BTreeSet<String>> {
        let mut insert = QueryBuilder::<DB>::new(
            "insert into deliveries (id, event, payload, received_at, due_at, attempts, dead, last_error) ",
        );
        insert.push_values(deliveries, |mut row, one| {
            row.push_bind(one.id.clone()).push_bind(one.event.clone()).push_bind(one.payload.clone());
            row.push_bind(one.at).push_bind(one.at).push("0").push("false").push("''");
        });
        insert.push(
            " on conflict (id) do update set due_at = excluded.due_at, attempts = 0, dead = false, last_error = ''
             where deliveries.dead returning id",
        );
        let queued = insert.build().fetch_all(&self.writer).await?;
        queued.iter().map(|row| column::<DB, String>(row, 0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(id: &str) -> Arc<Arrival> {
        Arc::new(Arrival { id: id.to_owned(), event: String::new(), payload: String::new(), at: 0 })
    }

    fn ids(taken: &[Waiting]) -> Vec<&str> {
        taken.iter().map(|one| one.delivery.id.as_str()).collect()
    }

    #[test]
    fn who_comes_first_is_stored_first_and_nothing_twice_at_once() {
        let arrivals = Arrivals::default();
        let told: Vec<_> = ["a", "b", "a", "c"].into_iter().map(|id| arrivals.add(arrival(id))).collect();
        assert_eq!(ids(&arrivals.take()), ["a", "b", "c"]);
        assert_eq!(ids(&arrivals.take()), ["a"]);
        assert!(arrivals.take().is_empty());
        drop(told);
    }

    #[tokio::test]
    async fn what_cannot_be_stored_fails_alone() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", dir.path().join("test.db").display());
        let store = crate::store::sqlite::open(&url, 2).await.unwrap();
        let refuse = "create trigger refuse before insert on deliveries when new.id = 'bad'
                      begin select raise(abort, 'this one is refused'); end";
        sqlx::query(refuse).execute(&store.writer).await.unwrap();
        let turns = store.arrivals.turns.acquire_many(u32::try_from(STATEMENTS_MAX).unwrap()).await.unwrap();
        let store_one = async |id| store.queue_delivery(id, "push", "{}", 1).await;

        let (a, bad, b, ()) = tokio::join!(store_one("a"), store_one("bad"), store_one("b"), async {
            assert_eq!(store.arrivals.waiting.lock().unwrap().len(), 3, "one statement for all of them");
            drop(turns);
        });

        assert!(matches!((&a, &b), (Ok(Stored::Queued), Ok(Stored::Queued))), "{a:?} {b:?}");
        assert!(crate::causes::chain(&bad.unwrap_err()).contains("this one is refused"));
        assert!(matches!(store_one("a").await, Ok(Stored::Known)));
    }

    #[test]
    fn many_are_stored_by_several_statements() {
        let arrivals = Arrivals::default();
        let names: Vec<String> = (0..TOGETHER_MAX + 3).map(|number| format!("{number:02}")).collect();
        let told: Vec<_> = names.iter().map(|id| arrivals.add(arrival(id))).collect();
        assert_eq!(ids(&arrivals.take()), names[..TOGETHER_MAX]);
        assert_eq!(ids(&arrivals.take()), names[TOGETHER_MAX..]);
        drop(told);
    }
}
