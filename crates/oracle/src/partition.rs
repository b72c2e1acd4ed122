//! The partition of a connection, derived from its packets.
//!
//! Source: architecture 9.6.1 (P_Key of packets), 10.9.1.2 (partitions and membership).

use verbatim_wire::PKey;
use verbatim_wire::packet::Packet;

use super::parsed::Parsed;
use super::rule::{Excuse, Outcome};

/// P_Keys that one end has sent.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    /// The end's P_Key, and the number of the last packet with it.
    own: Option<(PKey, u64)>,
    /// A different P_Key in the end's last packet, and the number of that packet.
    odd: Option<(PKey, u64)>,
    /// Number of a packet with a different P_Key, if the next packet had the end's own P_Key again.
    alone: Option<u64>,
}

/// P_Keys of both ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Partition([Sent; 2]);

fn number_of(key: PKey) -> u16 {
    key.0 & 0x7FFF
}

impl Partition {
    /// Returns whether the peer drops a packet because earlier packets of the sending end belonged to another
    /// partition. The second packet in a row with the new P_Key is accepted: the partition has changed.
    pub(super) fn is_stranger(&self, by: usize, parsed: &Parsed<'_>) -> bool {
        let (seen, sent) = (parsed.bth.p_key(), self.0[by]);
        let is_another = sent.own.is_some_and(|(own, _)| number_of(own) != number_of(seen));
        is_another && sent.odd.is_none_or(|(odd, _)| odd != seen)
    }

    /// Returns whether no packet of an end was seen.
    pub(super) fn is_first(&self, by: usize) -> bool {
        self.0[by].own.is_none()
    }

    /// Checks that all packets of one end have the same P_Key, and that both ends use the same partition.
    pub(super) fn held(&self, by: usize, parsed: &Parsed<'_>) -> Outcome {
        let (seen, sent) = (parsed.bth.p_key(), self.0[by]);
        match (sent.own, self.0[1 - by].own) {
            // The previous packet with this P_Key already broke the rule.
            (Some(_), _) if sent.odd.is_some_and(|(odd, _)| odd == seen) => Outcome::Holds,
            (Some((own, number)), _) => {
                Outcome::must(own == seen, || (format!("P_Key {own}"), format!("P_Key {seen}")))
                    .with(number)
                    .unless(Excuse::PartitionChanged)
            }
            (None, Some((other, number))) => Outcome::must(number_of(other) == number_of(seen), || {
                (format!("a P_Key of the partition of {other}"), format!("P_Key {seen}"))
            })
            .with(number),
            (None, None) => Outcome::NotAsked,
        }
    }

    /// Takes a packet of an end. If this packet and the previous packet have the end's own P_Key, and the packet
    /// before them has a different P_Key, returns the number of the packet with the different P_Key. A change of the
    /// partition does not explain a different P_Key in a single packet.
    pub(super) fn take(&mut self, by: usize, parsed: &Parsed<'_>) -> Option<u64> {
        let (seen, sent) = (parsed.bth.p_key(), &mut self.0[by]);
        let is_own = sent.own.is_some_and(|(own, _)| own == seen);
        let is_believed = sent.own.is_none() || sent.odd.is_some_and(|(odd, _)| odd == seen);
        let alone = sent.alone.take().filter(|_| is_own);
        if is_own {
            sent.alone = sent.odd.map(|(_, number)| number);
        }
        if is_own || is_believed {
            (sent.own, sent.odd) = (Some((seen, parsed.number)), None);
        } else {
            sent.odd = Some((seen, parsed.number));
        }
        alone
    }

    /// Removes the P_Keys of end 1, whose packets belong to another connection.
    pub(super) fn unpair(&mut self) {
        self.0[1] = Sent::default();
    }

    /// Sets the P_Keys of end 1 from end 0 of `other`.
    pub(super) fn join(&mut self, other: &Self) {
        self.0[1] = other.0[0];
    }
}

/// Returns whether a packet comes from the peer of the device's packet `of_dut`, and belongs to the same partition. The
/// device silently drops any other packet.
pub(super) fn reaches(packet: &Packet<'_>, of_dut: &Packet<'_>) -> bool {
    let from_peer = match (packet.ipv4(), of_dut.ipv4()) {
        (Some(packet), Some(of_dut)) => packet.src() == of_dut.dst() && packet.dst() == of_dut.src(),
        _ => packet.ipv6().map(|ip| (ip.src(), ip.dst())) == of_dut.ipv6().map(|ip| (ip.dst(), ip.src())),
    };
    let (key, own) = (packet.bth().p_key().0, of_dut.bth().p_key().0);
    from_peer && key & 0x7FFF == own & 0x7FFF && (key | own) & 0x8000 != 0
}
