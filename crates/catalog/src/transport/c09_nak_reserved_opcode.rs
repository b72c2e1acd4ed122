//! `c09-nak-reserved-opcode`: a queue pair sends NAK 0x61 for a request with a reserved opcode, and does not execute
//! it.
//!
//! Each case has its own connection. The DUT acknowledges a valid SEND, then answers the case with one NAK 0x61,
//! and the queue pair is in error.
//!
//! The test is separate and the last of its chapter, because the opcode makes the kernel of Linux rxe panic. The
//! cause is that rxe computes the ICRC with a header length that reserved opcodes lack. The test does not run on
//! rxe without `--set soft_roce=1`, which permits a crash of the host. After a crash the run skips later tests on
//! this host.
//!
//! Reading: a reserved opcode of the RC class must be refused. The test does not try the codes of FLUSH and ATOMIC
//! WRITE, because a device may support these operations.
//!
//! False alarm: a device that drops reserved opcodes, as some software does, fails this test.

use verbatim_record::verbs::{Command, pb};
use verbatim_record::{Findings, Gap, Label, Side, Trace, Verbs};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::Opcode;

use super::c09_nak_invalid_request::{CODE, INVALID, data};
use super::soft_roce;
use crate::transport::rc;
use crate::transport::rc::answer::{ACKNOWLEDGEMENT, MSN};
use crate::transport::rc::refusal::{self, ERRORS, Refusal};

const OPEN: Label<Verbs> = Label::new("what the device is");

static CASES: &[Refusal] = &[
    Refusal::new("reserved opcode 0x15", CODE, |c, psn| {
        data(c, psn, &[(Opcode(0x15), 0)])
    }),
    Refusal::new("reserved opcode 0x18", CODE, |c, psn| {
        data(c, psn, &[(Opcode(0x18), 0)])
    }),
    Refusal::new("reserved opcode 0x1F", CODE, |c, psn| {
        data(c, psn, &[(Opcode(0x1F), 0)])
    }),
];

pub(super) static TEST: Test = Test {
    id: "c09-nak-reserved-opcode",
    aliases: &[],
    revision: 2,
    about: "A request with a reserved RC opcode gets one NAK 0x61 and is not executed; the queue pair is then in \
        error.",
    reading: "Each case has its own connection and follows a valid SEND. The NAK 0x61 has the PSN of the packet and \
        MSN 1. Then the queue pair is in ERR and silent, and the memory is unchanged. The DUT must refuse the \
        request, not drop it. Without a response the test tries three times. The kernel of Linux rxe panics, so the \
        test skips rxe without `--set soft_roce=1`.",
    statements: &[INVALID, ERRORS, ACKNOWLEDGEMENT, MSN, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[soft_roce::PARAMETER],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let opened = t.verbs_must(OPEN, Side::Dut, Command::Open(pb::Open {}))?;
    if soft_roce::is_spared(t, TEST.id, &opened) {
        return Ok(());
    }
    refusal::procedure(t, CASES)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let sent = CASES.iter().any(|case| t.frames(case.label).next().is_some());
    if let Some(why) = soft_roce::spared(t, TEST.id, rc::reply(t.command(OPEN)?), sent) {
        f.not_applicable = Some(why);
        return Ok(());
    }
    refusal::judge(t, f, INVALID, CASES, false)
}
