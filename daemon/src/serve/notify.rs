//! Telling a service manager how far the daemon is: `Type=notify-reload`.

use sd_notify::NotifyState;

/// Tells it, if there is one that wants to know.
pub(super) fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, ?states, "the service manager could not be told");
    }
}

/// That files are read again. [`tell`] [`NotifyState::Ready`] when it is done.
pub(super) fn reloading() {
    // Type=notify-reload has to know by the time that this is what came of its signal.
    let now = NotifyState::monotonic_usec_now();
    tell(&[NotifyState::Reloading, now.unwrap_or(NotifyState::MonotonicUsec(0))]);
}
