//! `verbatim` with a daemon, without one, and with one that is dead: real processes, a real socket.

mod following;
mod leases;
mod places;
mod remote;
mod runs;
mod support;
