//! Commands with their numbers checked: what a driver would cut off, or take for something else, never reaches it.

use verbatim_proto::agent as proto;

pub use proto::{Access, QpState, Service};

use crate::device::Failure;

/// A transition of a queue pair, with the attributes that it names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Modify {
    /// The state to go to.
    pub state: QpState,
    /// The attributes.
    pub attributes: Attributes,
}

/// Attributes of a queue pair; what is absent is not named in the call. Units and codes: `verbs.proto`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // each is the field of the same name
pub struct Attributes {
    pub pkey_index: Option<u16>,
    pub port: Option<u8>,
    pub access: Option<Access>,
    pub path_mtu: Option<u8>,
    pub dest_qpn: Option<u32>,
    pub rq_psn: Option<u32>,
    pub sq_psn: Option<u32>,
    pub max_dest_rd_atomic: Option<u8>,
    pub max_rd_atomic: Option<u8>,
    pub min_rnr_timer: Option<u8>,
    pub timeout: Option<u8>,
    pub retry_cnt: Option<u8>,
    pub rnr_retry: Option<u8>,
    pub qkey: Option<u32>,
    pub address: Option<Address>,
}

/// The way to another port, from the port that the session is on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// The global route; absent when packets carry no GRH.
    pub route: Option<Route>,
    /// LID; 0 on RoCE.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
}

/// The fields of a GRH.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// Destination GID.
    pub dgid: [u8; 16],
    /// Index of the own GID.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

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
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// The way.
    pub address: Address,
    /// Queue pair.
    pub qpn: u32,
    /// Q_Key.
    pub qkey: u32,
}

/// What a send request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // the fields are those of `PostSend`
pub enum Work {
    /// SEND.
    Send,
    /// SEND with Immediate.
    SendImm { imm: u32 },
    /// SEND with Invalidate.
    SendInvalidate { r_key: u32 },
    /// RDMA WRITE.
    Write { address: u64, r_key: u32 },
    /// RDMA WRITE with Immediate.
    WriteImm { address: u64, r_key: u32, imm: u32 },
    /// RDMA READ.
    Read { address: u64, r_key: u32 },
    /// CmpSwap.
    CompareSwap {
        address: u64,
        r_key: u32,
        compare: u64,
        swap: u64,
    },
    /// FetchAdd.
    FetchAdd { address: u64, r_key: u32, add: u64 },
}

/// A number of at most `largest`.
fn bounded(field: &str, value: u32, largest: u32) -> Result<u32, Failure> {
    if value > largest {
        return Err(Failure::refused(format!("{field} is {value}; expected 0..={largest}")));
    }
    Ok(value)
}

/// A number of at most `largest`, which fits a byte.
fn byte(field: &str, value: u32, largest: u8) -> Result<u8, Failure> {
    bounded(field, value, largest.into())?;
    Ok(u8::try_from(value).unwrap_or(largest))
}

/// A number of 16 bits.
fn word(field: &str, value: u32) -> Result<u16, Failure> {
    bounded(field, value, u16::MAX.into())?;
    Ok(u16::try_from(value).unwrap_or(u16::MAX))
}

/// PSNs and QPNs have 24 bits.
const BITS_24: u32 = (1 << 24) - 1;

impl Modify {
    pub(crate) fn of(state: i32, attributes: Option<&proto::QpAttributes>) -> Result<Self, Failure> {
        let known = QpState::try_from(state)
            .ok()
            .filter(|state| *state != QpState::Unspecified);
        let state = known.ok_or_else(|| {
            Failure::refused(format!(
                "{state} is no state of a queue pair; expected one of enum QpState, 1..=7"
            ))
        })?;
        let attributes = attributes.map(Attributes::of).transpose()?.unwrap_or_default();
        Ok(Self { state, attributes })
    }
}

