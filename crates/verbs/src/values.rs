//! What a session asks of a device: requests with their memory found, and where datagrams go.

use verbatim_proto::agent::{OutOfRange, PostSend, remote_qpn};
use verbatim_wire::verbs::{AddressVector, Service, Work};
use verbatim_wire::{QKey, Qpn};

use crate::device::Failure;

/// Part of registered memory, inside it and not empty.
#[derive(Debug)]
pub struct Piece<'a, M> {
    /// The memory.
    pub memory: &'a M,
    /// Bytes from its beginning.
    pub offset: usize,
    /// Bytes.
    pub length: usize,
}

/// A request to post. A message of no bytes has no piece: a segment of length 0 means 2^31 bytes to some devices.
#[derive(Debug)]
pub enum Post<'a, M> {
    /// To the send queue.
    Send(SendPost<'a, M>),
    /// To the receive queue.
    Receive {
        /// Comes back in the completion.
        wr_id: u64,
        /// Where to put what arrives.
        into: Option<Piece<'a, M>>,
    },
}

/// A send request.
#[derive(Debug)]
pub struct SendPost<'a, M> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub work: Work,
    /// The local memory.
    pub local: Option<Piece<'a, M>>,
    /// Whether success makes a completion.
    pub signaled: bool,
    /// Whether the other side's completion raises an event.
    pub solicited: bool,
    /// Whether it waits for READs and atomics before it.
    pub fence: bool,
    /// UD: where to.
    pub to: Option<Datagram>,
}

/// Where a datagram goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// The way.
    pub address: AddressVector,
    /// Queue pair.
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
    /// The destination of a request on a queue pair of this service.
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
                "a send request of an RC queue pair has an address; leave it out: the queue pair knows where to",
            )),
            (Service::Rc, None) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_ud_request_has_an_address() {
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
