//! How much of the daemon clients may take: `[limits]` of the configuration.

use std::time::Duration;

use crate::sched::CLIENT_GONE;

/// Limits of connections and calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections of all.
    pub connections: usize,
    /// Connections of one identity. A client holds one; a bench of watchers some dozens.
    pub connections_each: usize,
    /// A connection as old as that takes no more calls, and ends with those that it has; a client opens another by itself. So
    /// what is left lying about goes, although it answers when asked for a sign of life.
    pub oldest_connection: Duration,
    /// Calls of one identity in work at a time, whatever number of connections it has.
    pub calls_each: usize,
    /// A run that waits for its rig leaves the queue when its client has been gone that long.
    pub client_gone: Duration,
}

impl Default for Limits {
    /// 1024, 128, an hour, 32 and a minute.
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_each: 128,
            oldest_connection: Duration::from_secs(3600),
            calls_each: 32,
            client_gone: CLIENT_GONE,
        }
    }
}
