//! Measures the delay between an event and its receipt by 200 watchers of one run on the model process.
//!
//! `cargo bench -p verbatim-daemon --bench watchers`
#![allow(clippy::disallowed_macros, reason = "tests print for their developers")]
#![allow(clippy::unwrap_used, missing_docs)]

#[allow(dead_code, unreachable_pub)]
#[path = "../tests/daemon/serve/harness.rs"]
mod harness;

use std::time::{Duration, SystemTime};

use harness::{Bench, Clients, request};
use tokio::task::JoinSet;

const WATCHERS: usize = 200;
/// The number of watchers on one connection.
const EACH: usize = 10;
/// Tests that wait for the device in real time. Their events are small, so the benchmark measures delays and not the
/// transfer of large results.
const TESTS: [&str; 2] = ["C14-15", "C14-16"];

#[tokio::main]
async fn main() {
    let mut bench = Bench::new();
    bench.start_model();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let run = clients.create(request("model", &TESTS)).await;
    let mut watchers = JoinSet::new();
    for _ in 0..WATCHERS / EACH {
        let clients = bench.clients().await;
        for _ in 0..EACH {
            watchers.spawn(watch(clients.clone(), run.name.clone()));
        }
    }
    let mut late: Vec<Duration> = watchers.join_all().await.into_iter().flatten().collect();
    late.sort();
    let at = |per_mille: usize| late[(late.len() - 1) * per_mille / 1000].as_secs_f64() * 1e3;
    let run = clients.get(&run.name).await;
    println!(
        "{WATCHERS} watchers, {} events each, run {:?}: median {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, most {:.2} ms",
        late.len() / WATCHERS,
        run.outcome(),
        at(500),
        at(990),
        at(999),
        at(1000)
    );
}

/// Returns the delay of each event that happened after the watcher connected.
async fn watch(mut clients: Clients, run: String) -> Vec<Duration> {
    let began = SystemTime::now();
    let mut watch = clients.watch(&run, 0).await;
    let mut late = Vec::new();
    while let Some(event) = watch.next().await {
        let time = event.time.unwrap();
        let nanos = u32::try_from(time.nanos).unwrap();
        let known = SystemTime::UNIX_EPOCH + Duration::new(u64::try_from(time.seconds).unwrap(), nanos);
        if known > began {
            late.push(SystemTime::now().duration_since(known).unwrap_or_default());
        }
    }
    late
}
