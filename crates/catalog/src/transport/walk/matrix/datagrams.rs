//! Rows with a datagram queue pair: a datagram of the DUT, a datagram to it, and one more each way.

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Frames, Label, Side, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Step, Tester};
use verbatim_wire::packet::{ImmDt, Opcode, Psn, QKey, Transport};
use verbatim_wire::values::Hex32;
use verbatim_wire::{Mtu, PKey};

use super::parts::{self, Cells, VALUE};
use crate::cover::{Factor, Family, Partial};
use crate::transport::c09_q_key::to_nobody;
use crate::transport::datagrams::{self, Datagrams, HEADER, datagram};
use crate::transport::rc::ask;

pub(super) static FAMILY: Family = Family {
    name: "datagrams",
    factors: &[
        Factor {
            name: "operation",
            values: &["SEND", "SEND with Immediate"],
        },
        Factor {
            name: "length",
            values: &["8", "0", "1", "2", "3", "63", "P-1", "P"],
        },
        VALUE,
        parts::SOLICITED,
        Factor {
            name: "Q_Key of the request",
            values: &["another", "own by its highest bit"],
        },
        Factor {
            name: "first PSN",
            values: &["any", "wraps behind", "zero"],
        },
        Factor {
            name: "history",
            values: &[
                "nothing",
                "another Q_Key in RTS",
                "RESET",
                "SQD",
                "send queue failed",
                "datagrams both ways",
            ],
        },
        Factor {
            name: "queue pair in",
            values: &["RTS", "RTR", "SQE"],
        },
        Factor {
            name: "receive",
            values: &["longer", "as long", "a byte short", "not writable", "none"],
        },
        Factor {
            name: "error",
            values: &[
                "none",
                "Q_Key, lowest bit",
                "Q_Key, middle bit",
                "Q_Key, highest bit",
                "another P_Key",
                "P_Key 0",
                "wrong ICRC",
                "TVer 5",
                "opcode of RC",
                "opcode of UC",
                "another destination",
            ],
        },
        Factor {
            name: "AckReq of the peer",
            values: &["0", "1"],
        },
        parts::ADDRESS_VECTOR,
    ],
    refuses,
};

