//! Errors. Each message gives the expected value, the seen value, the place, and what to do next.

use std::{io, path::PathBuf, time::Duration};

/// An error of opening a socket, or of sending or receiving frames.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtherError {
    /// Raw frames need a capability that this process lacks.
    #[error(
        "raw frames on interface {interface} need CAP_NET_RAW, which this process lacks ({seen}): run it as root, or \
         give it the right with `setcap cap_net_raw+ep PROGRAM` (AmbientCapabilities=CAP_NET_RAW in a unit)"
    )]
    NotPermitted {
        /// The requested interface.
        interface: String,
        /// The system's error.
        seen: io::Error,
    },
    /// There is no such interface.
    #[error(
        "no network interface {interface:?} in this network namespace; these exist: {}: correct the name, or enter \
         the namespace that it is in with `ip netns exec`",
        .existing.join(", ")
    )]
    NoInterface {
        /// The requested interface.
        interface: String,
        /// The interfaces that exist.
        existing: Vec<String>,
    },
    /// The interface is not Ethernet.
    #[error(
        "interface {interface} is not Ethernet (its hardware type is {kind}, expected 1): frames would have another \
         header; name an Ethernet interface"
    )]
    NotEthernet {
        /// The interface.
        interface: String,
        /// `ARPHRD_*` value.
        kind: u16,
    },
    /// The interface is down.
    #[error("interface {interface} is down: `ip link set {interface} up`, and check its link with `ip link show`")]
    InterfaceDown {
        /// The interface.
        interface: String,
    },
    /// The interface was removed.
    #[error(
        "interface {interface} is gone: it was removed, renamed into another namespace, or its driver unloaded; bring \
         it back and open it again"
    )]
    InterfaceGone {
        /// The interface.
        interface: String,
    },
    /// The frame is longer than the interface or socket accepts; it was not sent.
    #[error(
        "a frame of {length} bytes is too long for {place}, which takes {most} with the Ethernet header: send a \
         shorter one, or raise the MTU on both sides"
    )]
    TooLong {
        /// Length of the frame in bytes.
        length: usize,
        /// The largest length in bytes.
        most: usize,
        /// The interface or socket.
        place: String,
    },
    /// The frame is shorter than an Ethernet header; it was not sent.
    #[error("a frame of {length} bytes is shorter than an Ethernet header, which has 14")]
    TooShort {
        /// Length of the frame in bytes.
        length: usize,
    },
    /// The interface or socket stayed full; the frame was not sent.
    #[error("{place} took no frame for {waited:?}: the other side does not read, or the link is stopped or saturated")]
    Full {
        /// The interface or socket.
        place: String,
        /// How long the send waited.
        waited: Duration,
    },
    /// No process has bound the other socket.
    #[error(
        "nothing listens at {} ({seen}): the machine is not running, or was started with another socket",
        remote.display()
    )]
    PeerAbsent {
        /// The destination socket.
        remote: PathBuf,
        /// The system's error.
        seen: io::Error,
    },
    /// Another process has bound the local socket.
    #[error("the socket {} is in use by another process: end that one, or use another path", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// The path of a socket names another kind of file.
    #[error("the socket path {} is {seen}, expected a socket or nothing: remove it or name another", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
        /// The kind of the file.
        seen: &'static str,
    },
    /// A socket path that cannot be used.
    #[error(
        "the socket path {} of {} bytes cannot be used ({seen}): expected 1 to 107 bytes, in a directory that exists \
         and may be written",
        path.display(),
        path.as_os_str().len()
    )]
    Path {
        /// The path.
        path: PathBuf,
        /// The system's error.
        seen: io::Error,
    },
    /// Any other error of the system.
    #[error("{call} on {place} failed ({seen})")]
    System {
        /// The operation that failed.
        call: &'static str,
        /// The interface or socket.
        place: String,
        /// The system's error.
        seen: io::Error,
    },
}
