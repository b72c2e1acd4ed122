//! Addresses of daemons.

use core::fmt;
use core::str::FromStr;
use std::ffi::OsString;
use std::path::Path;

use verbatim_tls::ClientFiles;

use crate::Error;

/// Default socket of a daemon.
const DEFAULT: &str = "/run/verbatim/verbatim.sock";
/// File name of the socket in a runtime directory.
const SOCKET: &str = "verbatim.sock";

/// The address of a daemon: the absolute path of a unix socket, or a host and a port with the certificates for TLS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address(Place);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    Unix(String),
    Tls(Box<Tls>),
}

/// Address of a daemon on a network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tls {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The name that the daemon's certificate must have; None means `host`.
    pub(crate) name: Option<String>,
    pub(crate) files: ClientFiles,
}

impl Tls {
    pub(crate) fn host_in_url(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        }
    }
}

impl Address {
    /// Returns the address of a unix socket.
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
        Ok(Self(Place::Unix(text.into())))
    }

    /// Returns the address `https://HOST:PORT`, with the certificates for TLS. `name` is the name that the
    /// daemon's certificate must have; None means HOST.
    ///
    /// # Errors
    /// When the text has another form.
    pub fn https(given: &str, files: ClientFiles, name: Option<String>) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Address {
            given: given.into(),
            why: why.into(),
        };
        let rest = given
            .strip_prefix("https://")
            .ok_or_else(|| wrong("it does not start with https://"))?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = rest.rsplit_once(':').ok_or_else(|| wrong("there is no port"))?;
        let port = port.parse().map_err(|_| wrong("there is no port"))?;
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        if host.is_empty() || host.contains(['/', '@', '[', ']', ' ']) {
            return Err(wrong("there is no host"));
        }
        Ok(Self(Place::Tls(Box::new(Tls {
            host: host.into(),
            port,
            name,
            files,
        }))))
    }

    /// Returns the address of this machine's daemon: `$RUNTIME_DIRECTORY/verbatim.sock`, else
    /// `/run/verbatim/verbatim.sock`.
    #[must_use]
    pub fn local() -> Self {
        Self::of_runtime_directory(std::env::var_os("RUNTIME_DIRECTORY"))
    }

    fn of_runtime_directory(variable: Option<OsString>) -> Self {
        // `$RUNTIME_DIRECTORY` may list several directories, separated by colons.
        let first = variable.and_then(|list| std::env::split_paths(&list).next());
        first
            .and_then(|directory| Self::unix(&directory.join(SOCKET)).ok())
            .unwrap_or_else(|| Self(Place::Unix(DEFAULT.into())))
    }

    /// Returns whether a file exists at the socket's path; true for a network address. Does not connect.
    ///
    /// # Errors
    /// When the check fails, for example because this user may not search the directory.
    pub fn exists(&self) -> Result<bool, Error> {
        let Some(path) = self.path() else {
            return Ok(true);
        };
        match path.symlink_metadata() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::from_connect(path, error)),
        }
    }

    /// Returns the path of the socket; None for a network address.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Place::Unix(path) => Some(Path::new(path)),
            Place::Tls(_) => None,
        }
    }

    pub(crate) fn tls(&self) -> Option<&Tls> {
        match &self.0 {
            Place::Unix(_) => None,
            Place::Tls(tls) => Some(tls),
        }
    }

    /// Returns the path of the socket, or the URL.
    #[must_use]
    pub fn in_words(&self) -> String {
        match &self.0 {
            Place::Unix(path) => path.clone(),
            Place::Tls(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Unix(path) => write!(f, "unix:{path}"),
            Place::Tls(tls) => write!(f, "https://{}:{}", tls.host_in_url(), tls.port),
        }
    }
}

impl FromStr for Address {
    type Err = Error;

    /// Parses `unix:/path`, `unix:///path` or `/path`.
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
            why: if given.starts_with("https://") {
                "a network address needs certificates: name the CA, the certificate and the key"
            } else if over_a_network {
                "a daemon on a network has the address https://HOST:PORT, with certificates; plain TCP is not offered"
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
    fn parses_socket_paths_with_or_without_scheme() {
        for given in ["unix:/run/v.sock", "unix:///run/v.sock", "/run/v.sock"] {
            assert_eq!(parsed(given).as_deref(), Ok("unix:/run/v.sock"));
        }
    }

    fn files() -> ClientFiles {
        ClientFiles {
            ca: "ca.pem".into(),
            cert: "c.pem".into(),
            key: "k.pem".into(),
        }
    }

    #[test]
    fn https_address_needs_host_port_and_certificates() {
        for given in [
            "https://bench.lab:7443",
            "https://10.0.0.1:7443",
            "https://[fd00::1]:7443",
        ] {
            let address = Address::https(&format!("{given}/"), files(), None).unwrap();
            assert_eq!(address.to_string(), given);
        }
        for given in [
            "https://bench.lab",
            "https://:7",
            "https://a/b:7",
            "http://bench.lab:7443",
        ] {
            assert!(Address::https(given, files(), None).is_err(), "{given}");
        }
        assert!(
            parsed("https://bench.lab:7443")
                .unwrap_err()
                .contains("needs certificates")
        );
    }

    #[test]
    fn refuses_plain_tcp() {
        for given in ["tcp:host:7", "http://host:50051", "host:50051", "[::1]:5"] {
            let error = parsed(given).unwrap_err();
            assert!(
                error.contains("plain TCP is not offered") && error.contains("https://HOST:PORT"),
                "{error}"
            );
        }
        for given in ["verbatim.sock", "unix:verbatim.sock", ""] {
            let error = parsed(given).unwrap_err();
            assert!(error.contains("starts with /"), "{error}");
        }
    }

    #[test]
    fn local_address_follows_runtime_directory() {
        let at = |variable: &str| Address::of_runtime_directory(Some(variable.into())).to_string();
        assert_eq!(at("/run/a:/run/b"), "unix:/run/a/verbatim.sock");
        assert_eq!(at("relative"), "unix:/run/verbatim/verbatim.sock");
        assert_eq!(
            Address::of_runtime_directory(None).path(),
            Some(Path::new("/run/verbatim/verbatim.sock"))
        );
    }
}
