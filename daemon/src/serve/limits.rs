//! Limits of the use of the daemon by clients: `[limits]` of the configuration.

use std::time::Duration;

use crate::sched::{CLIENT_GONE, LONGEST_QUEUE};

/// The limits of connections and calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The maximum number of connections of all identities together.
    pub connections: usize,
    /// The maximum number of connections of one identity. A client needs one connection; a benchmark of watchers
    /// needs some dozens.
    pub connections_each: usize,
    /// The age at which a connection takes no more calls and ends with its last call; the client then opens
    /// another. This limit ends forgotten connections that still respond to pings.
    pub oldest_connection: Duration,
    /// The maximum number of concurrent calls of one identity, on all its connections.
    pub calls_each: usize,
    /// How long the client of a waiting run or lease may be disconnected before the run or lease leaves the queue.
    pub client_gone: Duration,
    /// How long the waiting reserved leases of one identity for one rig may last in total.
    pub reserved_each: Duration,
}

impl Default for Limits {
    /// Returns 1024 connections, 128 per identity, an age of one hour, 32 calls per identity, one minute for a
    /// disconnected client, and 72 hours of waiting leases.
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_each: 128,
            oldest_connection: Duration::from_secs(3600),
            calls_each: 32,
            client_gone: CLIENT_GONE,
            reserved_each: LONGEST_QUEUE,
        }
    }
}
