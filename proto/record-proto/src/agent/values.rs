//! Conversion of protocol messages to typed values. A number outside its field's range is refused, and never truncated.

use verbatim_wire::verbs::{Access, AddressVector, Gid, Operation, QpAttributes, QpState, QpStatus, Service, Work};
use verbatim_wire::{AckTimeout, Mtu, Psn, QKey, Qpn, RKey, RnrTimer};

use super::v1 as pb;

/// Error for a value outside its range: the expected range and the actual value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutOfRange(pub String);

/// Checks that a number is at most `largest`.
fn bounded(field: &str, value: u32, largest: u32) -> Result<u32, OutOfRange> {
    if value > largest {
        return Err(OutOfRange(format!("{field} is {value}; expected 0..={largest}")));
    }
    Ok(value)
}

/// Converts a number that is at most `largest`.
fn narrow<N: TryFrom<u32> + Into<u32> + Copy>(field: &str, value: u32, largest: N) -> Result<N, OutOfRange> {
    bounded(field, value, largest.into())?;
    Ok(N::try_from(value).unwrap_or(largest))
}

/// The largest 24-bit number, for PSNs and QPNs.
const BITS_24: u32 = (1 << 24) - 1;

impl From<pb::Access> for Access {
    fn from(of: pb::Access) -> Self {
        Self {
            local_write: of.local_write,
            remote_write: of.remote_write,
            remote_read: of.remote_read,
            remote_atomic: of.remote_atomic,
        }
    }
}

/// Converts a number of `enum Service`.
///
/// # Errors
/// When the number is unspecified or unknown.
pub fn service(number: i32) -> Result<Service, OutOfRange> {
    match pb::Service::try_from(number) {
        Ok(pb::Service::Rc) => Ok(Service::Rc),
        Ok(pb::Service::Ud) => Ok(Service::Ud),
        Ok(pb::Service::Unspecified) | Err(_) => Err(OutOfRange(format!(
            "{number} is no service of a queue pair; expected SERVICE_RC (1) or SERVICE_UD (2)"
        ))),
    }
}

/// Converts a number of `enum QpState`.
///
/// # Errors
/// When the number is unspecified or unknown.
pub fn qp_state(number: i32) -> Result<QpState, OutOfRange> {
    // The numbers in the schema start at 1.
    let place = usize::try_from(i64::from(number) - 1).ok();
    let state = place.and_then(|place| QpState::ALL.get(place)).copied();
    state.ok_or_else(|| {
        OutOfRange(format!(
            "{number} is no state of a queue pair; expected one of enum QpState, 1..=7"
        ))
    })
}

impl TryFrom<&pb::PostSend> for Work {
    type Error = OutOfRange;

    fn try_from(given: &pb::PostSend) -> Result<Self, OutOfRange> {
        let operation = match pb::Operation::try_from(given.operation) {
            Ok(pb::Operation::Send) => Operation::Send,
            Ok(pb::Operation::SendImm) => Operation::SendImm,
            Ok(pb::Operation::SendInvalidate) => Operation::SendInvalidate,
            Ok(pb::Operation::Write) => Operation::Write,
            Ok(pb::Operation::WriteImm) => Operation::WriteImm,
            Ok(pb::Operation::Read) => Operation::Read,
            Ok(pb::Operation::CompareSwap) => Operation::CompareSwap,
            Ok(pb::Operation::FetchAdd) => Operation::FetchAdd,
            Ok(pb::Operation::Unspecified) | Err(_) => {
                return Err(OutOfRange(format!(
                    "{} is no operation of a send request; expected one of enum Operation, 1..=8",
                    given.operation
                )));
            }
        };
        Ok(Self {
            operation,
            remote_address: given.remote_address,
            r_key: RKey(given.r_key),
            compare: given.compare,
            swap_add: given.swap_add,
            imm: given.imm,
        })
    }
}

impl From<QpState> for pb::QpState {
    fn from(of: QpState) -> Self {
        match of {
            QpState::Reset => Self::Reset,
            QpState::Init => Self::Init,
            QpState::Rtr => Self::Rtr,
            QpState::Rts => Self::Rts,
            QpState::Sqd => Self::Sqd,
            QpState::Sqe => Self::Sqe,
            QpState::Err => Self::Err,
        }
    }
}

impl From<QpStatus> for pb::QpStatus {
    fn from(of: QpStatus) -> Self {
        Self {
            state: pb::QpState::from(of.state).into(),
            sq_psn: of.sq_psn.0,
            rq_psn: of.rq_psn.0,
        }
    }
}

impl TryFrom<&pb::QpAttributes> for QpAttributes {
    type Error = OutOfRange;