impl Attributes {
    fn of(given: &proto::QpAttributes) -> Result<Self, Failure> {
        let bytes = |field, value: Option<u32>, largest| value.map(|value| byte(field, value, largest)).transpose();
        let psn = |field, value: Option<u32>| value.map(|value| bounded(field, value, BITS_24)).transpose();
        if given.path_mtu == Some(0) || given.port == Some(0) {
            return Err(Failure::refused(
                "path_mtu or port is 0; expected a path MTU code of 1..=5 and a port of 1 or more",
            ));
        }
        Ok(Self {
            pkey_index: given.pkey_index.map(|value| word("pkey_index", value)).transpose()?,
            port: bytes("port", given.port, u8::MAX)?,
            access: given.access,
            path_mtu: bytes("path_mtu", given.path_mtu, 5)?,
            dest_qpn: psn("dest_qpn", given.dest_qpn)?,
            rq_psn: psn("rq_psn", given.rq_psn)?,
            sq_psn: psn("sq_psn", given.sq_psn)?,
            max_dest_rd_atomic: bytes("max_dest_rd_atomic", given.max_dest_rd_atomic, u8::MAX)?,
            max_rd_atomic: bytes("max_rd_atomic", given.max_rd_atomic, u8::MAX)?,
            min_rnr_timer: bytes("min_rnr_timer", given.min_rnr_timer, 31)?,
            timeout: bytes("timeout", given.timeout, 31)?,
            retry_cnt: bytes("retry_cnt", given.retry_cnt, 7)?,
            rnr_retry: bytes("rnr_retry", given.rnr_retry, 7)?,
            qkey: given.qkey,
            address: given.address.as_ref().map(Address::of).transpose()?,
        })
    }
}

impl Address {
    fn of(given: &proto::AddressVector) -> Result<Self, Failure> {
        let route = if given.dgid.is_empty() {
            if given.hop_limit | given.traffic_class | given.flow_label | given.sgid_index != 0 {
                return Err(Failure::refused(
                    "the address has fields of a GRH and no dgid; give its 16 bytes, or leave the others 0",
                ));
            }
            None
        } else {
            let dgid =
                given.dgid.as_slice().try_into().map_err(|_| {
                    Failure::refused(format!("dgid has {} bytes; expected 16, or none", given.dgid.len()))
                })?;
            Some(Route {
                dgid,
                sgid_index: byte("sgid_index", given.sgid_index, u8::MAX)?,
                hop_limit: byte("hop_limit", given.hop_limit, u8::MAX)?,
                traffic_class: byte("traffic_class", given.traffic_class, u8::MAX)?,
                flow_label: bounded("flow_label", given.flow_label, (1 << 20) - 1)?,
            })
        };
        Ok(Self {
            route,
            dlid: word("dlid", given.dlid)?,
            sl: byte("sl", given.sl, 15)?,
        })
    }
}

impl Work {
    pub(crate) fn of(given: &proto::PostSend) -> Result<Self, Failure> {
        use proto::Operation;
        let (address, r_key, imm) = (given.remote_address, given.r_key, given.imm);
        Ok(match Operation::try_from(given.operation) {
            Ok(Operation::Send) => Self::Send,
            Ok(Operation::SendImm) => Self::SendImm { imm },
            Ok(Operation::SendInvalidate) => Self::SendInvalidate { r_key },
            Ok(Operation::Write) => Self::Write { address, r_key },
            Ok(Operation::WriteImm) => Self::WriteImm { address, r_key, imm },
            Ok(Operation::Read) => Self::Read { address, r_key },
            Ok(Operation::CompareSwap) => Self::CompareSwap {
                address,
                r_key,
                compare: given.compare,
                swap: given.swap_add,
            },
            Ok(Operation::FetchAdd) => Self::FetchAdd {
                address,
                r_key,
                add: given.swap_add,
            },
            Ok(Operation::Unspecified) | Err(_) => {
                return Err(Failure::refused(format!(
                    "{} is no operation of a send request; expected one of enum Operation, 1..=8",
                    given.operation
                )));
            }
        })
    }
}

impl Datagram {
    /// The destination of a request on a queue pair of this service.
    pub(crate) fn of(given: &proto::PostSend, service: Service) -> Result<Option<Self>, Failure> {
        match (service, &given.address) {
            (Service::Ud, Some(address)) => Ok(Some(Self {
                address: Address::of(address)?,
                qpn: bounded("remote_qpn", given.remote_qpn, BITS_24)?,
                qkey: given.remote_qkey,
            })),
            (Service::Ud, None) => Err(Failure::refused(
                "a send request of a UD queue pair has no address; give address, remote_qpn and remote_qkey",
            )),
            (_, Some(_)) => Err(Failure::refused(
                "a send request of an RC queue pair has an address; leave it out: the queue pair knows where to",
            )),
            (_, None) => Ok(None),
        }
    }
}