fn refuses(row: &Partial<'_>) -> Option<&'static str> {
    let (error, receive, history) = (row.value("error"), row.value("receive"), row.value("history"));
    let is_wrong = !matches!(error, "" | "none");
    if row.value("operation") == "SEND" && matches!(row.value(VALUE.name), "0" | "all ones") {
        return Some("the operation carries no value of its own");
    }
    if is_wrong && matches!(receive, "a byte short" | "not writable" | "none") {
        return Some("a dropped datagram shows in the next receive");
    }
    if row.value("queue pair in") == "RTR" && !matches!(history, "" | "nothing" | "RESET") {
        return Some("the history moves the queue pair to RTS");
    }
    if row.value("queue pair in") == "SQE" && history == "send queue failed" {
        return Some("the send queue fails once");
    }
    None
}

const FILL: Label<Verbs> = Label::new("fill the memory");
const CLOSED: Label<Verbs> = Label::new("register memory that the device may not write");
const POST: Label<Verbs> = Label::new("post a datagram");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const SENT: Label<Frames> = Label::new("datagram of the row");
const SOUND: Label<Frames> = Label::new("sound datagram");
const AFTER: Label<Wait> = Label::new("for a late datagram");
const RESULT: Label<Verbs> = Label::new("read the memory");
const CLOSED_RESULT: Label<Verbs> = Label::new("read the memory that may not be written");
const DESTROY: Label<Verbs> = Label::new("destroy the queue pair");

const Q_KEY: QKey = QKey(0x1357_9BDF);
const OTHER: QKey = QKey(0x0246_8ACE);
/// Highest bit of a request's Q_Key: the datagram carries the queue pair's own.
const OWN: QKey = QKey(0x8000_0001);
/// Length in bytes of a sound datagram.
const SHORT: u32 = 16;
/// Offsets of the receives in the DUT's memory, behind 4096 bytes to send.
const SLOTS: [u32; 2] = [4352, 8704];
/// Length of the memory that the test fills and reads, in bytes.
const LOOKED_AT: u32 = 9216;
/// `wr_id` of the first receive.
const RECEIVES: u64 = 100;

/// Opens the connection whose memory and addresses all rows use.
pub(super) fn begin(t: &mut Tester<'_>) -> Step<Channel> {
    t.open_channel(&ChannelOptions {
        memory: 16384,
        ..ChannelOptions::default()
    })
}

/// A row that is being run.
struct Run<'r, 'c> {
    cells: &'r Cells<'c>,
    channel: &'r Channel,
    of: Datagrams,
    length: u32,
    wr_id: u64,
}

/// Runs the steps of a row.
pub(super) fn run(t: &mut Tester<'_>, cells: &Cells<'_>, channel: &Channel) -> Step {
    let bytes = ask::random_bytes(t, &format!("row {}, memory", cells.number), LOOKED_AT);
    ask::fill(t, channel, FILL, 0, bytes)?;
    let psn = match cells.value("first PSN") {
        "wraps behind" => Psn::new(Psn::COUNT - 1),
        "zero" => Psn(0),
        _ => {
            let mut random = t.random(&format!("row {}, PSN", cells.number));
            Psn::new(random.between(0, u64::from(Psn::COUNT) - 1) as u32)
        }
    };
    let history = cells.value("history");
    let key = if history == "another Q_Key in RTS" {
        OTHER
    } else {
        Q_KEY
    };
    let of = datagrams::begin(t, channel, key)?;
    let Reply::Opened(facts) = &of.opened else {
        return Ok(());
    };
    let mtu = u8::try_from(facts.active_mtu)
        .ok()
        .and_then(|code| Mtu(code).bytes())
        .unwrap_or(256);
    let mtu = mtu.min(4096);
    let length = match cells.value("length") {
        "P-1" => mtu - 1,
        "P" => mtu,
        some => some.parse().unwrap_or(8),
    };
    let mut run = Run {
        cells,
        channel,
        of,
        length,
        wr_id: 0,
    };
    run.all(t, psn)?;
    // A late datagram must not look like a datagram of the next row's queue pair, which may have the same number.
    t.wait_for(AFTER, ask::soon(t))?;
    let qp = run.of.channel.qp;
    t.verbs(DESTROY, Side::Dut, Command::DestroyQp(pb::DestroyQp { qp }))?;
    Ok(())
}

impl Run<'_, '_> {
    fn all(&mut self, t: &mut Tester<'_>, psn: Psn) -> Step {
        let none = pb::QpAttributes::default();
        let rts = pb::QpAttributes {
            sq_psn: Some(psn.0),
            ..none.clone()
        };
        datagrams::step(t, &self.of, pb::QpState::Rtr, none)?;
        let state = self.cells.value("queue pair in");
        if state != "RTR" {
            datagrams::step(t, &self.of, pb::QpState::Rts, rts.clone())?;
        }
        self.history(t, &rts)?;
        if state == "SQE" && !datagrams::fail(t, self.channel, &self.of, Q_KEY)? {
            return Ok(());
        }
        if state == "RTS" {
            self.post(t)?;
        }
        let is_over = !self.receive(t)?;
        if state == "RTS" && !is_over {
            self.post(t)?;
        }
        ask::read_memory(t, self.channel, RESULT, LOOKED_AT)?;
        ask::query(t, &self.of.channel, datagrams::labels::STATE)?;
        Ok(())
    }

    fn history(&mut self, t: &mut Tester<'_>, rts: &pb::QpAttributes) -> Step {
        let none = pb::QpAttributes::default();
        match self.cells.value("history") {
            "another Q_Key in RTS" => {
                let q_key = pb::QpAttributes {
                    qkey: Some(Q_KEY.0),
                    ..none
                };
                datagrams::step(t, &self.of, pb::QpState::Rts, q_key)
            }
            "RESET" => {
                datagrams::step(t, &self.of, pb::QpState::Reset, none.clone())?;
                datagrams::init(t, &self.of, Q_KEY)?;
                datagrams::step(t, &self.of, pb::QpState::Rtr, none)?;
                match self.cells.value("queue pair in") {
                    "RTR" => Ok(()),
                    _ => datagrams::step(t, &self.of, pb::QpState::Rts, rts.clone()),
                }
            }
            "SQD" => {
                datagrams::step(t, &self.of, pb::QpState::Sqd, none.clone())?;
                datagrams::step(t, &self.of, pb::QpState::Rts, none)
            }
            "send queue failed" => match datagrams::fail(t, self.channel, &self.of, Q_KEY)? {
                true => datagrams::step(t, &self.of, pb::QpState::Rts, none),
                false => Ok(()),
            },
            "datagrams both ways" => {
                self.post(t)?;
                self.sound(t, SLOTS[1]).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Has the DUT send the row's datagram.
    fn post(&mut self, t: &mut Tester<'_>) -> Step {
        self.wr_id += 1;
        let with_imm = self.cells.value("operation") == "SEND with Immediate";
        let q_key = match self.cells.value("Q_Key of the request") {
            "another" => OTHER,
            _ => OWN,
        };
        let mut post = self.of.send(self.channel, self.wr_id, q_key);
        if with_imm {
            post.operation = pb::Operation::SendImm.into();
            post.imm = self.imm();
        }
        post.solicited = self.cells.value(parts::SOLICITED.name) == "yes";
        // No two datagrams are alike, so that a PSN used twice differs from a frame that the path duplicated.
        post.local = Some(self.channel.memory.slice(8 * self.wr_id as u32, self.length));
        if let Some(address) = post
            .address
            .as_mut()
            .filter(|_| self.cells.value(parts::ADDRESS_VECTOR.name) == "class 0xb8")
        {
            (address.traffic_class, address.flow_label) = (0xB8, 0x5_4321);
        }
        if !t.offers(post.operation()) {
            return Ok(());
        }
        t.verbs_must(POST, Side::Dut, Command::PostSend(post))?;
        datagrams::next(t, &self.of).map(drop)
    }

    fn imm(&self) -> u32 {
        match self.cells.value(VALUE.name) {
            "0" => 0,
            "all ones" => u32::MAX,
            _ => 0xC0DE_0001,
        }
    }

    /// Sends the row's datagram to the DUT, and a sound one behind it. Returns whether the queue pair is known to work.
    fn receive(&mut self, t: &mut Tester<'_>) -> Step<bool> {
        let (kind, error) = (self.cells.value("receive"), self.cells.value("error"));
        let packet = self.packet(t);
        let room = HEADER + self.length;
        let length = match kind {
            "longer" => room + 64,
            "a byte short" => room - 1,
            _ => room,
        };
        match kind {
            "none" => {}
            "not writable" => return self.not_writable(t, &packet),
            _ => self.post_receive(t, SLOTS[0], length)?,
        }
        let frame = self.frame(&packet);
        if error == "none" && kind != "none" {
            let came = datagrams::deliver(t, &self.of, SENT, &frame)?;
            if kind == "a byte short" || !came {
                return Ok(false);
            }
        } else {
            ask::insist(t, SENT, &frame)?;
            t.next_completion(Side::Dut, self.of.channel.qp, t.now().after(ask::soon(t)))?;
        }
        if error == "none" {
            return self.sound(t, SLOTS[1]);
        }
        // The receive is left for the sound datagram.
        self.send_sound(t)
    }

    fn packet(&self, t: &Tester<'_>) -> Transport {
        let payload = ask::random_bytes(t, &format!("row {}, datagram", self.cells.number), self.length);
        let mut packet = datagram(self.channel, self.of.qpn, Q_KEY, payload);
        if self.cells.value("operation") == "SEND with Immediate" {
            packet.bth = packet.bth.with_opcode(Opcode::UD_SEND_ONLY_IMM);
            packet.imm = Some(ImmDt::default().with_data(Hex32(self.imm())));
        }
        let se = self.cells.value(parts::SOLICITED.name) == "yes";
        let ack_req = self.cells.value("AckReq of the peer") == "1";
        packet.bth = packet.bth.with_solicited_event(se).with_ack_request(ack_req);
        let key = |bit: u32| QKey(Q_KEY.0 ^ 1 << bit);
        let other = match self.cells.value("error") {
            "Q_Key, lowest bit" => key(0),
            "Q_Key, middle bit" => key(13),
            "Q_Key, highest bit" => key(31),
            _ => Q_KEY,
        };
        packet.deth = packet.deth.map(|deth| deth.with_q_key(other));
        packet.bth = match self.cells.value("error") {
            "another P_Key" => packet.bth.with_p_key(PKey(0xFFFE)),
            "P_Key 0" => packet.bth.with_p_key(PKey(0)),
            "TVer 5" => packet.bth.with_tver(5),
            "opcode of RC" => packet.bth.with_opcode(Opcode::RC_SEND_ONLY),
            "opcode of UC" => packet.bth.with_opcode(Opcode::UC_SEND_ONLY),
            _ => packet.bth,
        };
        if packet.bth.opcode() == Opcode::RC_SEND_ONLY || packet.bth.opcode() == Opcode::UC_SEND_ONLY {
            (packet.deth, packet.imm) = (None, None);
        }
        packet
    }

    fn frame(&self, packet: &Transport) -> Vec<u8> {
        match self.cells.value("error") {
            "another destination" => to_nobody(self.channel).frame(packet),
            "wrong ICRC" => {
                let mut frame = self.channel.frame(packet);
                if let Some(last) = frame.last_mut() {
                    *last ^= 1;
                }
                frame
            }
            _ => self.channel.frame(packet),
        }
    }

    fn post_receive(&mut self, t: &mut Tester<'_>, offset: u32, length: u32) -> Step {
        self.wr_id += 1;
        ask::post_receive(t, &self.of.channel, RECEIVE, RECEIVES + self.wr_id, (offset, length))
    }

    /// Posts a receive at an offset, and has a sound datagram fill it.
    fn sound(&mut self, t: &mut Tester<'_>, offset: u32) -> Step<bool> {
        self.post_receive(t, offset, HEADER + 64)?;
        self.send_sound(t)
    }

    /// Sends a sound datagram until a receive completes, three times at most.
    fn send_sound(&mut self, t: &mut Tester<'_>) -> Step<bool> {
        let name = format!("row {}, sound datagram {}", self.cells.number, self.wr_id);
        let packet = datagram(
            self.channel,
            self.of.qpn,
            Q_KEY,
            ask::random_bytes(t, &name, SHORT.min(self.length)),
        );
        datagrams::deliver(t, &self.of, SOUND, &self.channel.frame(&packet))
    }

    /// Sends the row's datagram into memory that the device may not write. The queue pair may fail.
    fn not_writable(&mut self, t: &mut Tester<'_>, packet: &Transport) -> Step<bool> {
        let register = Command::RegisterMemory(pb::RegisterMemory {
            length: 8192,
            access: Some(pb::Access::default()),
        });
        let Reply::Memory(closed) = t.verbs(CLOSED, Side::Dut, register)? else {
            return Ok(true);
        };
        let slice = pb::Slice {
            memory: closed.memory,
            offset: 0,
            length: HEADER + self.length,
        };
        let post = Command::PostReceive(pb::PostReceive {
            qp: self.of.channel.qp,
            wr_id: RECEIVES + 50,
            local: Some(slice),
        });
        if let Reply::Done(_) = t.verbs(RECEIVE, Side::Dut, post)? {
            t.send_frame(SENT, &self.frame(packet))?;
            t.next_completion(Side::Dut, self.of.channel.qp, t.now().after(ask::soon(t)))?;
            let read = Command::ReadMemory(pb::ReadMemory { from: Some(slice) });
            t.verbs(CLOSED_RESULT, Side::Dut, read)?;
        }
        Ok(false)
    }
}
