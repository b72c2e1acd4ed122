//! The partition of a connection, as its packets tell it.
//!
//! Source: architecture 9.6.1 (P_Key of packets), 10.9.1.2 (partitions and membership).

use verbatim_wire::PKey;
use verbatim_wire::packet::Packet;

use super::parsed::Parsed;
use super::rule::{Excuse, Outcome};

/// The P_Keys that one end has sent.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    /// That of its packets, and the last one that had it.
    own: Option<(PKey, u64)>,
    /// Another one, which its last packet had, and that packet.
    odd: Option<(PKey, u64)>,
    /// A packet that had another one, before the last one had its own again.
    alone: Option<u64>,
}

/// The P_Keys of both ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Partition([Sent; 2]);

fn number_of(key: PKey) -> u16 {
    key.0 & 0x7FFF
}

impl Partition {
    /// Whether a packet is of a partition that its end's packets before were not of, so that nobody takes it. What two in a row are
    /// of is believed: the partition was changed.
    pub(super) fn is_stranger(&self, by: usize, parsed: &Parsed<'_>) -> bool {
        let (seen, sent) = (parsed.bth.p_key(), self.0[by]);
        let is_another = sent.own.is_some_and(|(own, _)| number_of(own) != number_of(seen));
        is_another && sent.odd.is_none_or(|(odd, _)| odd != seen)
    }

    /// Whether nothing was seen of an end.
    pub(super) fn is_first(&self, by: usize) -> bool {
        self.0[by].own.is_none()
    }

    /// Packets that one end has sent have the same P_Key, and the other's is of the same partition.
    pub(super) fn held(&self, by: usize, parsed: &Parsed<'_>) -> Outcome {
        let (seen, sent) = (parsed.bth.p_key(), self.0[by]);
        match (sent.own, self.0[1 - by].own) {
            // It was said of the one before.
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

    /// That end has sent this. A packet before it that no change of the partition explains: the two behind that one have the P_Key of
    /// before.
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

    /// What end 1 sent was another's.
    pub(super) fn unpair(&mut self) {
        self.0[1] = Sent::default();
    }

    /// What the other's end 0 sent, end 1 has.
    pub(super) fn join(&mut self, other: &Self) {
        self.0[1] = other.0[0];
    }
}

/// Whether a packet comes from where the device's packets go, and is of their partition. The device drops any other
/// packet in silence.
pub(super) fn reaches(packet: &Packet<'_>, of_dut: &Packet<'_>) -> bool {
    let from_peer = match (packet.ipv4(), of_dut.ipv4()) {
        (Some(packet), Some(of_dut)) => packet.src() == of_dut.dst() && packet.dst() == of_dut.src(),
        _ => packet.ipv6().map(|ip| (ip.src(), ip.dst())) == of_dut.ipv6().map(|ip| (ip.dst(), ip.src())),
    };
    let (key, own) = (packet.bth().p_key().0, of_dut.bth().p_key().0);
    from_peer && key & 0x7FFF == own & 0x7FFF && (key | own) & 0x8000 != 0
}
