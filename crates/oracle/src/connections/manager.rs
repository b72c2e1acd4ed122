//! Parses the communication manager's messages, which state a connection's queue pairs, first PSNs and path MTU.
//!
//! Source: architecture 12.6.5 (REQ), 12.6.8 (REP); `cm_msgs.h` of Linux; annex A11 (service IDs of IP ports).

use verbatim_wire::packet::{Packet, Psn, Qpn};
use verbatim_wire::{AttributeId, Mad, Method, MgmtClass, Opcode};

use super::{Address, Connections, Ended, Half, half};
use crate::managed::{Managed, ServiceId};

/// Maximum number of stored REQs.
const MOST: usize = 4096;
const REQ: AttributeId = AttributeId(0x0010);
const REP: AttributeId = AttributeId(0x0013);
/// Offset of the message in a MAD, in bytes.
const HEADER: usize = 24;

/// Fields of a REQ.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    qpn: Qpn,
    psn: Psn,
    path_mtu: Option<u32>,
    service: ServiceId,
    retry_count: u8,
    rnr_retry_count: u8,
    /// Whether a REP was seen. A repeated REP begins no second connection.
    is_answered: bool,
}

struct Answered {
    /// Communication ID of the REQ.
    id: u32,
    qpn: Qpn,
    psn: Psn,
    rnr_retry_count: u8,
}

enum Message {
    Req(u32, Asked),
    Rep(Answered),
}

impl Message {
    fn of(packet: &Packet<'_>) -> Option<Self> {
        let bth = packet.bth();
        if bth.opcode() != Opcode::UD_SEND_ONLY || bth.dest_qp() != Qpn(1) || !packet.icrc_is_right() {
            return None;
        }
        let mad = Mad::try_from(packet.payload()).ok()?;
        if mad.class() != MgmtClass::COM_MGT || mad.method() != Method::SEND {
            return None;
        }
        let message = &mad.bytes()[HEADER..];
        let u32_at = |at: usize| u32::from_be_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]]);
        let upper_24_at = |at: usize| u32_at(at) >> 8;
        match mad.attribute_id() {
            REQ => Some(Self::Req(
                u32_at(0),
                Asked {
                    service: ServiceId(u64::from(u32_at(8)) << 32 | u64::from(u32_at(12))),
                    qpn: Qpn(upper_24_at(32)),
                    psn: Psn(upper_24_at(44)),
                    retry_count: message[47] & 7,
                    path_mtu: match message[50] >> 4 {
                        code @ 1..=5 => Some(128 << code),
                        _ => None,
                    },
                    rnr_retry_count: message[50] & 7,
                    is_answered: false,
                },
            )),
            REP => Some(Self::Rep(Answered {
                id: u32_at(4),
                qpn: Qpn(upper_24_at(12)),
                psn: Psn(upper_24_at(20)),
                rnr_retry_count: message[27] >> 5,
            })),
            _ => None,
        }
    }
}

impl Connections {
    /// Takes a message of the communication manager and ignores other packets. A REP begins a connection. Calls
    /// `ended` for each older connection that used a queue pair of the new connection.
    pub fn manage(&mut self, packet: &Packet<'_>, mut ended: impl FnMut(Ended)) {
        let (Some(Half { from, to, .. }), Some(message)) = (half(packet), Message::of(packet)) else {
            return;
        };
        match message {
            Message::Req(id, asked) => self.asked_for((from, to, id), asked),
            Message::Rep(answered) => {
                let Some(asked) = self.asked.get_mut(&(to, from, answered.id)) else {
                    return;
                };
                if !asked.is_answered {
                    asked.is_answered = true;
                    let asked = *asked;
                    self.begin_managed((to, from), &asked, &answered, &mut ended);
                }
            }
        }
    }

    fn asked_for(&mut self, key: (Address, Address, u32), asked: Asked) {
        let is_again =
            |before: &Asked| (before.qpn, before.psn, before.service) == (asked.qpn, asked.psn, asked.service);
        if self.asked.get(&key).is_some_and(is_again) {
            return;
        }
        if self.asked.len() >= MOST {
            self.asked.pop_first();
        }
        self.asked.insert(key, asked);
    }

    fn begin_managed(
        &mut self,
        (from, to): (Address, Address),
        asked: &Asked,
        answered: &Answered,
        ended: &mut impl FnMut(Ended),
    ) {
        let first = Half {
            from,
            to,
            qpn: answered.qpn,
        };
        let second = Half {
            from: to,
            to: from,
            qpn: asked.qpn,
        };
        for half in [first, second] {
            if let Some((number, _)) = self.halves.get(&half).copied() {
                ended(self.end(number));
            }
        }
        let (number, _) = self.open(first, None, ended);
        self.pair(second, number, None);
        if let Some(known) = self.known.get_mut(&number) {
            let connection = &mut known.connection;
            connection.set_provisional(false);
            connection.know(0, Some(asked.psn), asked.path_mtu);
            connection.know(1, Some(answered.psn), None);
            connection.managed = Some(Managed {
                service: asked.service,
                first_psns: [asked.psn, answered.psn],
                path_mtu: asked.path_mtu,
                retry_count: asked.retry_count,
                rnr_retry_counts: [answered.rnr_retry_count, asked.rnr_retry_count],
            });
        }
    }
}
