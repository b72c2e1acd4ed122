//! Tests of `verbatim` with a running daemon, without one, and with a dead one, as real processes with a real socket.

mod following;
mod leases;
mod places;
mod remote;
mod runs;
mod support;
