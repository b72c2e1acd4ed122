//! The native link between tester and device: packets pass the device's link layer, and responses leave as packets.

use core::time::Duration;
use std::collections::VecDeque;

use verbatim_device::link::{Arrival, Delimiter, LinkChoices, LinkDefect, LinkPort, Outcome, relayed};
use verbatim_device::{Device, Transmit};
use verbatim_wire::{
    Bth, Deth, Grh, Layout, Lid, Lnh, Lrh, MAD_LENGTH, Mad, MadHeaders, MgmtClass, QKey, Qpn, mad_packet,
};

/// The most requests without a response that the link remembers. If there are more, it drops the oldest.
const MAX_ASKED: usize = 256;

/// A request that the device received in a native packet.
#[derive(Clone, Debug)]
struct Asked {
    port: u8,
    class: MgmtClass,
    transaction: u64,
    headers: MadHeaders,
    /// Whether the tester's port made the packet from a MAD and expects a MAD as the response.
    as_mad: bool,
}

/// The form in which a MAD of the device leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Leaves {
    /// A MAD.
    Mad,
    /// A native packet.
    Packet(Vec<u8>),
    /// Nothing: the response to a LID-routed request goes to a LID other than the requester's.
    Elsewhere,
}

/// What became of a packet at a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Received {
    /// An agent handled the packet, or the port discarded it.
    Nothing,
    /// The device forwards these bytes with this delimiter.
    Forwarded(Vec<u8>, Delimiter),
    /// The port accepted the packet for a queue pair of the adapter.
    ForAdapter,
}

/// The link layer of the device's ports. Without defects, the link layer conforms.
#[derive(Debug, Default)]
pub struct NativeLink {
    pub(crate) defects: Vec<LinkDefect>,
    pub(crate) choices: LinkChoices,
    asked: VecDeque<Asked>,
}

impl NativeLink {
    /// Delivers a packet to a port of the device. The device handles an accepted packet, and its link layer counts
    /// errors. With `as_mad`, the response leaves as a MAD.
    pub fn receive(
        &mut self,
        (device, now): (&mut Device, Duration),
        port: u8,
        arrival: &Arrival<'_>,
        as_mad: bool,
    ) -> Received {
        let before = device.link_profile(port, self.choices).zip(device.link_counters(port));
        let Some((profile, counters)) = before else {
            return Received::Nothing;
        };
        let mut link = LinkPort::new(profile, &self.defects);
        link.set_counters(counters);
        let outcome = link.receive(arrival);
        device.set_link_counters(port, link.counters());
        if let Outcome::Accepted(up) = &outcome {
            let up = arrival.bytes.get(up.clone()).unwrap_or_default();
            if let Some((mad, headers)) = handed_up(arrival.bytes, up) {
                self.asked.truncate(MAX_ASKED - 1);
                self.asked.push_front(Asked {
                    port,
                    class: mad.class(),
                    transaction: mad.transaction_id(),
                    headers,
                    as_mad,
                });
                device.handle_from(now, port, headers.lrh.dlid(), mad.bytes());
                return Received::Nothing;
            }
            return Received::ForAdapter;
        }
        relayed(arrival, &outcome).map_or(Received::Nothing, |(bytes, delimiter)| {
            Received::Forwarded(bytes, delimiter)
        })
    }

    /// Returns the form in which a MAD of the device leaves. A response leaves in the form of its request; a trap
    /// leaves as a MAD.
    pub fn leaves(&mut self, transmit: &Transmit) -> Leaves {
        let mad = Mad::from(transmit.bytes);
        let is_it = |asked: &Asked| {
            (asked.port, asked.class, asked.transaction) == (transmit.port, mad.class(), mad.transaction_id())
        };
        let asked = self.asked.iter().position(is_it).filter(|_| mad.method().is_response());
        match asked.and_then(|place| self.asked.remove(place)) {
            // A response that does not go to the requester's LID.
            Some(asked) if !mad.is_directed() && transmit.dlid != asked.headers.lrh.dlid() => Leaves::Elsewhere,
            None | Some(Asked { as_mad: true, .. }) => Leaves::Mad,
            Some(asked) => {
                let unicast = (1..0xC000).contains(&asked.headers.lrh.slid().0);
                let slid = if unicast {
                    asked.headers.lrh.slid()
                } else {
                    transmit.slid
                };
                let lrh = asked.headers.lrh.with_slid(slid);
                Leaves::Packet(mad_packet(&MadHeaders { lrh, ..asked.headers }, &mad))
            }
        }
    }
}

/// Returns the MAD of an accepted packet, and the headers of its response, whose addresses are swapped. Returns `None`
/// if no agent accepts the packet. QP0 accepts SMPs, and QP1 accepts other classes with its Q_Key.
fn handed_up(bytes: &[u8], up: &[u8]) -> Option<(Mad, MadHeaders)> {
    let lrh = Lrh::from_bytes(bytes.get(..Lrh::SIZE)?);
    let (grh, rest) = match lrh.lnh() {
        Lnh::IBA_LOCAL => (None, up),
        Lnh::IBA_GLOBAL => (Some(Grh::from_bytes(up.get(..Grh::SIZE)?)), up.get(Grh::SIZE..)?),
        _ => return None,
    };
    let bth = Bth::from_bytes(rest.get(..Bth::SIZE)?);
    let deth = Deth::from_bytes(rest.get(Bth::SIZE..Bth::SIZE + Deth::SIZE)?);
    let start = Bth::SIZE + Deth::SIZE;
    let mad = Mad::try_from(rest.get(start..start + MAD_LENGTH)?).ok()?;
    let is_smp = matches!(mad.class(), MgmtClass::SUBN_LID | MgmtClass::SUBN_DIRECTED);
    let taken = match bth.dest_qp() {
        Qpn::SMI => is_smp,
        Qpn::GSI => !is_smp && deth.q_key() == QKey::GSI,
        _ => false,
    };
    let headers = MadHeaders {
        lrh: lrh.with_slid(lrh.dlid()).with_dlid(lrh.slid()),
        grh: grh.map(|grh| grh.with_src(grh.dst()).with_dst(grh.src())),
        bth: bth.with_dest_qp(deth.src_qp()),
        deth: deth.with_src_qp(bth.dest_qp()),
    };
    taken.then_some((mad, headers))
}

/// Builds the packet of a LID-routed SMP.
#[must_use]
pub fn packet_of(slid: Lid, dlid: Lid, mad: &Mad) -> Vec<u8> {
    mad_packet(&MadHeaders::subnet_management(slid, dlid), mad)
}
