//! Forwarding of packets through the switch (architecture 14.2.2 for directed routes, 18.2.4 for LIDs).

use verbatim_wire::{DrSmp, Layout, Lid, Lrh, MAD_LENGTH, Mad, MadHeaders, mad_packet};

use crate::agent::Agent;

/// Number of ports besides port 0, which is the switch itself.
pub(crate) const PORTS: u8 = 3;
/// Offset of the MAD in a packet without GRH: after LRH, BTH and DETH.
const MAD_AT: usize = 28;
/// The VL of subnet management.
const MANAGEMENT: u8 = 15;

/// The switch. Its agent has the forwarding table.
pub(crate) struct Switch {
    agent: Agent,
}

impl Switch {
    pub(crate) fn new() -> Self {
        Self { agent: Agent::new() }
    }

    /// Handles a packet that arrived at port `from`. Returns the packet that leaves, after the number of its port.
    pub(crate) fn take(&mut self, from: u8, packet: &[u8]) -> Option<(u8, Vec<u8>)> {
        let lrh = Lrh::from_bytes(packet.get(..Lrh::SIZE)?);
        let mad = packet.get(MAD_AT..MAD_AT + MAD_LENGTH);
        let mad = mad.and_then(|mad| Mad::try_from(mad).ok());
        let for_us = lrh.dlid() == Lid::PERMISSIVE || (lrh.dlid() == self.agent.lid() && lrh.dlid() != Lid(0));
        if lrh.vl() != MANAGEMENT || !for_us {
            let out = self.agent.forward(lrh.dlid()).filter(|out| *out != from)?;
            return Some((out, packet.to_vec()));
        }
        let mad = mad?;
        if mad.is_directed() {
            let (out, mad) = self.directed(from, &mad)?;
            let headers = MadHeaders::subnet_management(Lid::PERMISSIVE, Lid::PERMISSIVE);
            return Some((out, mad_packet(&headers, &mad)));
        }
        let answer = self.agent.answer(&mad, from)?;
        let headers = MadHeaders::subnet_management(self.agent.lid(), lrh.slid());
        Some((from, mad_packet(&headers, &answer)))
    }

    /// Performs the next step of a directed route. The switch forwards the MAD, returns it, or responds at the end of
    /// the route.
    fn directed(&mut self, from: u8, mad: &Mad) -> Option<(u8, Mad)> {
        let smp = DrSmp::from_bytes(mad.bytes());
        let (hop, hops) = (smp.hop_pointer(), smp.hop_count());
        let (out, smp) = if smp.direction() {
            let hop = hop.checked_sub(1).filter(|hop| (1..hops).contains(hop))?;
            (smp.return_path(hop.into()), smp.with_hop_pointer(hop))
        } else {
            if !(1..=hops.min(63)).contains(&hop) {
                return None;
            }
            let smp = smp.with_return_path(hop.into(), from);
            if hop == hops {
                let request = Mad::try_from(smp.bytes()).ok()?;
                let answer = self.agent.answer(&request, from)?;
                // Set D. The agent would increment the hop pointer, and the outgoing response would decrement it, so
                // the pointer stays the same.
                (from, DrSmp::from_bytes(answer.bytes()).with_direction(true))
            } else {
                (smp.initial_path(usize::from(hop) + 1), smp.with_hop_pointer(hop + 1))
            }
        };
        let is_port = (1..=PORTS).contains(&out);
        Some((out, Mad::try_from(smp.bytes()).ok()?)).filter(|_| is_port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbatim_wire::{Attribute, AttributeId, Method, NodeInfo, Status};

    /// Returns an SMP from a neighbour, with the hop pointer at the first hop.
    fn asked(path: &[u8]) -> Vec<u8> {
        let mad = Mad::directed(Method::GET, NodeInfo::ID, 0, path);
        let smp = DrSmp::from_bytes(mad.bytes()).with_hop_pointer(1);
        let headers = MadHeaders::subnet_management(Lid::PERMISSIVE, Lid::PERMISSIVE);
        mad_packet(&headers, &Mad::try_from(smp.bytes()).unwrap())
    }

    fn smp(packet: &[u8]) -> DrSmp {
        DrSmp::from_bytes(&packet[MAD_AT..MAD_AT + MAD_LENGTH])
    }

    #[test]
    fn directed_route_crosses_and_returns() {
        let mut switch = Switch::new();
        let (out, packet) = switch.take(1, &asked(&[7, 2])).unwrap();
        assert_eq!(
            (out, smp(&packet).hop_pointer(), smp(&packet).return_path(1)),
            (2, 2, 1)
        );
        // The response of an adapter has D set, and the hop pointer at the last hop.
        let answer = smp(&packet).with_direction(true).with_method(Method::GET_RESP);
        let headers = MadHeaders::subnet_management(Lid::PERMISSIVE, Lid::PERMISSIVE);
        let answer = mad_packet(&headers, &Mad::try_from(answer.bytes()).unwrap());
        let (out, packet) = switch.take(2, &answer).unwrap();
        assert_eq!((out, smp(&packet).hop_pointer()), (1, 1));
        assert!(switch.take(1, &asked(&[7, 9])).is_none(), "there is no port 9");
    }

    #[test]
    fn answers_route_that_ends_here() {
        let (out, packet) = Switch::new().take(3, &asked(&[1])).unwrap();
        let mad = Mad::try_from(&packet[MAD_AT..MAD_AT + MAD_LENGTH]).unwrap();
        assert_eq!((out, mad.status(), smp(&packet).direction()), (3, Status::OK, true));
        let info: NodeInfo = mad.attribute();
        assert_eq!((info.local_port_num(), info.num_ports()), (3, PORTS));
    }

    #[test]
    fn lid_follows_forwarding_table() {
        let mut switch = Switch::new();
        let packet = mad_packet(
            &MadHeaders::general(Lid(1), Lid(5)),
            &Mad::performance(Method::GET, NodeInfo::ID, 0),
        );
        assert!(switch.take(1, &packet).is_none(), "no entry");
        let mut block = [255; 64];
        block[5] = 2;
        let set = Mad::lid_routed(Method::SET, AttributeId::LINEAR_FORWARDING, 0).with_data(&block);
        switch.agent.answer(&set, 1).unwrap();
        assert_eq!(switch.take(1, &packet), Some((2, packet.clone())));
        assert!(switch.take(2, &packet).is_none(), "not back where it came from");
    }
}