/// A known service.
pub(crate) fn service(given: i32) -> Result<Service, Failure> {
    match Service::try_from(given) {
        Ok(service @ (Service::Rc | Service::Ud)) => Ok(service),
        _ => Err(Failure::refused(format!(
            "{given} is no service of a queue pair; expected SERVICE_RC (1) or SERVICE_UD (2)"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut proto::QpAttributes)) -> String {
        let mut given = proto::QpAttributes::default();
        change(&mut given);
        Modify::of(2, Some(&given)).unwrap_err().text
    }

    #[test]
    fn every_number_that_a_field_cannot_hold_is_refused_with_its_range() {
        assert_eq!(refusal(|a| a.rnr_retry = Some(8)), "rnr_retry is 8; expected 0..=7");
        assert_eq!(refusal(|a| a.retry_cnt = Some(8)), "retry_cnt is 8; expected 0..=7");
        assert_eq!(
            refusal(|a| a.min_rnr_timer = Some(32)),
            "min_rnr_timer is 32; expected 0..=31"
        );
        assert_eq!(refusal(|a| a.timeout = Some(32)), "timeout is 32; expected 0..=31");
        assert_eq!(refusal(|a| a.path_mtu = Some(6)), "path_mtu is 6; expected 0..=5");
        assert!(refusal(|a| a.path_mtu = Some(0)).contains("1..=5"));
        assert!(refusal(|a| a.port = Some(0)).contains("port"));
        assert_eq!(refusal(|a| a.port = Some(256)), "port is 256; expected 0..=255");
        assert_eq!(
            refusal(|a| a.sq_psn = Some(1 << 24)),
            "sq_psn is 16777216; expected 0..=16777215"
        );
        assert!(refusal(|a| a.rq_psn = Some(1 << 24)).starts_with("rq_psn"));
        assert!(refusal(|a| a.dest_qpn = Some(1 << 24)).starts_with("dest_qpn"));
        assert!(refusal(|a| a.pkey_index = Some(1 << 16)).starts_with("pkey_index"));
        assert!(refusal(|a| a.max_rd_atomic = Some(256)).starts_with("max_rd_atomic"));
        assert!(refusal(|a| a.max_dest_rd_atomic = Some(256)).starts_with("max_dest_rd_atomic"));
    }

    #[test]
    fn an_address_has_a_whole_gid_or_no_field_of_a_grh() {
        let with = |address| refusal(|a| a.address = Some(address));
        let dgid = vec![1; 16];
        assert_eq!(
            with(proto::AddressVector {
                dgid: vec![0; 15],
                ..Default::default()
            }),
            "dgid has 15 bytes; expected 16, or none"
        );
        assert!(
            with(proto::AddressVector {
                hop_limit: 1,
                ..Default::default()
            })
            .contains("no dgid")
        );
        let wrong = [
            proto::AddressVector {
                dgid: dgid.clone(),
                flow_label: 1 << 20,
                ..Default::default()
            },
            proto::AddressVector {
                dgid: dgid.clone(),
                hop_limit: 256,
                ..Default::default()
            },
            proto::AddressVector {
                dgid: dgid.clone(),
                traffic_class: 256,
                ..Default::default()
            },
            proto::AddressVector {
                dgid: dgid.clone(),
                sgid_index: 256,
                ..Default::default()
            },
            proto::AddressVector {
                dlid: 1 << 16,
                ..Default::default()
            },
            proto::AddressVector {
                sl: 16,
                ..Default::default()
            },
        ];
        for address in wrong {
            assert!(with(address.clone()).contains("; expected 0..="), "{address:?}");
        }
    }

    #[test]
    fn an_unknown_state_operation_or_service_is_refused() {
        for state in [0, 8, -1] {
            assert!(Modify::of(state, None).unwrap_err().text.contains("no state"));
        }
        for operation in [0, 9, -1] {
            let post = proto::PostSend {
                operation,
                ..Default::default()
            };
            assert!(Work::of(&post).unwrap_err().text.contains("no operation"));
        }
        for given in [0, 3, -1] {
            assert!(service(given).unwrap_err().text.contains("no service"));
        }
    }

    #[test]
    fn only_a_ud_request_has_an_address() {
        let with = proto::PostSend {
            address: Some(Default::default()),
            ..Default::default()
        };
        let without = proto::PostSend::default();
        assert!(Datagram::of(&with, Service::Rc).is_err());
        assert!(Datagram::of(&without, Service::Ud).is_err());
        assert_eq!(Datagram::of(&without, Service::Rc), Ok(None));
        assert!(Datagram::of(&with, Service::Ud).unwrap().is_some());
    }
}
