//! Feeds the service manager's watchdog, but only while the daemon serves.
//!
//! A task of the serving runtime feeds the watchdog. The task would run even if only one thread of the runtime
//! still worked, so it makes two checks first. No thread of the runtime may be in the same call as at the last
//! check, and the scheduler must respond.

use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::runtime::{Handle, RuntimeMetrics};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::notify;
use crate::sched::Scheduler;

/// Feeds the watchdog and never returns. Without a watchdog, returns at once.
pub(super) async fn feed(scheduler: Arc<Scheduler>) {
    let Some(allowed) = sd_notify::watchdog_enabled().filter(|allowed| !allowed.is_zero()) else {
        return;
    };
    let every = allowed / 3;
    let fed = |serves| {
        if serves {
            notify::tell(&[NotifyState::Watchdog]);
        }
    };
    watch(
        every,
        move || {
            let _ = scheduler.answers();
        },
        fed,
    )
    .await;
}

/// Checks at the interval `every` whether the threads of the current runtime work, and whether `asked` returns in time.
/// Passes each result to `serves`.
async fn watch(every: Duration, asked: impl Fn() + Clone + Send + 'static, mut serves: impl FnMut(bool)) {
    let metrics = Handle::current().metrics();
    let mut threads = Threads::default();
    let mut look = interval(every);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        if let Some(thread) = threads.stuck(&metrics) {
            tracing::error!(
                thread,
                "a thread has been in one call for {every:?}: the watchdog is not fed"
            );
            serves(false);
            continue;
        }
        let answered = timeout(every, tokio::task::spawn_blocking(asked.clone())).await;
        let answered = matches!(answered, Ok(Ok(())));
        if !answered {
            tracing::error!("the scheduler does not answer within {every:?}: the watchdog is not fed");
        }
        serves(answered);
    }
}

/// The park counts and busy times of the runtime's threads at the last check.
#[derive(Debug, Default)]
struct Threads(Vec<(u64, Duration)>);

impl Threads {
    /// Returns a thread that has been in the same call since the last check. A thread that waits for work is not
    /// returned. A thread with much work is not returned either: the runtime updates its busy time every few dozen
    /// tasks, so the time differs from the last check.
    fn stuck(&mut self, metrics: &RuntimeMetrics) -> Option<usize> {
        let seen = |thread| {
            (
                metrics.worker_park_unpark_count(thread),
                metrics.worker_total_busy_duration(thread),
            )
        };
        let now: Vec<_> = (0..metrics.num_workers()).map(seen).collect();
        let before = std::mem::replace(&mut self.0, now);
        // An odd count means that the thread waits.
        let is_stuck = |(before, now): (&(u64, Duration), &(u64, Duration))| before == now && now.0 % 2 == 0;
        before.iter().zip(&self.0).position(is_stuck)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn feeds_only_while_runtime_serves() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let scheduler = Arc::new(std::sync::Mutex::new(()));
        let (says, said) = mpsc::channel();
        let asked = {
            let scheduler = Arc::clone(&scheduler);
            move || drop(scheduler.lock())
        };
        runtime.spawn(watch(Duration::from_millis(50), asked, move |serves| {
            let _ = says.send(serves);
        }));
        // Wait for three equal results in a row. Earlier results may still be queued, and a busy host may cause a
        // wrong result.
        let becomes = |serves| {
            let mut in_a_row = 0;
            for _ in 0..300 {
                let now = said.recv_timeout(Duration::from_secs(60)).unwrap();
                in_a_row = if now == serves { in_a_row + 1 } else { 0 };
                if in_a_row == 3 {
                    return;
                }
            }
            panic!("fed: {serves} was expected, and is not what it finds");
        };
        becomes(true);
        let (thaw, frozen) = mpsc::channel::<()>();
        // Block a thread of the runtime. A task of the daemon must never do this.
        let task = runtime.spawn(async move { frozen.recv().is_ok() });
        becomes(false);
        thaw.send(()).unwrap();
        assert!(runtime.block_on(task).unwrap());
        becomes(true);
        let held = scheduler.lock().unwrap();
        becomes(false);
        drop(held);
        becomes(true);
    }

    #[test]
    fn detects_frozen_thread() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .build()
            .unwrap();
        let metrics = runtime.metrics();
        let (begins, begun) = mpsc::channel();
        let (thaw, frozen) = mpsc::channel::<()>();
        let task = runtime.spawn(async move {
            begins.send(()).unwrap();
            // Block a thread of the runtime. A task of the daemon must never do this.
            let _ = frozen.recv();
        });
        begun.recv().unwrap();
        let mut threads = Threads::default();
        assert_eq!(threads.stuck(&metrics), None, "nothing is known the first time");
        runtime.block_on(async { tokio::spawn(async {}).await.unwrap() });
        // A check may see the other thread just before it parks, so repeat the check.
        let stuck = (0..1000).find_map(|_| threads.stuck(&metrics));
        assert!(stuck.is_some());
        thaw.send(()).unwrap();
        runtime.block_on(task).unwrap();
    }
}
