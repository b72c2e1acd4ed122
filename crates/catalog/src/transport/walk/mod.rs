//! `c09-walk`: on reliable connections with random steps, the DUT breaks no rule.
//!
//! The seed determines the steps. The peer sends messages of several lengths. It loses, damages, swaps and repeats
//! packets, and sends packets without an effect and requests that the DUT must refuse. The DUT posts requests; the
//! peer's responses are lost, repeated or damaged, or they are NAKs. The rules judge every walk, as they judge every
//! test.
//!
//! Each step has its own stream of random numbers, so that removing a step does not change the others. A walk that
//! fails is shrunk to the fewest steps that still fail (`crates/run/src/shrink.rs`), and `--set` repeats these steps.
//!
//! Reading: a walk draws no step that may crash a host (reserved opcodes). It also draws no step on which two
//! readings of the specification differ: more READs than the DUT handles at a time, or a NAK of the next unused
//! PSN. The DUT need not answer a duplicate of an atomic.
//!
//! False alarm: an R_Key with one flipped bit may belong to another region of the walk, at another address. That region
//! refuses the request as well.

mod answering;
mod directed;
mod draw;
mod image;
mod malformed;
mod matrix;
mod more;
mod peer;
mod states;
mod step;
mod stray;
mod words;

use verbatim_record::verbs::pb::Opened;
use verbatim_record::{Findings, Gap, Passed, Trace};
use verbatim_tester::{Need, Parameter, Step, Stream, Test, Tester};

use super::rc::{self, offers, steps};
pub(super) use directed::{ATOMIC_REPLAY, LOSS_POSITIONS, PSN_WRAP, REGION_EDGES, STALE_RESPONSES};
use draw::Extent;
pub(super) use matrix::{ASKED, DATAGRAMS, MALFORMED, POSTED, REFUSED, STRAYS};
pub(super) use matrix::{
    PAIR_ACCESS, PAIR_ATOMICS, PAIR_LENGTH, PAIR_ORDER, PAIR_RNR, PAIR_RNR_RETRY, PAIR_SEQUENCE, PAIR_TIMEOUT,
};
pub use matrix::{Rows, broken_values, failed_rows, rows};
use peer::Peer;
use step::{ON_ONE, WalkConnection};

const COMPLETION: &str = "C9-60";
const DUPLICATES: &str = "9.7.4.1.1 duplicate requests";
const RESPONSE_DATA: &str = "9.7.6.1.1 response data";
const NAKS: &str = "9.7.5.1.1 NAK handling";
const INVALID: &str = "9.7.5.2.4 invalid request";
const ACCESS: &str = "9.7.5.2.5 remote access";
const ERRORS: &str = "9.9.3 responder errors";
const IMMEDIATE: &str = "9.4.1 SEND and immediate";
const ATOMICS: &str = "9.4.5 atomics";

/// Prefix of the note that lists the remaining steps of a shrunk walk.
const SHRUNK: &str = "shrunk: ";

pub(super) static TEST: Test = Test {
    id: "c09-walk",
    aliases: &[],
    revision: 5,
    about: "With requests sent, posted, lost, damaged, repeated and refused, each message is executed once and in \
        order.",
    reading: "The seed determines the steps, up to 16 on a connection. A failed walk is shrunk; the observations show \
        the shortest walk that still fails, with the parameters that repeat it. The walk draws no step that may crash \
        a host, and no step on which two readings differ.",
    statements: &[
        "C9-27",
        COMPLETION,
        "C9-130",
        IMMEDIATE,
        ATOMICS,
        "9.6.1 header validation",
        rc::GENERATION,
        "9.7.4.1.1 PSN sequence",
        DUPLICATES,
        "9.7.5.1 acknowledgement",
        NAKS,
        INVALID,
        ACCESS,
        RESPONSE_DATA,
        "9.7.7.1 MSN",
        ERRORS,
        rc::ICRC,
    ],
    needs: &[Need::Packets],
    parameters: &[
        Parameter {
            name: "steps",
            about: "number of steps of the walk, 16 on each connection",
            range: (1, 10_000),
            simulated: 48,
            default: 48,
        },
        Parameter {
            name: "connection",
            about: "only this connection of the walk, counted from 1; 0: all",
            range: (0, 625),
            simulated: 0,
            default: 0,
        },
        Parameter {
            name: "keep",
            about: "mask of the steps to run on each connection: the lowest bit is the first step",
            range: (0, (1 << ON_ONE) - 1),
            simulated: (1 << ON_ONE) - 1,
            default: (1 << ON_ONE) - 1,
        },
        Parameter {
            name: "kinds",
            about: "mask of further steps: 1 headers, 2 rights, 4 retries, 8 RTR, SQD and RESET, 16 receives, \
                32 responses of other connections",
            range: (0, more::ALL),
            simulated: more::ALL,
            default: more::ALL,
        },
    ],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let extent = Extent {
        steps: t.parameter("steps"),
        connection: t.parameter("connection"),
        keep: t.parameter("keep"),
        kinds: t.parameter("kinds"),
    };
    let connections = extent.connections(&|name| t.random(name));
    take(t, &connections)
}

