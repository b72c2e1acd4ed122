//! The agent's listening address: a unix socket or a TCP address.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::str::FromStr;

use tokio::net::{TcpListener, UnixListener};
use verbatim_socket::{BindError, Bound};

/// Mode of the unix socket: owner and group may connect.
const MODE: u32 = 0o660;

/// The listening address on the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    /// `unix:PATH`.
    Unix(PathBuf),
    /// `IP:PORT`; port 0 lets the system choose.
    Tcp(SocketAddr),
}

impl Listen {
    /// Whether only this host can reach the address, so that TLS is optional.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(address) => is_loopback(address.ip()),
        }
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err("no path after unix:; expected unix:PATH, such as unix:/run/verbatim-agent.sock".into());
            }
            return Ok(Self::Unix(path.into()));
        }
        text.parse().map(Self::Tcp).map_err(|_| {
            "expected unix:PATH or IP:PORT, such as 127.0.0.1:7000 or [::1]:7000; host names are not resolved, give \
             the address"
                .into()
        })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// The reason why the agent cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address needs TLS.
    #[error(
        "--listen {listen} can be reached from other hosts, which could use the device: such an address needs \
         --tls-cert FILE --tls-key FILE --tls-client-ca FILE (`verbatim pki init DIR --agent {listen_ip}` makes them); \
         without TLS listen on a loopback address or on unix:PATH"
    )]
    NeedsTls {
        /// The requested address and port.
        listen: SocketAddr,
        /// The requested IP address.
        listen_ip: IpAddr,
    },
    /// A unix socket has no TLS.
    #[error(
        "--listen {listen} is a unix socket, which has no TLS: leave --tls-cert, --tls-key and --tls-client-ca out"
    )]
    NoTls {
        /// The requested address.
        listen: Listen,
    },
    /// The path exists and is not a socket.
    #[error("{path} exists and is not a socket; remove it, or name another path with --listen unix:PATH")]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// Another process listens on the address.
    #[error("another process already listens on {listen}; stop it, or choose another address with --listen")]
    InUse {
        /// The requested address.
        listen: Listen,
    },
    /// Any other error of the system.
    #[error("cannot listen on {listen} ({seen}); {hint}")]
    System {
        /// The requested address.
        listen: Listen,
        /// The system's error.
        seen: io::Error,
        /// Remedy.
        hint: &'static str,
    },
}

/// A listening socket. Dropping it removes the file of a unix socket.
#[derive(Debug)]
pub(crate) enum Listener {
    Unix(Bound<UnixListener>, PathBuf),
    Tcp(TcpListener),
}

impl Listener {
    /// Begins to listen. Must be called within a Tokio runtime.
    pub(crate) async fn bind(listen: &Listen) -> Result<Self, ListenError> {
        match listen {
            Listen::Unix(path) => {
                let bind = || {
                    let listener = UnixListener::bind(path)?;
                    fs::set_permissions(path, Permissions::from_mode(MODE))?;
                    Ok(listener)
                };
                let listener = Bound::new(path, bind).map_err(|error| match error {
                    BindError::NotASocket { .. } => ListenError::NoSocket { path: path.into() },
                    BindError::InUse => ListenError::InUse { listen: listen.clone() },
                    BindError::System(seen) => ListenError::System {
                        listen: listen.clone(),
                        seen,
                        hint: "expected a path of at most 107 bytes in a directory that this user may write",
                    },
                })?;
                Ok(Self::Unix(listener, path.clone()))
            }
            Listen::Tcp(address) => match TcpListener::bind(address).await {
                Ok(listener) => Ok(Self::Tcp(listener)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    Err(ListenError::InUse { listen: listen.clone() })
                }
                Err(seen) => Err(ListenError::System {
                    listen: listen.clone(),
                    seen,
                    hint: "expected an address of this host (`ip address`), or 0.0.0.0 or [::] for all of them",
                }),
            },
        }
    }

    /// Returns the listening address, with the port that the system chose.
    pub(crate) fn address(&self) -> io::Result<Listen> {
        match self {
            Self::Unix(_, path) => Ok(Listen::Unix(path.clone())),
            Self::Tcp(listener) => Ok(Listen::Tcp(listener.local_addr()?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_parses_unix_path_or_ip_and_port() {
        assert_eq!("unix:/x/s".parse(), Ok(Listen::Unix("/x/s".into())));
        assert_eq!("[::1]:7".parse(), Ok(Listen::Tcp("[::1]:7".parse().unwrap())));
        for wrong in [
            "",
            "unix:",
            "localhost:7000",
            "127.0.0.1",
            "::1:x",
            ":7000",
            "127.0.0.1:65536",
        ] {
            let error = wrong.parse::<Listen>().unwrap_err();
            assert!(error.contains("expected unix:PATH"), "{wrong}: {error}");
        }
    }

    #[test]
    fn loopback_and_unix_are_local() {
        for local in [
            "unix:/s",
            "127.0.0.1:1",
            "127.9.9.9:1",
            "[::1]:1",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert!(local.parse::<Listen>().unwrap().is_local(), "{local}");
        }
        for remote in [
            "0.0.0.0:1",
            "[::]:1",
            "10.0.2.15:1",
            "[fe80::1]:1",
            "[::ffff:10.0.0.1]:1",
            "128.0.0.1:1",
        ] {
            assert!(!remote.parse::<Listen>().unwrap().is_local(), "{remote}");
        }
    }

    #[tokio::test]
    async fn only_a_stale_socket_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let listen = Listen::Unix(directory.path().join("s"));
        let Listen::Unix(path) = &listen else { unreachable!() };
        drop(std::os::unix::net::UnixListener::bind(path).unwrap());
        let first = Listener::bind(&listen).await.unwrap();
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, MODE);
        assert!(matches!(Listener::bind(&listen).await, Err(ListenError::InUse { .. })));
        drop(first);
        assert!(!path.exists());
        fs::write(path, "mine").unwrap();
        assert!(matches!(
            Listener::bind(&listen).await,
            Err(ListenError::NoSocket { .. })
        ));
        assert_eq!(fs::read(path).unwrap(), b"mine");
    }

    #[tokio::test]
    async fn taken_or_foreign_address_is_named() {
        let first = Listener::bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let again = first.address().unwrap();
        assert!(matches!(Listener::bind(&again).await, Err(ListenError::InUse { .. })));
        let foreign = Listener::bind(&"192.0.2.1:0".parse().unwrap()).await.unwrap_err();
        assert!(
            foreign.to_string().contains("expected an address of this host"),
            "{foreign}"
        );
    }
}
