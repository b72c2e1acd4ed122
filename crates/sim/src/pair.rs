//! The tester's end of an InfiniBand pair: a port of its own, with agents and a link layer.

use core::time::Duration;

use verbatim_device::link::Arrival;
use verbatim_device::rc::Adapter;
use verbatim_device::{Device, Profile};
use verbatim_wire::{Guid, Lid, Mad, Mtu, PortState, VlCap};

use crate::link::smi_return;
use crate::native::{NativeLink, Received};

/// The LID of the tester's port. The LIDs of all models are smaller.
pub(crate) const TESTER_LID: Lid = Lid(0xBFF0);
/// The GUID of the tester's node.
const TESTER_NODE: Guid = Guid(0x0002_C903_00FE_0000);

/// The tester's port on InfiniBand. Its agents answer SMPs without a hop.
#[derive(Debug)]
pub(crate) struct InfiniBand {
    pub(crate) device: Device,
    link: NativeLink,
}

impl InfiniBand {
    /// Returns a port at the other end of a device's cable. If a subnet manager has configured the device, it has also
    /// configured this port.
    pub(crate) fn facing(other: &Profile) -> Self {
        let is_managed = other.lid != Lid(0);
        let profile = Profile {
            node_guid: TESTER_NODE,
            num_ports: 1,
            gid_prefix: other.gid_prefix,
            lid: if is_managed { TESTER_LID } else { Lid(0) },
            lmc: 0,
            port_state: other.port_state,
            mtu_cap: Mtu::B4096,
            neighbor_mtu: Mtu::B4096,
            vl_cap: VlCap::VL0_14,
            operational_vls: VlCap::VL0_14,
            ..Profile::full()
        };
        Self {
            device: Device::new(profile, &[]),
            link: NativeLink::default(),
        }
    }

    /// Takes the responses of the port's agents.
    pub(crate) fn answers(&mut self) -> Vec<Mad> {
        let device = &mut self.device;
        let sent = core::iter::from_fn(|| device.poll_transmit());
        let mads = sent.map(|transmit| Mad::from(transmit.bytes));
        mads.filter(|mad| mad.method().is_response())
            .map(|mad| smi_return(&mad))
            .collect()
    }

    /// Passes changes of the two ports on: a link that went down takes both ports to Initialize, and each adapter
    /// follows its port. The device's adapter is the first.
    pub(crate) fn settle(&mut self, device: &mut Device, adapters: &mut [Adapter; 2]) {
        let is_up = |state| matches!(state, PortState::ARMED | PortState::ACTIVE);
        let fell = |adapter: &Adapter, device: &Device| {
            let before = adapter.profile().infiniband.as_ref();
            let now = device.native_port(1);
            before.is_some_and(|port| is_up(port.state)) && now.is_some_and(|port| !is_up(port.state))
        };
        let [of_device, own] = [fell(&adapters[0], device), fell(&adapters[1], &self.device)];
        if of_device {
            self.device.link_up(1);
        }
        if own {
            device.link_up(1);
        }
        for (adapter, port) in adapters
            .iter_mut()
            .zip([device.native_port(1), self.device.native_port(1)])
        {
            if let Some(port) = port {
                adapter.set_port(&port);
            }
        }
    }

    /// Passes a packet through the link layer of the port. Returns whether the packet is for the adapter.
    pub(crate) fn accepts(&mut self, now: Duration, bytes: &[u8]) -> bool {
        let arrival = Arrival::good(bytes);
        let received = self.link.receive((&mut self.device, now), 1, &arrival, false);
        received == Received::ForAdapter
    }
}
