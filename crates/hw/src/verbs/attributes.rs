//! What a device, a port, a GID table and an event look like to the caller.

use std::{ffi::c_char, net::Ipv6Addr};

use super::{
    completion::CqId,
    generated as c,
    types::{AtomicCapability, EventKind, GidType, LinkLayer, Mtu, PortState},
};

/// What a device is and how much it takes (`struct ibv_device_attr`; names are those of the header).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceAttributes {
    /// Firmware version, as the driver prints it; empty for rxe.
    pub fw_ver: String,
    /// Node GUID.
    pub node_guid: u64,
    /// System image GUID.
    pub sys_image_guid: u64,
    /// Largest memory region, in bytes.
    pub max_mr_size: u64,
    /// IEEE OUI of the vendor.
    pub vendor_id: u32,
    /// Vendor's part number.
    pub vendor_part_id: u32,
    /// Vendor's hardware revision.
    pub hw_ver: u32,
    /// Queue pairs.
    pub max_qp: i32,
    /// Work requests of one queue.
    pub max_qp_wr: i32,
    /// Capability bits (`IBV_DEVICE_*`).
    pub device_cap_flags: u32,
    /// Segments of one work request.
    pub max_sge: i32,
    /// Completion queues.
    pub max_cq: i32,
    /// Entries of a completion queue.
    pub max_cqe: i32,
    /// Memory regions.
    pub max_mr: i32,
    /// Protection domains.
    pub max_pd: i32,
    /// Reads and atomics that a queue pair serves at a time as responder.
    pub max_qp_rd_atom: i32,
    /// The same for the whole device.
    pub max_res_rd_atom: i32,
    /// Reads and atomics that a queue pair has on their way at a time as requester.
    pub max_qp_init_rd_atom: i32,
    /// Against whom atomics are atomic.
    pub atomic_cap: AtomicCapability,
    /// Address handles.
    pub max_ah: i32,
    /// Entries of a partition table.
    pub max_pkeys: u16,
    /// Local CA ACK delay, as a code: 4.096 µs · 2^code.
    pub local_ca_ack_delay: u8,
    /// Ports.
    pub phys_port_cnt: u8,
}

impl From<&c::ibv_device_attr> for DeviceAttributes {
    fn from(seen: &c::ibv_device_attr) -> Self {
        Self {
            fw_ver: text(&seen.fw_ver),
            node_guid: u64::from_be(seen.node_guid),
            sys_image_guid: u64::from_be(seen.sys_image_guid),
            max_mr_size: seen.max_mr_size,
            vendor_id: seen.vendor_id,
            vendor_part_id: seen.vendor_part_id,
            hw_ver: seen.hw_ver,
            max_qp: seen.max_qp,
            max_qp_wr: seen.max_qp_wr,
            device_cap_flags: seen.device_cap_flags,
            max_sge: seen.max_sge,
            max_cq: seen.max_cq,
            max_cqe: seen.max_cqe,
            max_mr: seen.max_mr,
            max_pd: seen.max_pd,
            max_qp_rd_atom: seen.max_qp_rd_atom,
            max_res_rd_atom: seen.max_res_rd_atom,
            max_qp_init_rd_atom: seen.max_qp_init_rd_atom,
            atomic_cap: AtomicCapability(seen.atomic_cap.0),
            max_ah: seen.max_ah,
            max_pkeys: seen.max_pkeys,
            local_ca_ack_delay: seen.local_ca_ack_delay,
            phys_port_cnt: seen.phys_port_cnt,
        }
    }
}

/// State and limits of a port (`struct ibv_port_attr`; names are those of the header).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortAttributes {
    /// PortState.
    pub state: PortState,
    /// Largest MTU that the port can.
    pub max_mtu: Mtu,
    /// MTU in use.
    pub active_mtu: Mtu,
    /// Entries of the GID table, empty ones included.
    pub gid_tbl_len: i32,
    /// Capability mask.
    pub port_cap_flags: u32,
    /// Largest message, in bytes.
    pub max_msg_sz: u32,
    /// P_Key violations counted.
    pub bad_pkey_cntr: u32,
    /// Q_Key violations counted.
    pub qkey_viol_cntr: u32,
    /// Entries of the partition table.
    pub pkey_tbl_len: u16,
    /// Base LID, 0 on Ethernet.
    pub lid: u16,
    /// LID of the master subnet manager.
    pub sm_lid: u16,
    /// LID mask control.
    pub lmc: u8,
    /// Virtual lanes, as the code of VLCap.
    pub max_vl_num: u8,
    /// Service level towards the subnet manager.
    pub sm_sl: u8,
    /// Subnet time-out, as a code: 4.096 µs · 2^code.
    pub subnet_timeout: u8,
    /// LinkWidthActive, as its code.
    pub active_width: u8,
    /// LinkSpeedActive, as its code.
    pub active_speed: u8,
    /// PortPhysicalState: 2 Polling, 3 Disabled, 5 LinkUp.
    pub phys_state: u8,
    /// What is below the port.
    pub link_layer: LinkLayer,
}

impl From<&c::ibv_port_attr> for PortAttributes {
    fn from(seen: &c::ibv_port_attr) -> Self {
        Self {
            state: PortState(seen.state.0),
            max_mtu: Mtu(seen.max_mtu.0),
            active_mtu: Mtu(seen.active_mtu.0),
            gid_tbl_len: seen.gid_tbl_len,
            port_cap_flags: seen.port_cap_flags,
            max_msg_sz: seen.max_msg_sz,
            bad_pkey_cntr: seen.bad_pkey_cntr,
            qkey_viol_cntr: seen.qkey_viol_cntr,
            pkey_tbl_len: seen.pkey_tbl_len,
            lid: seen.lid,
            sm_lid: seen.sm_lid,
            lmc: seen.lmc,
            max_vl_num: seen.max_vl_num,
            sm_sl: seen.sm_sl,
            subnet_timeout: seen.subnet_timeout,
            active_width: seen.active_width,
            active_speed: seen.active_speed,
            phys_state: seen.phys_state,
            link_layer: LinkLayer(seen.link_layer.into()),
        }
    }
}

/// One GID of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidEntry {
    /// Index into the port's table: what `sgid_index` of an address means.
    pub index: u32,
    /// The GID, most significant byte first; an IPv4 address stands mapped into IPv6.
    pub gid: [u8; 16],
    /// What it is a GID of.
    pub kind: GidType,
    /// Index of the network interface that it belongs to; 0 for InfiniBand.
    pub ndev_ifindex: u32,
}

impl GidEntry {
    /// The GID as an address, for printing and for telling IPv4 from IPv6.
    #[must_use]
    pub fn address(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.gid)
    }
}

impl From<&c::ibv_gid_entry> for GidEntry {
    fn from(seen: &c::ibv_gid_entry) -> Self {
        Self {
            index: seen.gid_index,
            // SAFETY: both members of the union are sixteen plain bytes.
            gid: unsafe { seen.gid.raw },
            kind: GidType::from(seen.gid_type),
            ndev_ifindex: seen.ndev_ifindex,
        }
    }
}

/// Something that happened to a device or to one of its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncEvent {
    /// What happened.
    pub kind: EventKind,
    /// To what.
    pub subject: EventSubject,
}

/// What an [`AsyncEvent`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventSubject {
    /// The device as a whole, or an object of a kind that is not offered here.
    Device,
    /// The port of this number.
    Port(u8),
    /// The queue pair of this number.
    QueuePair(u32),
    /// The completion queue of this id.
    CompletionQueue(CqId),
}

/// The text of a fixed C field, up to its NUL or its end.
fn text(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field.iter().map(|c| *c as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
