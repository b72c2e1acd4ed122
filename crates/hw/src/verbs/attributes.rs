//! Attributes of devices, ports, GID tables and events.

use std::ffi::c_char;

use verbatim_wire::{Lid, Mtu, Qpn, verbs::EventKind, verbs::Gid};

use super::{c, types::GidType};

/// Properties and limits of a device (`struct ibv_device_attr`; the header defines the names).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceAttributes {
    /// Firmware version, as the driver reports it; empty for rxe.
    pub fw_ver: String,
    /// Node GUID.
    pub node_guid: u64,
    /// IEEE OUI of the vendor.
    pub vendor_id: u32,
    /// Vendor's part number.
    pub vendor_part_id: u32,
    /// Vendor's hardware revision.
    pub hw_ver: u32,
    /// Maximum number of queue pairs.
    pub max_qp: i32,
    /// Maximum number of outstanding READs and atomics that a queue pair accepts as responder.
    pub max_qp_rd_atom: i32,
    /// Maximum number of outstanding READs and atomics of a queue pair as requester.
    pub max_qp_init_rd_atom: i32,
    /// Whether the device supports atomics.
    pub atomics: bool,
    /// Local CA ACK Delay: the longest response time, as a code of 4.096 us * 2^code.
    pub local_ca_ack_delay: u8,
    /// Number of ports.
    pub phys_port_cnt: u8,
}

impl From<&c::ibv_device_attr> for DeviceAttributes {
    fn from(seen: &c::ibv_device_attr) -> Self {
        Self {
            fw_ver: text(&seen.fw_ver),
            node_guid: u64::from_be(seen.node_guid),
            vendor_id: seen.vendor_id,
            vendor_part_id: seen.vendor_part_id,
            hw_ver: seen.hw_ver,
            max_qp: seen.max_qp,
            max_qp_rd_atom: seen.max_qp_rd_atom,
            max_qp_init_rd_atom: seen.max_qp_init_rd_atom,
            atomics: seen.atomic_cap != c::ibv_atomic_cap::IBV_ATOMIC_NONE,
            local_ca_ack_delay: seen.local_ca_ack_delay,
            phys_port_cnt: seen.phys_port_cnt,
        }
    }
}

/// State of a port (`struct ibv_port_attr`; the header defines the names).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortAttributes {
    /// `enum ibv_port_state`: 4 is active.
    pub state: u32,
    /// MTU in use.
    pub active_mtu: Mtu,
    /// Entries of the GID table, including empty ones.
    pub gid_tbl_len: i32,
    /// Base LID, 0 on Ethernet.
    pub lid: Lid,
    /// Whether the link is Ethernet.
    pub ethernet: bool,
}

impl From<&c::ibv_port_attr> for PortAttributes {
    fn from(seen: &c::ibv_port_attr) -> Self {
        /// `IBV_LINK_LAYER_ETHERNET`, of an unnamed enumeration.
        const ETHERNET: u8 = 2;
        Self {
            state: seen.state,
            active_mtu: Mtu(u8::try_from(seen.active_mtu).unwrap_or(u8::MAX)),
            gid_tbl_len: seen.gid_tbl_len,
            lid: Lid(seen.lid),
            ethernet: seen.link_layer == ETHERNET,
        }
    }
}

/// A GID of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidEntry {
    /// Index into the port's table, as in `sgid_index` of an address.
    pub index: u32,
    /// The GID.
    pub gid: Gid,
    /// Type of the GID.
    pub kind: GidType,
}

impl From<&c::ibv_gid_entry> for GidEntry {
    fn from(seen: &c::ibv_gid_entry) -> Self {
        Self {
            index: seen.gid_index,
            // SAFETY: both members of the union are sixteen plain bytes.
            gid: Gid(unsafe { seen.gid.raw }),
            kind: GidType::from(seen.gid_type),
        }
    }
}

/// An event of a device or of one of its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncEvent {
    /// Kind of the event.
    pub kind: EventKind,
    /// Queue pair of the event, if it concerns one.
    pub qpn: Option<Qpn>,
}

/// Whether an event concerns a queue pair, by the table in the manual of `ibv_get_async_event`.
pub(super) fn is_about_a_queue_pair(kind: EventKind) -> bool {
    [
        EventKind::QP_FATAL,
        EventKind::QP_REQ_ERR,
        EventKind::QP_ACCESS_ERR,
        EventKind::COMM_EST,
        EventKind::SQ_DRAINED,
        EventKind::PATH_MIG,
        EventKind::PATH_MIG_ERR,
        EventKind::QP_LAST_WQE_REACHED,
    ]
    .contains(&kind)
}

/// Returns the text of a C array of fixed size, up to its NUL or its end.
fn text(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field.iter().map(|c| *c as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