    fn try_from(given: &pb::QpAttributes) -> Result<Self, OutOfRange> {
        let byte =
            |field, value: Option<u32>, largest: u8| value.map(|value| narrow(field, value, largest)).transpose();
        let number = |field, value: Option<u32>| value.map(|value| bounded(field, value, BITS_24)).transpose();
        if given.path_mtu == Some(0) || given.port == Some(0) {
            return Err(OutOfRange(
                "path_mtu or port is 0; expected a path MTU code of 1..=5 and a port of 1 or more".into(),
            ));
        }
        let pkey_index = given.pkey_index.map(|value| narrow("pkey_index", value, u16::MAX));
        Ok(Self {
            pkey_index: pkey_index.transpose()?,
            port: byte("port", given.port, u8::MAX)?,
            access: given.access.map(Access::from),
            path_mtu: byte("path_mtu", given.path_mtu, 5)?.map(Mtu),
            dest_qpn: number("dest_qpn", given.dest_qpn)?.map(Qpn),
            rq_psn: number("rq_psn", given.rq_psn)?.map(Psn),
            sq_psn: number("sq_psn", given.sq_psn)?.map(Psn),
            max_dest_rd_atomic: byte("max_dest_rd_atomic", given.max_dest_rd_atomic, u8::MAX)?,
            max_rd_atomic: byte("max_rd_atomic", given.max_rd_atomic, u8::MAX)?,
            min_rnr_timer: byte("min_rnr_timer", given.min_rnr_timer, 31)?.map(RnrTimer),
            timeout: byte("timeout", given.timeout, 31)?.map(AckTimeout),
            retry_cnt: byte("retry_cnt", given.retry_cnt, 7)?,
            rnr_retry: byte("rnr_retry", given.rnr_retry, 7)?,
            qkey: given.qkey.map(QKey),
            address: given.address.as_ref().map(AddressVector::try_from).transpose()?,
        })
    }
}

impl TryFrom<&pb::AddressVector> for AddressVector {
    type Error = OutOfRange;

    fn try_from(given: &pb::AddressVector) -> Result<Self, OutOfRange> {
        let dgid = match given.dgid.as_slice() {
            [] if given.hop_limit | given.traffic_class | given.flow_label | given.sgid_index != 0 => {
                return Err(OutOfRange(
                    "the address has fields of a GRH and no dgid; give its 16 bytes, or leave the others 0".into(),
                ));
            }
            [] => None,
            bytes => Some(Gid(bytes.try_into().map_err(|_| {
                OutOfRange(format!("dgid has {} bytes; expected 16, or none", bytes.len()))
            })?)),
        };
        Ok(Self {
            dgid,
            sgid_index: narrow("sgid_index", given.sgid_index, u8::MAX)?,
            hop_limit: narrow("hop_limit", given.hop_limit, u8::MAX)?,
            traffic_class: narrow("traffic_class", given.traffic_class, u8::MAX)?,
            flow_label: bounded("flow_label", given.flow_label, (1 << 20) - 1)?,
            dlid: narrow("dlid", given.dlid, u16::MAX)?,
            sl: narrow("sl", given.sl, 15)?,
        })
    }
}

/// Returns the QPN of a datagram's destination.
///
/// # Errors
/// When the number has more than 24 bits.
pub fn remote_qpn(given: &pb::PostSend) -> Result<Qpn, OutOfRange> {
    bounded("remote_qpn", given.remote_qpn, BITS_24).map(Qpn)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut pb::QpAttributes)) -> String {
        let mut given = pb::QpAttributes::default();
        change(&mut given);
        QpAttributes::try_from(&given).unwrap_err().0
    }

    #[test]
    fn refuses_numbers_outside_their_range() {
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
    fn address_needs_a_whole_gid_for_grh_fields() {
        let with = |change: fn(&mut pb::AddressVector)| {
            let mut address = pb::AddressVector {
                dgid: vec![1; 16],
                ..Default::default()
            };
            change(&mut address);
            refusal(|a| a.address = Some(address))
        };
        assert_eq!(with(|a| a.dgid.truncate(15)), "dgid has 15 bytes; expected 16, or none");
        assert!(with(|a| (a.dgid, a.hop_limit) = (Vec::new(), 1)).contains("no dgid"));
        let wrong: [fn(&mut pb::AddressVector); 6] = [
            |a| a.flow_label = 1 << 20,
            |a| a.hop_limit = 256,
            |a| a.traffic_class = 256,
            |a| a.sgid_index = 256,
            |a| a.dlid = 1 << 16,
            |a| a.sl = 16,
        ];
        for change in wrong {
            assert!(with(change).contains("; expected 0..="));
        }
    }

    #[test]
    fn states_round_trip() {
        for state in QpState::ALL {
            assert_eq!(qp_state(pb::QpState::from(state).into()), Ok(state));
        }
    }

    #[test]
    fn refuses_unknown_state_operation_or_service() {
        for number in [0, 8, -1, i32::MIN] {
            assert!(qp_state(number).unwrap_err().0.contains("no state"));
        }
        for operation in [0, 9, -1] {
            let given = pb::PostSend {
                operation,
                ..Default::default()
            };
            assert!(Work::try_from(&given).unwrap_err().0.contains("no operation"));
        }
        for number in [0, 3, -1] {
            assert!(service(number).unwrap_err().0.contains("no service"));
        }
    }
}
