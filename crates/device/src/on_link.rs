//! The port as seen by the link layer: a link profile from PortInfo and the P_KeyTable, and the error counters.

use verbatim_wire::{PKey, PortCounters, PortRcvErrorDetails};

use crate::device::Device;
use crate::link::{Counters, LinkChoices, LinkProfile, PortKind};
use crate::port::Port;

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
