//! Messages to a service manager about the state of the daemon, for `Type=notify-reload`.

use sd_notify::NotifyState;

/// Sends states to the service manager, if there is one.
pub(super) fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, ?states, "the service manager could not be notified");
    }
}

/// Reports that a reload begins. [`NotifyState::Ready`] follows at its end.
pub(super) fn reloading() {
    // The service manager compares this time with the time of its own signal.
    let now = NotifyState::monotonic_usec_now();
    tell(&[NotifyState::Reloading, now.unwrap_or(NotifyState::MonotonicUsec(0))]);
}
