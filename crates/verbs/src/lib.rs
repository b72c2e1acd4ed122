//! Verbs on demand: sessions on a device of this host, and the link to an agent on another host.
//!
//! | module | what |
//! |---|---|
//! | [`session`] | a session without any network: commands, completions, limits |
//! | [`drive`] | the loop of the thread that owns a session |
//! | [`device`], [`values`] | what a session needs of a device |
//! | [`VerbsDevice`] | that, through libibverbs |
//! | [`AgentClient`], [`LocalVerbs`] | the tester's side: a session at an agent, a session here |
//! | [`conformance`] | whether an agent keeps to the protocol: `verbatim doctor --agent` |
//! | [`tls`] | who may connect to an agent |
//! | [`clock`], [`wake`] | the session's time; waking a thread |

#[cfg(test)]
extern crate self as verbatim_verbs;

pub mod clock;
pub mod conformance;
pub mod device;
pub mod drive;
// A package of its own, which the tests within this one cannot use: it would bring this library a second time.
#[cfg(test)]
#[path = "../fake/src/lib.rs"]
pub mod fake;
mod link;
pub mod session;
pub mod values;
mod verbs;
pub mod wake;

use std::ffi::OsStr;
use std::path::Path;

pub use drive::Said;
pub use link::{AgentAddress, AgentClient, AgentTls, Gone, LocalVerbs, NotConnected, Place, Reached, VerbsLink};
pub use session::{Limits, Session};
pub use verbatim_tls as tls;
pub use verbs::{VerbsDevice, VerbsPair};

/// The largest message that an agent takes in, in bytes. Larger than what a command may write, so that one which asks
/// for too much is answered and does not break the stream.
pub const LARGEST_MESSAGE: usize = 32 << 20;

/// The kernel's module behind a device, and its version where it tells one: of the device that this directory below
/// `/sys/class` is of. Nothing where there is none, as for a device in software.
#[must_use]
pub fn driver(device: &Path) -> (Option<String>, Option<String>) {
    let module = std::fs::canonicalize(device.join("device/driver/module")).ok();
    let name = module.as_deref().and_then(Path::file_name);
    let name = name.map(|name| name.to_string_lossy().into_owned());
    let version = module.and_then(|module| std::fs::read_to_string(module.join("version")).ok());
    (name, version.map(|text| text.trim().to_owned()))
}

/// This host: name, kernel, and the agent's version. A distribution may keep the kernel's release for years; what was built stands
/// in its version, in parentheses.
#[must_use]
pub fn host() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match nix::sys::utsname::uname() {
        Ok(host) => {
            let words = [host.nodename(), host.sysname(), host.release(), host.machine()].map(OsStr::to_string_lossy);
            let built = host.version().to_string_lossy();
            format!("{} ({built}), verbatim-agent {version}", words.join(" "))
        }
        Err(_) => format!("verbatim-agent {version}"),
    }
}
