//! The friend: a well-behaved client that sends requests throughout an attack. Most requests use one lasting
//! connection, some a new connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::house::{House, Takes, takes};

/// Longest time of a response. A later response counts as missing.
const WITHIN: Duration = Duration::from_secs(10);
const EVERY: Duration = Duration::from_millis(20);
/// One of this many requests uses a new connection.
const ANEW: usize = 50;

/// The results of the friend's requests.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    latencies: Vec<Duration>,
    /// Number of requests without a good response. `why` is the first reason.
    pub(crate) unanswered: usize,
    pub(crate) why: Option<String>,
    pub(crate) most: Takes,
}

impl Heard {
    /// Returns the latency that `of_100` percent of the requests stay below.
    pub(crate) fn percentile(&mut self, of_100: usize) -> Duration {
        self.latencies.sort_unstable();
        let place = (self.latencies.len() * of_100 / 100).min(self.latencies.len().saturating_sub(1));
        self.latencies.get(place).copied().unwrap_or_default()
    }
}

/// A client that sends requests until it is stopped.
pub(crate) struct Friend {
    stop: Arc<AtomicBool>,
    task: JoinHandle<anyhow::Result<Heard>>,
}

impl Friend {
    /// Starts the friend, and returns when it is connected.
    pub(crate) async fn begin(house: Arc<House>) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let (tell, connected) = oneshot::channel();
        let asks = async move {
            let stays = house.client("friend").await?;
            let _ = tell.send(());
            let mut heard = Heard::default();
            let mut asked = 0;
            while !until.load(Ordering::Relaxed) {
                let begun = Instant::now();
                asked += 1;
                let answer = timeout(WITHIN, async {
                    match asked % ANEW {
                        0 => house
                            .client("friend")
                            .await?
                            .list_rigs()
                            .await
                            .map_err(anyhow::Error::from),
                        _ => stays.list_rigs().await.map_err(anyhow::Error::from),
                    }
                });
                match answer.await {
                    Ok(Ok(rigs)) if rigs.len() >= 2 => heard.latencies.push(begun.elapsed()),
                    Ok(Ok(rigs)) => heard.missed(format!("{} rigs", rigs.len())),
                    Ok(Err(error)) => heard.missed(format!("{error:#}")),
                    Err(_) => heard.missed(format!("no answer within {WITHIN:?}")),
                }
                let now = takes(house.pid())?;
                heard.most.mib = heard.most.mib.max(now.mib);
                heard.most.descriptors = heard.most.descriptors.max(now.descriptors);
                heard.most.threads = heard.most.threads.max(now.threads);
                sleep(EVERY).await;
            }
            Ok(heard)
        };
        // The friend has its own thread and runtime, so that an attacker's tasks cannot delay it.
        let task = thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(asks)
        });
        // An error means that the friend could not connect; `end` returns the reason.
        let _ = connected.await;
        Ok(Self { stop, task })
    }

    pub(crate) async fn end(self) -> anyhow::Result<Heard> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = tokio::task::spawn_blocking(|| self.task.join()).await?;
        ended.map_err(|_| anyhow::anyhow!("the friend panicked"))?
    }
}

impl Heard {
    fn missed(&mut self, why: String) {
        self.unanswered += 1;
        self.why.get_or_insert(why);
    }
}
