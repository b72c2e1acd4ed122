//! The daemon as a process: its start and end, and its services over a real socket.

mod begin;
mod clock;
mod damage;
mod disk;
mod hardware;
mod harness;
mod identity;
mod journals;
mod leases;
mod metrics;
#[cfg(feature = "otlp")]
mod otlp;
mod patience;
mod refusals;
mod reload;
mod runs;
mod scripted;
mod watchdog;
mod watchers;
mod web;
