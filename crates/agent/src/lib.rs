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

pub mod clock;
mod connection;
pub mod device;
pub mod drive;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod listen;
pub mod server;
mod service;
pub mod session;
pub mod tls;
pub mod values;
mod verbs;
pub mod wake;

use std::io::Write;

pub use session::{Limits, Session};
pub use verbs::{VerbsDevice, VerbsPair};

/// This host: name, kernel, and the agent's version.
#[must_use]
pub fn host() -> String {
    let system = nix::sys::utsname::uname();
    let of = |word: fn(&nix::sys::utsname::UtsName) -> &std::ffi::OsStr| match &system {
        Ok(system) => word(system).to_string_lossy(),
        Err(_) => "?".into(),
    };
    format!(
        "{} {} {} {}, verbatim-agent {}",
        of(|system| system.nodename()),
        of(|system| system.sysname()),
        of(|system| system.release()),
        of(|system| system.machine()),
        env!("CARGO_PKG_VERSION")
    )
}

/// A line on stderr. Who reads it may be gone.
fn log(line: &str) {
    let _ = writeln!(std::io::stderr(), "verbatim-agent: {line}");
}
