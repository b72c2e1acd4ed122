//! `c09-nak-reserved-opcode`: a request with a reserved opcode is refused as an invalid request, and not done.
//!
//! As in `c09-nak-invalid-request`: each case has a connection of its own, a sound SEND is acknowledged, then the case must
//! be answered with one NAK 0x61, and the queue pair is in error. A test of its own, and the last of its chapter: Linux rxe
//! computes the ICRC over headers of a length that such an opcode does not have, and its kernel may not survive that. What
//! runs after it on such a host is skipped.
//! Reading: a reserved opcode of the RC class is refused; the codes of FLUSH and ATOMIC WRITE are not tried, since a
//! device may have them.
//! False alarm: a device that drops reserved opcodes, as some software does, is told so.

use verbatim_record::{Findings, Gap, Trace};
use verbatim_tester::peer::Channel;
use verbatim_tester::{Need, Test};
use verbatim_wire::packet::{NakCode, Opcode, Psn, Transport};

use super::c09_nak_invalid_request::INVALID;
use crate::rc;
use crate::rc::answer::{ACKNOWLEDGEMENT, MSN};
use crate::rc::refusal::{self, ERRORS, Refusal};

const CODE: &[NakCode] = &[NakCode::INVALID_REQUEST];

static CASES: &[Refusal] = &[
    Refusal::new("reserved opcode 0x15", CODE, |c, psn| empty(c, psn, Opcode(0x15))),
    Refusal::new("reserved opcode 0x18", CODE, |c, psn| empty(c, psn, Opcode(0x18))),
    Refusal::new("reserved opcode 0x1F", CODE, |c, psn| empty(c, psn, Opcode(0x1F))),
];

/// Reserved opcodes.
pub(super) static TEST: Test = Test {
    id: "c09-nak-reserved-opcode",
    aliases: &[],
    revision: 1,
    about: "A request with a reserved RC opcode gets one NAK 0x61, is not done, and puts the queue pair into error.",
    reading: "Each case on a connection of its own, behind a sound SEND: one NAK 0x61 with the PSN of the packet and MSN 1; \
        then ERR, silence, and the memory as it was. Refused, not dropped. Tried three times where no answer comes. The \
        last test of its chapter: a host that breaks down over it is an ERROR, and takes nothing with it.",
    statements: &[INVALID, ERRORS, ACKNOWLEDGEMENT, MSN, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure: |t| refusal::procedure(t, CASES),
    judge,
};

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    refusal::judge(t, f, INVALID, CASES, false)
}

/// A packet of this opcode that has nothing behind its BTH, and asks for an acknowledgement.
fn empty(channel: &Channel, psn: Psn, opcode: Opcode) -> Vec<Transport> {
    let mut packet = channel.transport(opcode, psn);
    packet.bth = packet.bth.with_ack_request(true);
    vec![packet]
}
