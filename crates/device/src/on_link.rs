//! The port as seen by the link layer: a link profile from PortInfo and the P_KeyTable, and the error counters.

use verbatim_wire::verbs::Gid;
use verbatim_wire::{Lrh, Medium, PKey, Packet, PortCounters, PortRcvErrorDetails, PortState, edit, mend_vcrc};

use crate::defect::Defect;
use crate::device::Device;
use crate::link::{Counters, LinkChoices, LinkProfile, PortKind};
use crate::port::Port;
use crate::rc::NativePort;

impl Device {
    /// Returns the current link profile of the port for a [`LinkPort`](crate::link::LinkPort), or `None` if the port
    /// does not exist.
    #[must_use]
    pub fn link_profile(&self, port: u8, choices: LinkChoices) -> Option<LinkProfile> {
        let port = self.at(port)?;
        let info = &port.info;
        Some(LinkProfile {
            kind: PortKind::ChannelAdapter,
            is_destination: true,
            lid: info.lid(),
            lmc: info.lmc(),
            mtu_cap: info.mtu_cap(),
            data_vls: info.operational_vls().data_vls().unwrap_or(1),
            state: info.port_state(),
            p_keys: port.p_keys.iter().map(|&key| PKey(key)).collect(),
            filters_raw: false,
            enforces_partitions: false,
            choices,
        })
    }

    /// Returns the link-layer counters of the port, from PortCounters, PortRcvErrorDetails and
    /// PortInfo:P_KeyViolations, or `None` if the port does not exist.
    #[must_use]
    pub fn link_counters(&self, port: u8) -> Option<Counters> {
        let port = self.at(port)?;
        let (counters, details) = (&port.counters, &port.details);
        Some(Counters {
            port_rcv_errors: counters.port_rcv_errors(),
            port_rcv_remote_physical_errors: counters.port_rcv_remote_physical_errors(),
            port_rcv_switch_relay_errors: counters.port_rcv_switch_relay_errors(),
            port_rcv_constraint_errors: counters.port_rcv_constraint_errors(),
            p_key_violations: port.info.p_key_violations(),
            port_local_physical_errors: details.port_local_physical_errors(),
            port_malformed_pkt_errors: details.port_malformed_pkt_errors(),
            port_dlid_mapping_errors: details.port_dlid_mapping_errors(),
        })
    }

    /// Writes the link layer's counters into the attributes of the port. Does nothing if the port does not exist.
    pub fn set_link_counters(&mut self, port: u8, counted: &Counters) {
        let index = usize::from(port).wrapping_sub(1);
        let Some(port) = self.ports.get_mut(index) else { return };
        port.counters = with_counters(port.counters, counted);
        port.details = with_details(port.details, counted);
        port.info = port.info.with_p_key_violations(counted.p_key_violations);
    }

    /// Returns the attributes of the port for an [`Adapter`](crate::rc::Adapter), or `None` if the port does not exist.
    #[must_use]
    pub fn native_port(&self, port: u8) -> Option<NativePort> {
        let port = self.at(port)?;
        let info = &port.info;
        let mut gid = [0; 16];
        gid[..8].copy_from_slice(&info.gid_prefix().0.to_be_bytes());
        gid[8..].copy_from_slice(&port.guid().0.to_be_bytes());
        Some(NativePort {
            lid: info.lid(),
            lmc: info.lmc(),
            state: info.port_state(),
            mtu: info.neighbor_mtu(),
            gid: Gid(gid),
            p_keys: port.p_keys.iter().map(|&key| PKey(key)).collect(),
        })
    }

    /// Passes a data packet of the port's adapter to the link: writes its VL and the VCRC. Returns whether the packet
    /// leaves. The port discards it in each of these cases:
    ///
    /// - The port is not Active (architecture 7.2), or the packet exceeds NeighborMTU: PortXmitDiscards counts these.
    /// - The SL maps to VL15 or to a VL that is not operational (architecture 7.6.6).
    /// - The P_Key is not valid (architecture 10.9).
    pub fn send_data(&mut self, port: u8, bytes: &mut [u8]) -> bool {
        let Some(port) = self.ports.get_mut(usize::from(port).wrapping_sub(1)) else {
            return false;
        };
        let Ok(packet) = Packet::parse(Medium::InfiniBand, bytes) else {
            return false;
        };
        let longest = port.info.neighbor_mtu().bytes().unwrap_or(256) as usize;
        if port.info.port_state() != PortState::ACTIVE || packet.padded_payload().len() > longest {
            let discarded = port.counters.port_xmit_discards().saturating_add(1);
            port.counters = port.counters.with_port_xmit_discards(discarded);
            return false;
        }
        let sl = packet.lrh().map_or(0, |lrh| lrh.sl());
        let mut vl = port.sl_to_vl[usize::from(sl & 15)];
        if vl == 15 && self.faults.has(Defect::SlToVl15Sent) {
            vl = 0;
        }
        if vl >= port.operational() || packet.bth().p_key().0 & 0x7FFF == 0 {
            return false;
        }
        edit::<Lrh>(bytes, 0, |lrh| lrh.with_vl(vl));
        mend_vcrc(Medium::InfiniBand, bytes).is_ok()
    }

    fn at(&self, port: u8) -> Option<&Port> {
        self.ports.get(usize::from(port).wrapping_sub(1))
    }
}

fn with_counters(counters: PortCounters, counted: &Counters) -> PortCounters {
    counters
        .with_port_rcv_errors(counted.port_rcv_errors)
        .with_port_rcv_remote_physical_errors(counted.port_rcv_remote_physical_errors)
        .with_port_rcv_switch_relay_errors(counted.port_rcv_switch_relay_errors)
        .with_port_rcv_constraint_errors(counted.port_rcv_constraint_errors)
}

fn with_details(details: PortRcvErrorDetails, counted: &Counters) -> PortRcvErrorDetails {
    details
        .with_port_local_physical_errors(counted.port_local_physical_errors)
        .with_port_malformed_pkt_errors(counted.port_malformed_pkt_errors)
        .with_port_dlid_mapping_errors(counted.port_dlid_mapping_errors)
}
