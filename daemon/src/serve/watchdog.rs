//! The service manager's watchdog: fed as long as the daemon serves, and no longer.
//!
//! It is fed by a task of the runtime that serves. A task runs while one thread is left that takes tasks, so two things are
//! looked at beside: that none of the runtime's threads is still in what it was in last time, and that the scheduler, which all
//! calls ask, answers.

use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::runtime::{Handle, RuntimeMetrics};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::notify;
use crate::sched::Scheduler;

/// Feeds it, if there is one; for ever.
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

/// Looks every so often whether the runtime that this is in serves and `asked` returns, and says so each time.
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

/// What each thread of the runtime was at when they were looked at last.
#[derive(Debug, Default)]
struct Threads(Vec<(u64, Duration)>);

impl Threads {
    /// A thread that has been in one and the same call since it was looked at last. One that waits for work is not, nor one
    /// that has much: its time is added up every few dozen tasks.
    fn stuck(&mut self, metrics: &RuntimeMetrics) -> Option<usize> {
        let seen = |thread| {
            (
                metrics.worker_park_unpark_count(thread),
                metrics.worker_total_busy_duration(thread),
            )
        };
        let now: Vec<_> = (0..metrics.num_workers()).map(seen).collect();
        let before = std::mem::replace(&mut self.0, now);
        // An odd count says that it waits.
        let is_stuck = |(before, now): (&(u64, Duration), &(u64, Duration))| before == now && now.0 % 2 == 0;
        before.iter().zip(&self.0).position(is_stuck)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_runtime_that_serves_feeds_it_until_a_thread_or_the_scheduler_is_frozen_and_again_afterwards() {
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
        // Thrice in a row: what was looked at before counts for nothing, and on a busy host a look may find either.
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
        // What no task may do.
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
    fn a_frozen_thread_is_seen_though_another_still_takes_tasks() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .build()
            .unwrap();
        let metrics = runtime.metrics();
        let (begins, begun) = mpsc::channel();
        let (thaw, frozen) = mpsc::channel::<()>();
        let task = runtime.spawn(async move {
            begins.send(()).unwrap();
            // What no task may do.
            let _ = frozen.recv();
        });
        begun.recv().unwrap();
        let mut threads = Threads::default();
        assert_eq!(threads.stuck(&metrics), None, "nothing is known the first time");
        runtime.block_on(async { tokio::spawn(async {}).await.unwrap() });
        // The other one may have been seen while it was about to wait.
        let stuck = (0..1000).find_map(|_| threads.stuck(&metrics));
        assert!(stuck.is_some());
        thaw.send(()).unwrap();
        runtime.block_on(task).unwrap();
    }
}
