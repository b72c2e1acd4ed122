//! Telling a service manager how far the daemon is: `Type=notify-reload`.

use sd_notify::NotifyState;

/// Sends states to the service manager, if there is one.
pub(super) fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, ?states, "the service manager could not be told");
    }
}

/// Says that files are read again. [`NotifyState::Ready`] follows when they are.
pub(super) fn reloading() {
    // By the time the service manager knows that this is the answer to its signal.
    let now = NotifyState::monotonic_usec_now();
    tell(&[NotifyState::Reloading, now.unwrap_or(NotifyState::MonotonicUsec(0))]);
}
