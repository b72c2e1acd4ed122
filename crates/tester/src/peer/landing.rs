//! WRITEs and atomics. The DUT may acknowledge them before its host can see their effect in memory.

use std::collections::BTreeMap;

use verbatim_wire::packet::{Opcode, Packet, Psn, Qpn, SyndromeKind};

/// A packet of a WRITE or an atomic that was sent.
#[derive(Debug)]
struct Sent {
    psn: Psn,
    address: u64,
    /// Payload; `None` for an atomic, whose result only the device knows.
    bytes: Option<Vec<u8>>,
    acknowledged: bool,
}

/// Packets of WRITEs and atomics sent since the last [`Landing::looked_at`].
#[derive(Debug, Default)]
pub(super) struct Landing {
    sent: Vec<Sent>,
    /// Address of the next payload of a WRITE, by the DUT's queue pair.
    next: BTreeMap<Qpn, u64>,
}

impl Landing {
    /// Adds a packet that the tester sent.
    pub(super) fn sent(&mut self, packet: &Packet<'_>) {
        let (qp, psn, payload) = (packet.bth().dest_qp(), packet.bth().psn(), packet.payload());
        if let Some(atomic) = packet.atomic() {
            self.put(psn, atomic.va().0, None);
            return;
        }
        let goes_on = [
            Opcode::RC_WRITE_MIDDLE,
            Opcode::RC_WRITE_LAST,
            Opcode::RC_WRITE_LAST_IMM,
        ];
        let address = match packet.reth() {
            Some(reth) if packet.opcode() != Opcode::RC_READ_REQUEST => reth.va().0,
            None if goes_on.contains(&packet.opcode()) => self.next.get(&qp).copied().unwrap_or(0),
            _ => return,
        };
        self.put(psn, address, Some(payload.to_vec()));
        self.next.insert(qp, address.wrapping_add(payload.len() as u64));
    }

    fn put(&mut self, psn: Psn, address: u64, bytes: Option<Vec<u8>>) {
        self.sent.push(Sent {
            psn,
            address,
            bytes,
            acknowledged: false,
        });
    }

    /// Marks the packets that a packet of the DUT acknowledges.
    pub(super) fn received(&mut self, packet: &Packet<'_>) {
        let is_ack = packet
            .aeth()
            .is_some_and(|aeth| matches!(aeth.syndrome().kind(), SyndromeKind::Ack(_)));
        if !is_ack {
            return;
        }
        let psn = packet.bth().psn();
        for sent in &mut self.sent {
            sent.acknowledged |= psn.since(sent.psn) < 1 << 23;
        }
    }

    /// Whether the DUT acknowledged any of these packets.
    pub(super) fn is_any(&self) -> bool {
        self.sent.iter().any(|sent| sent.acknowledged)
    }

    /// Whether the bytes `shown`, read from memory at address `from`, lack acknowledged data. Always true after an
    /// acknowledged atomic, because its result is unknown.
    pub(super) fn is_missing(&self, from: u64, shown: &[u8]) -> bool {
        let mut due = shown.to_vec();
        let mut is_open = false;
        for sent in self.sent.iter().filter(|sent| sent.acknowledged) {
            let Some(bytes) = &sent.bytes else {
                is_open = true;
                continue;
            };
            for (place, byte) in (0..).zip(bytes) {
                let place = sent
                    .address
                    .wrapping_add(place)
                    .checked_sub(from)
                    .and_then(|place| usize::try_from(place).ok());
                if let Some(place) = place.and_then(|place| due.get_mut(place)) {
                    *place = *byte;
                }
            }
        }
        is_open || due != shown
    }

    /// Forgets all packets.
    pub(super) fn looked_at(&mut self) {
        self.sent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn landing_of(writes: &[(u32, u64, &[u8])], acknowledged: u32) -> Landing {
        let mut landing = Landing::default();
        for (psn, address, bytes) in writes {
            landing.put(Psn::new(*psn), *address, Some(bytes.to_vec()));
        }
        for sent in &mut landing.sent {
            sent.acknowledged = Psn::new(acknowledged).since(sent.psn) < 1 << 23;
        }
        landing
    }

    #[test]
    fn finds_acknowledged_data_missing() {
        let writes: [(u32, u64, &[u8]); 2] = [(0xFF_FFFF, 100, &[1, 2]), (0, 101, &[3, 4])];
        let landing = landing_of(&writes, 0);
        assert!(!landing.is_missing(99, &[0, 1, 3, 4]));
        assert!(landing.is_missing(99, &[0, 1, 2, 0]));
        // A WRITE to the last address.
        assert!(!landing_of(&[(0, u64::MAX, &[1])], 0).is_missing(100, &[0]));
    }

    #[test]
    fn ignores_unacknowledged_data() {
        let landing = landing_of(&[(7, 100, &[1]), (8, 101, &[2])], 7);
        assert!(landing.is_any() && !landing.is_missing(100, &[1, 0]));
    }
}
