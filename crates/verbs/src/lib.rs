//! Verbs on demand: sessions on a device of this host, and the link to an agent on another host.
//!
//! | module | contents |
//! |---|---|
//! | [`session`] | a session without any network: commands, completions, limits |
//! | [`drive`] | the loop of the thread that owns a session |
//! | [`device`], [`values`] | the interface of a device for a session |
//! | [`VerbsDevice`] | its implementation with libibverbs |
//! | [`AgentClient`], [`LocalVerbs`] | the tester's side: a session at an agent, or on this host |
//! | [`conformance`] | checks whether an agent follows the protocol: `verbatim doctor --agent` |
//! | [`tls`] | certificates of clients and agents |
//! | [`clock`], [`wake`] | the session's time; waking a thread |

#[cfg(test)]
extern crate self as verbatim_verbs;

pub mod clock;
pub mod conformance;
pub mod device;
pub mod drive;
// Tests in this package cannot use the package of the fake: it would link this library a second time.
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

pub use drive::AgentMessage;
pub use link::{AgentAddress, AgentClient, AgentTls, Gone, LocalVerbs, NotConnected, Place, Reached, VerbsLink};
pub use session::{Limits, Session};
pub use verbatim_tls as tls;
pub use verbs::{VerbsDevice, VerbsPair};

/// The largest message that an agent accepts, in bytes. One command may write at most [`session::MAX_TRANSFER`] bytes,
/// which is less. The agent can therefore refuse a command that writes too much, without breaking the stream.
pub const LARGEST_MESSAGE: usize = 32 << 20;

/// Returns the name and version of the kernel module behind a device, given its directory below `/sys/class`. A missing
/// value is `None`: a software device has no module.
#[must_use]
pub fn driver(device: &Path) -> (Option<String>, Option<String>) {
    let module = std::fs::canonicalize(device.join("device/driver/module")).ok();
    let name = module.as_deref().and_then(Path::file_name);
    let name = name.map(|name| name.to_string_lossy().into_owned());
    let version = module.and_then(|module| std::fs::read_to_string(module.join("version")).ok());
    (name, version.map(|text| text.trim().to_owned()))
}

/// Describes this host: name, kernel, and the agent's version. The kernel's build version follows in parentheses,
/// because a distribution may keep the kernel's release number for years.
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
