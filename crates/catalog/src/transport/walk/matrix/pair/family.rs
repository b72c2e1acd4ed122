//! The tests with rows between two adapters.

use verbatim_record::verbs::pb::Operation as O;
use verbatim_record::{Findings, Gap, Trace, labels};
use verbatim_tester::{Need, Step as Done, Test, Tester};

use super::super::super::directed::RNR;
use super::super::super::{ACCESS, ATOMICS, COMPLETION, DUPLICATES, ERRORS, IMMEDIATE, INVALID, NAKS, RESPONSE_DATA};
use super::super::{Matrix, OPERATIONS, PARAMETERS, Run, given, is_part, matrix_of};
use super::{access, atomics, length, order, retry, rnr, sequence};
use crate::transport::c09_060_atomic_responder::has_atomics;
use crate::transport::rc::answer::ACKNOWLEDGEMENT;
use crate::transport::rc::{self, offers};

const INTERVAL: &str = "C9-130";
const RNR_ERROR: &str = "9.7.5.2.8 RNR error completion";
const RETRIES: &str = "C9-143";
const SEQUENCE: &str = "9.7.4.1.1 PSN sequence";
const LOCAL: &str = "9.9.2 requester errors";
const EVENTS: &str = "11.6.3 asynchronous events";

/// Declares a family of rows between two adapters, and its test.
macro_rules! pair {
    (
        $name:ident $matrix:ident $id:literal $family:expr, $scene:path,
        $about:literal $conditions:literal [$($statement:path),*]
    ) => {
        pub(in super::super) static $matrix: Matrix = Matrix::new(&$family, Run::Pairs($scene));

        #[doc = $about]
        pub(in crate::transport) static $name: Test = Test {
            id: $id,
            aliases: &[],
            revision: 1,
            about: $about,
            reading: concat!($conditions, ": each pair of values occurs in a row. The DUT is requester or \
                responder, and the tester's adapter is the other end. The rules judge both hosts' completions, \
                states, events and memory."),
            statements: &[$($statement),*],
            needs: &[Need::Verbs],
            parameters: &PARAMETERS,
            procedure: |t: &mut Tester<'_>| -> Done { $matrix.take(t) },
            judge: judge_pairs,
        };
    };
}

pair!(PAIR_RNR PAIR_RNR_ROWS "c09-pair-rnr" rnr::INTERVALS, rnr::interval,
    "A message without a receive waits for each of the 32 intervals that an RNR NAK can ask for."
    "Interval, operation, receive posted late or never"
    [INTERVAL, RNR, RNR_ERROR]);
pair!(PAIR_RNR_RETRY PAIR_RNR_RETRY_ROWS "c09-pair-rnr-retry" rnr::RETRIES, rnr::retries,
    "A message without a receive is retried rnr_retry times, counted anew after progress."
    "rnr_retry, receive in time or never, operation, other messages"
    [INTERVAL, RNR, RNR_ERROR, NAKS]);
pair!(PAIR_TIMEOUT PAIR_TIMEOUT_ROWS "c09-pair-timeout" retry::FAMILY, retry::scene,
    "A request that is not accepted fails after 1 + retry_cnt time-outs, or succeeds if the responder is back."
    "retry_cnt, ACK timeout, state of the responder, operation, other messages"
    [RETRIES, NAKS]);
pair!(PAIR_SEQUENCE PAIR_SEQUENCE_ROWS "c09-pair-sequence" sequence::FAMILY, sequence::scene,
    "Requests earlier or later than the expected PSN have no effect, and a PSN wraps within each operation."
    "Operation, length, expected PSN, PSN, retry_cnt"
    [SEQUENCE, DUPLICATES, COMPLETION]);
pair!(PAIR_ACCESS PAIR_ACCESS_ROWS "c09-pair-access" access::FAMILY, access::scene,
    "A request that rights, region or address do not allow fails at both ends, and changes nothing."
    "Error, operation, length, other messages"
    [ACCESS, INVALID, LOCAL, ERRORS, NAKS, EVENTS]);
pair!(PAIR_LENGTH PAIR_LENGTH_ROWS "c09-pair-length" length::FAMILY, length::scene,
    "A message of each length arrives whole, or fails at both ends if the receive or the path MTU does not fit."
    "Operation, length, path MTU of both ends, receive, value, solicited event, other messages"
    [IMMEDIATE, ACKNOWLEDGEMENT, RESPONSE_DATA, INVALID, ERRORS, COMPLETION, rc::GENERATION]);
pair!(PAIR_ATOMICS PAIR_ATOMICS_ROWS "c09-pair-atomics" atomics::FAMILY, atomics::scene,
    "An atomic returns the value before it and leaves the value after it, for operands at the boundaries."
    "Operation, present value, operand, value to compare with, other messages"
    [ATOMICS, RESPONSE_DATA, COMPLETION]);
pair!(PAIR_ORDER PAIR_ORDER_ROWS "c09-pair-order" order::FAMILY, order::scene,
    "Requests complete once and in order, signaled or not, fenced or not, and are flushed after a failed one."
    "Three operations, signaling, fence, READs in flight, end"
    [COMPLETION, NAKS, RESPONSE_DATA, IMMEDIATE, rc::GENERATION]);

/// Checks that a row posted a request. The rules judge the outcomes.
fn judge_pairs(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let is_part = is_part(|name| given(&t.begin, name));
    // Every statement is exercised only if all rows run and the device has all operations.
    let has = |of: &O| offers::posts(t, *of) && offers::executes(t, *of);
    let has_all = has_atomics(t) && OPERATIONS.iter().all(has);
    if let Some((test, _)) = matrix_of(&t.begin).filter(|_| is_part || !has_all) {
        f.goes_without.extend(test.statements);
    }
    f.exercises_any();
    for label in super::COMMANDS {
        t.not_judged(label);
    }
    for label in super::WAITS {
        t.not_judged(label);
    }
    for label in [
        labels::OPEN,
        labels::MEMORY,
        labels::CREATE,
        labels::INIT,
        labels::RTR,
        labels::RTS,
    ] {
        t.not_judged(label);
    }
    if t.commands(super::POST).next().is_none() {
        f.not_applicable = Some("the devices have none of the operations of these rows".into());
    }
    Ok(())
}