/// Runs the steps of these connections.
fn take(t: &mut Tester<'_>, connections: &[WalkConnection]) -> Step {
    for connection in connections {
        let mut peer = Peer::open(t, connection)?;
        // A small device may have room for one queue pair only.
        let has_room = peer.requester.channel.max_qp != 1;
        let other = match connection.beside.as_ref().filter(|_| has_room) {
            Some(beside) => begin_other(t, beside)?,
            None => None,
        };
        for (at, step) in &connection.steps {
            if peer.is_over {
                break;
            }
            let name = format!("connection {}, step {at}", connection.number);
            peer.take(t, step, &name)?;
        }
        peer.close(t)?;
        if let Some(mut other) = other {
            other.settle(t)?;
            other.close(t)?;
        }
    }
    Ok(())
}

/// Runs the steps of another queue pair's connection. Returns the connection if it has outstanding requests.
fn begin_other(t: &mut Tester<'_>, connection: &WalkConnection) -> verbatim_tester::Step<Option<Peer>> {
    let mut other = Peer::open(t, connection)?;
    for (at, step) in &connection.steps {
        other.take(t, step, &format!("another queue pair, step {at}"))?;
    }
    if matches!(connection.steps.last(), Some((_, step::Step::Begin(..)))) {
        return Ok(Some(other));
    }
    other.close(t)?;
    Ok(None)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    // A walk exercises only the statements whose steps it drew.
    f.goes_without.extend(TEST.statements);
    judge_shown(t, f)
}

/// Checks that the procedure ran each connection to its end. The rules of the oracle judge the rest.
fn judge_shown(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises_any();
    for case in rc::cases(t)? {
        let read = t.commands_between(steps::MEMORY, case.dialogue.places).next();
        read.ok_or(Gap::Missing(steps::MEMORY.name))?;
    }
    Ok(())
}

/// Reports the steps of a walk that failed or was shrunk. The function must run after all checks.
pub(crate) fn tell_if_broken(t: &Trace, f: &mut Findings<'_>) {
    matrix::tell(t, f);
    let is_shrunk = t.notes.iter().any(|note| note.starts_with(SHRUNK));
    let has_failed = f.checks.iter().any(|check| check.result() == Passed::Fail);
    if t.begin.test == TEST.id && (is_shrunk || has_failed) {
        tell(t, f);
    }
}

/// Reports the steps of the walk, or of the shortest walk that still fails, and the parameters that repeat it.
///
/// A record does not hold the address of its rig, so the report is no complete command.
fn tell(t: &Trace, f: &mut Findings<'_>) {
    let mut extent = Extent::of(&t.begin);
    let shrunk = t.notes.iter().rev().find_map(|note| note.strip_prefix(SHRUNK));
    for (name, value) in shrunk
        .iter()
        .flat_map(|words| words.split(' '))
        .filter_map(|word| word.split_once('='))
    {
        match (name, value.parse()) {
            ("connection", Ok(value)) => extent.connection = value,
            ("keep", Ok(value)) => extent.keep = value,
            _ => {}
        }
    }
    for connection in extent.connections(&|name| Stream::new(t.begin.seed, &t.begin.test, name)) {
        f.observe(in_words(&connection, offers::opened(t)), &[]);
    }
    let Extent {
        steps,
        connection,
        keep,
        kinds,
    } = extent;
    let what = if shrunk.is_some() {
        "the shortest walk that still fails"
    } else {
        "this walk again"
    };
    let seed = t.begin.seed;
    let id = TEST.id;
    // Leave out the default value.
    let kinds = match kinds {
        more::ALL => String::new(),
        some => format!(" --set kinds={some}"),
    };
    let text = format!(
        "{what}, on the same rig: {id} --seed {seed} --set steps={steps} --set connection={connection} --set keep={keep}{kinds}"
    );
    f.observe(text, &[]);
}

/// Describes a connection with the values that it had on this device, which may be lower than the drawn values.
fn in_words(connection: &WalkConnection, opened: Option<&Opened>) -> String {
    let steps: Vec<String> = connection
        .steps
        .iter()
        .map(|(at, step)| format!("{at}) {step}"))
        .collect();
    let options = opened.map_or(connection.options, |opened| connection.options.on(opened));
    format!(
        "connection {}, path MTU {}, max_rd_atomic {}, {} {}: {}",
        connection.number,
        options.mtu.bytes().unwrap_or_default(),
        options.max_rd_atomic,
        steps.len(),
        if steps.len() == 1 { "step" } else { "steps" },
        steps.join(". ")
    )
}
