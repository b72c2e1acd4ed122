//! Requests of a session to its device: work requests with their memory resolved, and destinations of datagrams.

use verbatim_proto::agent::{OutOfRange, PostSend, remote_qpn};
use verbatim_wire::verbs::{AddressVector, Service, Work};
use verbatim_wire::{QKey, Qpn};

use crate::device::Failure;

/// A non-empty part of registered memory.
#[derive(Debug)]
pub struct Piece<'a, M> {
    /// The memory.
    pub memory: &'a M,
    /// Offset in bytes from the start of the memory.
    pub offset: usize,
    /// Length in bytes.
    pub length: usize,
}

/// A work request to post. An empty message has no [`Piece`], because some devices interpret a segment of length 0
/// as 2^31 bytes.
#[derive(Debug)]
pub enum WorkRequest<'a, M> {
    /// A request for the send queue.
    Send(SendPost<'a, M>),
    /// A request for the receive queue.
    Receive {
        /// Identifier that the completion returns.
        wr_id: u64,
        /// Memory for the received message.
        into: Option<Piece<'a, M>>,
    },
}

/// A request for the send queue.
#[derive(Debug)]
pub struct SendPost<'a, M> {
    /// Identifier that the completion returns.
    pub wr_id: u64,
    /// The operation.
    pub work: Work,
    /// Local memory.
    pub local: Option<Piece<'a, M>>,
    /// Whether success generates a completion.
    pub signaled: bool,
    /// Whether to set the Solicited Event bit of the message.
    pub solicited: bool,
    /// Whether the request waits for earlier READs and atomics.
    pub fence: bool,
    /// Destination, for UD.
    pub to: Option<Datagram>,
}

/// The destination of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Address vector.
    pub address: AddressVector,
    /// Queue pair number.
    pub qpn: Qpn,
    /// Q_Key.
    pub qkey: QKey,
}

impl From<OutOfRange> for Failure {
    fn from(OutOfRange(text): OutOfRange) -> Self {
        Self::refused(text)
    }
}

impl Datagram {
    /// Returns the destination of a send request on a queue pair of this service; `None` for RC.
    pub(crate) fn of(given: &PostSend, service: Service) -> Result<Option<Self>, Failure> {
        match (service, &given.address) {
            (Service::Ud, Some(address)) => Ok(Some(Self {
                address: address.try_into()?,
                qpn: remote_qpn(given)?,
                qkey: QKey(given.remote_qkey),
            })),
            (Service::Ud, None) => Err(Failure::refused(
                "a send request of a UD queue pair has no address; give address, remote_qpn and remote_qkey",
            )),
            (Service::Rc, Some(_)) => Err(Failure::refused(
                "a send request of an RC queue pair has an address; omit it: ModifyQp sets the destination",
            )),
            (Service::Rc, None) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ud_requests_have_address() {
        let with = PostSend {
            address: Some(Default::default()),
            ..Default::default()
        };
        let without = PostSend::default();
        assert!(Datagram::of(&with, Service::Rc).is_err());
        assert!(Datagram::of(&without, Service::Ud).is_err());
        assert_eq!(Datagram::of(&without, Service::Rc), Ok(None));
        assert!(Datagram::of(&with, Service::Ud).unwrap().is_some());
    }
}
