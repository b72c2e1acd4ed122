//! The services of `verbatim.v1`: they check requests, call the scheduler and convert its results.

mod artifacts;
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

use tokio::sync::Semaphore;

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

/// The maximum number of calls that block on a disk at the same time, not counting calls of admins.
pub(crate) const IN_WORK: usize = 96;

static OTHERS: Semaphore = Semaphore::const_new(IN_WORK);

tokio::task_local! {
    static IS_ADMIN: bool;
}

/// Runs a call. If `is_admin` is true, the call does not wait for the calls of others.
pub(crate) async fn as_admin<T>(is_admin: bool, call: impl Future<Output = T>) -> T {
    IS_ADMIN.scope(is_admin, call).await
}

/// Runs work on a thread for blocking work, because it may block on a disk. Calls of admins start at once; other calls
/// wait while [`IN_WORK`] of them are running.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, tonic::Status> {
    let _turn = match IS_ADMIN.try_with(|is| *is) {
        Ok(true) => None,
        // Never `None`: the semaphore is never closed.
        _ => OTHERS.acquire().await.ok(),
    };
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
        let all = OTHERS.acquire_many(IN_WORK as u32).await.unwrap();
        let admins = as_admin(true, blocking(|| 7));
        let admins = tokio::time::timeout(std::time::Duration::from_secs(60), admins).await;
        assert_eq!(admins.expect("it waits").unwrap(), 7);
        let mut waits = Box::pin(as_admin(false, blocking(|| 8)));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        drop(all);
        assert_eq!(waits.await.unwrap(), 8);
    }
}
