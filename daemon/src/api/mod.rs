//! The services of `verbatim.v1`: they check requests, call the scheduler and convert its results.

mod artifacts;
mod captures;
mod catalog;
mod errors;
mod filter;
mod hidden;
mod lab;
mod leases;
mod names;
mod page;
mod rigs;
mod runs;
mod shared;
mod snapshot;
mod streams;
mod validate;
mod view;
mod watch;
mod web;

use std::num::NonZero;
use std::sync::LazyLock;

use tonic::Status;

use crate::access::Identity;
use crate::turns::Turns;

pub use catalog::Catalog;
pub(crate) use errors::store as store_failed;
pub use lab::meet;
pub use leases::Leases;
pub use rigs::Rigs;
pub use runs::Runs;
pub use shared::Shared;
pub use streams::Answer;
pub use web::{Found, Web, report};

/// How often the daemon reads changes of other hosts from the shared database.
const ELSEWHERE: std::time::Duration = std::time::Duration::from_millis(250);

/// The maximum number of calls that block on a disk at the same time: of all identities, and of one identity. Calls of
/// admins do not count.
pub(crate) const IN_WORK: usize = 96;
const IN_WORK_EACH: usize = 8;

/// The turns of calls that block on a disk.
static BLOCKING: LazyLock<Turns> = LazyLock::new(|| Turns::new(IN_WORK_EACH, IN_WORK));

/// The turns of calls that compute. Half of the processors stay free for other calls.
static COMPUTING: LazyLock<Turns> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    Turns::new(1, (processors / 2).max(1))
});

tokio::task_local! {
    /// The identity of the caller, and whether it is an admin.
    static CALLER: (Option<Identity>, bool);
}

/// Runs a call. If `is_admin` is true, the call does not wait for the calls of others.
pub(crate) async fn as_caller<T>(who: Option<Identity>, is_admin: bool, call: impl Future<Output = T>) -> T {
    CALLER.scope((who, is_admin), call).await
}

/// Returns the identity of the caller.
fn caller() -> Option<Identity> {
    CALLER.try_with(|(who, _)| who.clone()).ok().flatten()
}

/// Runs work on a thread for blocking work, because it may block on a disk. Calls of admins start at once; other calls
/// wait while too many of them are running, of their identity or in total.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Status> {
    let _turn = match CALLER.try_with(Clone::clone) {
        Ok((_, true)) => None,
        Ok((who, false)) => Some(BLOCKING.take(who.as_ref()).await),
        Err(_) => Some(BLOCKING.take(None).await),
    };
    on_a_thread(work).await
}

/// Runs work that takes much processor time. Each identity has at most one such work at a time.
async fn computing<T: Send + 'static>(who: &Identity, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Status> {
    let turn = COMPUTING.take(Some(who)).await;
    // The work owns the turn, because the work continues even if the client leaves.
    on_a_thread(move || (work(), turn).0).await
}

async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Status> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        errors::internal(&format!(
            "the daemon failed within the request: {error}; please report this"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn admin_call_bypasses_the_limit() {
        let mut all = Vec::new();
        for _ in 0..IN_WORK {
            all.push(BLOCKING.take(None).await);
        }
        let admins = as_caller(None, true, blocking(|| 7));
        let admins = tokio::time::timeout(std::time::Duration::from_secs(60), admins).await;
        assert_eq!(admins.expect("it waits").unwrap(), 7);
        let mut waits = Box::pin(as_caller(None, false, blocking(|| 8)));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        drop(all);
        assert_eq!(waits.await.unwrap(), 8);
    }
}
