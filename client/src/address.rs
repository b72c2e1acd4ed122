//! Where a daemon listens.

use core::fmt;
use core::str::FromStr;
use std::ffi::OsString;
use std::path::Path;

use crate::Error;

/// Where a daemon listens when nothing says otherwise.
const DEFAULT: &str = "/run/verbatim/verbatim.sock";
/// The socket's name in a runtime directory.
const SOCKET: &str = "verbatim.sock";

/// Where a daemon listens: the absolute path of a unix socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address(String);

impl Address {
    /// A socket.
    ///
    /// # Errors
    /// When the path is not absolute, or not UTF-8.
    pub fn unix(path: &Path) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Address {
            given: path.display().to_string(),
            why: why.into(),
        };
        let text = path.to_str().ok_or_else(|| wrong("the path is not UTF-8"))?;
        if !path.is_absolute() {
            return Err(wrong("the path is not absolute"));
        }
        Ok(Self(text.into()))
    }

    /// Where this machine's daemon listens: `$RUNTIME_DIRECTORY/verbatim.sock`, else `/run/verbatim/verbatim.sock`.
    #[must_use]
    pub fn local() -> Self {
        Self::of_runtime_directory(std::env::var_os("RUNTIME_DIRECTORY"))
    }

    fn of_runtime_directory(variable: Option<OsString>) -> Self {
        // A service manager that was asked for several directories separates them by colons.
        let first = variable.and_then(|list| std::env::split_paths(&list).next());
        first
            .and_then(|directory| Self::unix(&directory.join(SOCKET)).ok())
            .unwrap_or_else(|| Self(DEFAULT.into()))
    }

    /// Whether there is a socket, or anything else, under this address. Nothing is said of whether it answers.
    ///
    /// # Errors
    /// When that cannot be told, such as for want of the right to look into its directory.
    pub fn exists(&self) -> Result<bool, Error> {
        match self.path().symlink_metadata() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::from_connect(self.path(), error)),
        }
    }

    /// The socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix:{}", self.0)
    }
}

impl FromStr for Address {
    type Err = Error;

    /// `unix:/path`, `unix:///path` or `/path`.
    fn from_str(given: &str) -> Result<Self, Error> {
        let path = given
            .strip_prefix("unix://")
            .or_else(|| given.strip_prefix("unix:"))
            .unwrap_or(given);
        if path.starts_with('/') {
            return Self::unix(Path::new(path));
        }
        let over_a_network = path.len() == given.len() && given.contains(':');
        Err(Error::Address {
            given: given.into(),
            why: if over_a_network {
                "connections over a network are not offered yet: they will need mutual TLS, and plain TCP never will be \
                 offered; run this command on the daemon's host, or forward its socket with `ssh -L`"
            } else {
                "the path of a socket starts with /"
            }
            .into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(given: &str) -> Result<String, String> {
        let address: Result<Address, Error> = given.parse();
        address
            .map(|address| address.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn an_address_is_the_absolute_path_of_a_socket_with_or_without_its_scheme() {
        for given in ["unix:/run/v.sock", "unix:///run/v.sock", "/run/v.sock"] {
            assert_eq!(parsed(given).as_deref(), Ok("unix:/run/v.sock"));
        }
    }

    #[test]
    fn an_address_over_a_network_is_refused_with_the_reason_and_the_way_round() {
        for given in ["tcp:host:7", "http://host:50051", "host:50051", "[::1]:5"] {
            let error = parsed(given).unwrap_err();
            assert!(error.contains("not offered yet") && error.contains("ssh -L"), "{error}");
        }
        for given in ["verbatim.sock", "unix:verbatim.sock", ""] {
            let error = parsed(given).unwrap_err();
            assert!(error.contains("starts with /"), "{error}");
        }
    }

    #[test]
    fn the_local_address_follows_the_first_runtime_directory() {
        let at = |variable: &str| Address::of_runtime_directory(Some(variable.into())).to_string();
        assert_eq!(at("/run/a:/run/b"), "unix:/run/a/verbatim.sock");
        assert_eq!(at("relative"), "unix:/run/verbatim/verbatim.sock");
        assert_eq!(
            Address::of_runtime_directory(None).path(),
            Path::new("/run/verbatim/verbatim.sock")
        );
    }
}
