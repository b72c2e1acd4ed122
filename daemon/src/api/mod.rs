//! The services of `verbatim.v1` over the scheduler: requests are checked, answers put into words. Decisions are made
//! elsewhere, in pure functions.

mod artifacts;
mod catalog;
mod errors;
mod filter;
mod names;
mod page;
mod rigs;
mod runs;
mod validate;
mod view;
mod watch;

use tonic::Request;
use tonic::transport::server::UdsConnectInfo;

pub use catalog::Catalog;
pub use rigs::Rigs;
pub use runs::Runs;

/// The user id of who sent a request, as the kernel tells it; that of nobody when it cannot be told.
fn uid<T>(request: &Request<T>) -> u32 {
    const NOBODY: u32 = 65534;
    let info = request.extensions().get::<UdsConnectInfo>();
    info.and_then(|info| info.peer_cred).map_or(NOBODY, |peer| peer.uid())
}

/// Runs what blocks on a disk, away from the threads that serve.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, tonic::Status> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        errors::internal(&format!(
            "the daemon failed within the request: {error}; please report this"
        ))
    })
}
