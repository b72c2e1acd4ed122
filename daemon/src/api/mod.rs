//! The services of `verbatim.v1` over the scheduler: requests are checked, answers put into words. Decisions are made
//! elsewhere, in pure functions.

mod artifacts;
mod catalog;
mod errors;
mod filter;
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

pub use catalog::Catalog;
pub(crate) use errors::store as store_failed;
pub use lab::meet;
pub use leases::Leases;
pub use rigs::Rigs;
pub use runs::Runs;
pub use shared::Shared;
pub use streams::Answer;
pub use web::{Found, Web, report};

/// How often what other hosts do is looked at.
const ELSEWHERE: std::time::Duration = std::time::Duration::from_millis(250);

/// Runs what blocks on a disk, away from the threads that serve.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, tonic::Status> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        errors::internal(&format!(
            "the daemon failed within the request: {error}; please report this"
        ))
    })
}
