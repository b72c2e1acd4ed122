//! Verbs on demand, on the host of a device under test.
//!
//! The program `verbatim-agent` opens one device and does what clients ask over `verbatim.agent.v1`. A stream is a
//! session; when it ends, for whatever reason, all that it made is destroyed.
//!
//! | module | what |
//! |---|---|
//! | [`session`] | a session without any network: commands, completions, limits |
//! | [`drive`] | the loop of the thread that owns a session |
//! | [`device`], [`values`] | what a session needs of a device |
//! | [`VerbsDevice`] | that, through libibverbs |
//! | [`server`], [`listen`], [`tls`] | the service, where it listens, and who may connect |
//! | [`clock`], [`wake`] | the agent's time; waking a thread |
//!
//! The tester uses [`session`] too, for the device of its own.

#[cfg(test)]
extern crate self as verbatim_agent;

pub mod clock;
pub mod device;
pub mod drive;
// A package of its own, which the tests within this one cannot use: it would bring this library a second time.
#[cfg(test)]
#[path = "../fake/src/lib.rs"]
pub mod fake;
pub mod listen;
pub mod server;
mod service;
pub mod session;
pub mod tls;
pub mod values;
mod verbs;
pub mod wake;

use std::ffi::OsStr;
use std::io::Write;

pub use session::{Limits, Session};
pub use verbs::{VerbsDevice, VerbsPair};

/// This host: name, kernel, and the agent's version.
#[must_use]
pub fn host() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match nix::sys::utsname::uname() {
        Ok(host) => {
            let words = [host.nodename(), host.sysname(), host.release(), host.machine()].map(OsStr::to_string_lossy);
            format!("{}, verbatim-agent {version}", words.join(" "))
        }
        Err(_) => format!("verbatim-agent {version}"),
    }
}

/// A line on stderr. Who reads it may be gone.
fn log(line: &str) {
    let _ = writeln!(std::io::stderr(), "verbatim-agent: {line}");
}
