//! `c09-response-validation`: an acknowledgement that a port must drop completes nothing.
//!
//! In each case the DUT posts a SEND. The peer answers three times with an ACK whose headers do not match the
//! connection, and then with a valid ACK. Only the valid ACK completes the SEND.
//!
//! Reading: P_Keys match if their low 15 bits are equal and one side is a full member.
//!
//! False alarm: none known.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::{Findings, Frames, Gap, Label, TRIES, Trace, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{Opcode, Psn, Syndrome, Transport};
use verbatim_wire::{Aeth, PKey};

use super::c09_header_validation::{elsewhere, no_qp, with_bth};
use crate::transport::rc::{self, Ask, Requester};

const HEADERS: &str = "9.6.1 header validation";
const COMPLETION: &str = "C9-60";

const ANSWER: Label<Frames> = Label::new("sound ACK");
const ANSWER_AGAIN: Label<Frames> = Label::new("sound ACK, again");
const QUIET: Label<Wait> = Label::new("after a wrong ACK");

/// Wait for a completion that must not come.
const MOMENT: Duration = Duration::from_millis(20);

struct Case {
    wrong: Label<Frames>,
    frame: fn(&Channel, Transport) -> Vec<u8>,
}

static CASES: &[Case] = &[
    Case {
        wrong: Label::new("ACK with TVer 1"),
        frame: |c, ack| with_bth(c, ack, |bth| bth.with_tver(1)),
    },
    Case {
        wrong: Label::new("ACK with a P_Key of another partition"),
        frame: |c, ack| with_bth(c, ack, |bth| bth.with_p_key(PKey(0xDA5A))),
    },
    Case {
        wrong: Label::new("ACK with a P_Key that differs in its lowest bit"),
        frame: |c, ack| with_bth(c, ack, |bth| bth.with_p_key(PKey(0xFFFE))),
    },
    Case {
        wrong: Label::new("ACK to another queue pair"),
        frame: |c, ack| with_bth(c, ack, |bth| bth.with_dest_qp(no_qp(c))),
    },
    Case {
        wrong: Label::new("ACK with an opcode of UC's"),
        frame: |c, ack| with_bth(c, ack, |bth| bth.with_opcode(Opcode(Opcode::RC_ACKNOWLEDGE.0 | 0x20))),
    },
    Case {
        wrong: Label::new("ACK from another source address"),
        frame: |c, ack| elsewhere(c).frame(&ack),
    },
    Case {
        wrong: Label::new("ACK with a wrong ICRC"),
        frame: |c, ack| {
            let mut frame = c.frame(&ack);
            if let Some(last) = frame.last_mut() {
                *last ^= 0x10;
            }
            frame
        },
    },
];

pub(super) static TEST: Test = Test {
    id: "c09-response-validation",
    aliases: &[],
    revision: 1,
    about: "ACKs with a wrong TVer, P_Key, DestQP, opcode class, source address or ICRC are dropped in silence.",
    reading: "The peer sends three wrong ACKs, then a valid ACK. The SEND completes only after the valid ACK.",
    statements: &[HEADERS, COMPLETION, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn ack(channel: &Channel, psn: Psn, msn: u32) -> Transport {
    Transport {
        aeth: Some(Aeth::default().with_syndrome(Syndrome::ACK).with_msn(msn)),
        ..channel.transport(Opcode::RC_ACKNOWLEDGE, psn)
    }
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    for case in CASES {
        let sent = dut.post(t, Ask::send(64))?;
        if !dut.see_all(t, &sent)? {
            break;
        }
        let wrong = (case.frame)(&dut.channel, ack(&dut.channel, sent.last, sent.msn));
        for _ in 0..TRIES {
            t.send_frame(case.wrong, &wrong)?;
        }
        t.wait_for(QUIET, t.longest_round_trip() + MOMENT)?;
        let sound = dut.answers(t, &sent);
        if !dut.answer(t, (ANSWER, ANSWER_AGAIN), &sound, 1)? {
            break;
        }
    }
    dut.close(t)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[Rule::AnsweredCompletes, Rule::CompletedBy]);
    let all = rc::dialogues(t)?;
    let dialogue = all.first().ok_or(Gap::Missing(ANSWER.name))?;
    let quiet: Vec<usize> = t.waits(QUIET).map(|waited| waited.place).collect();
    for (case, until) in CASES.iter().zip(&quiet) {
        let first = t.frames(case.wrong).next().ok_or(Gap::Missing(case.wrong.name))?;
        rc::no_completion(f, HEADERS, case.wrong.name, dialogue, (first.place, *until));
    }
    if quiet.len() < CASES.len() {
        return Err(Gap::Missing(QUIET.name));
    }
    rc::came(t, &[ANSWER])
}
