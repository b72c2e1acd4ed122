//! `c09-matrix-asked`, `-posted`, `-refused`, `-strays`, `-datagrams`, `c09-malformed`: rows of covering arrays.
//!
//! A row is one connection: events before, a message or a stray packet with a disturbance, and messages behind it that
//! show late damage. In the rows of strength 2 each pair of conditions occurs. The rules judge every row; no row has a
//! judge of its own.
//!
//! The rows are always the same. The seed draws payloads, keys and the PSNs of rows that leave them open, and the rows
//! if `rows` asks for a part of them. A row that fails is shrunk to the fewest conditions that still fail.

mod asked;
mod datagrams;
mod malformed;
mod pair;
mod parts;
mod posted;
mod refused;
mod strays;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use verbatim_record::verbs::pb::Operation as O;
use verbatim_record::{Begin, Findings, Gap, Passed, Side, Trace, Verdict, labels};
use verbatim_tester::{Need, Parameter, Step as Done, Stop, Stream, Test, Tester};

use super::directed::{RNR, TIMEOUT};
use super::peer::labels as subjects;
use super::step::WalkConnection;
use super::{ACCESS, ATOMICS, COMPLETION, DUPLICATES, ERRORS, IMMEDIATE, INVALID, NAKS, RESPONSE_DATA};
use crate::cover::{Array, Family, Row};
use crate::transport::c09_060_atomic_responder::has_atomics;
use crate::transport::datagrams as transport_datagrams;
use crate::transport::rc::answer::{ACKNOWLEDGEMENT, MSN};
use crate::transport::rc::{self, offers};
pub(in crate::transport) use pair::family::{
    PAIR_ACCESS, PAIR_ATOMICS, PAIR_LENGTH, PAIR_ORDER, PAIR_RNR, PAIR_RNR_RETRY, PAIR_SEQUENCE, PAIR_TIMEOUT,
};
use pair::family::{
    PAIR_ACCESS_ROWS, PAIR_ATOMICS_ROWS, PAIR_LENGTH_ROWS, PAIR_ORDER_ROWS, PAIR_RNR_RETRY_ROWS, PAIR_RNR_ROWS,
    PAIR_SEQUENCE_ROWS, PAIR_TIMEOUT_ROWS,
};
use parts::Cells;

/// Strengths that can be asked for.
const STRENGTHS: (u64, u64) = (2, 4);

/// A family with its rows.
struct Matrix {
    family: &'static Family,
    run: Run,
    arrays: [OnceLock<Array>; 3],
}

/// Kind of a family's rows.
enum Run {
    /// Each row is a reliable connection.
    Connections(fn(&Cells<'_>) -> WalkConnection),
    /// Each row is a reliable connection that a malformed packet may end. A sound connection follows the last row.
    Malformed(fn(&Cells<'_>) -> WalkConnection),
    /// Each row is a datagram queue pair.
    Datagrams,
    /// Each row is a connection between two adapters.
    Pairs(fn(&Cells<'_>) -> pair::Scene),
}

impl Matrix {
    const fn new(family: &'static Family, run: Run) -> Self {
        Self {
            family,
            run,
            arrays: [const { OnceLock::new() }; 3],
        }
    }

    fn is_malformed(&self) -> bool {
        matches!(self.run, Run::Malformed(_))
    }

    fn array(&self, strength: u64) -> &Array {
        let (least, most) = STRENGTHS;
        let strength = strength.clamp(least, most);
        self.arrays[(strength - least) as usize].get_or_init(|| self.family.array(strength as usize))
    }

    /// Returns the rows of a run, with their numbers, from the parameters of the test.
    fn rows(&self, parameter: impl Fn(&str) -> u64, mut stream: Stream) -> Vec<(u64, Row)> {
        let array = self.array(parameter("strength"));
        let mut all: Vec<(u64, Row)> = (1..).zip(array.rows.iter().cloned()).collect();
        let (rows, row, keep) = (parameter("rows") as usize, parameter("row"), parameter("keep"));
        if row > 0 {
            all.retain(|(number, _)| *number == row);
        } else if rows > 0 && rows < all.len() {
            for at in 0..rows {
                let other = stream.between(at as u64, all.len() as u64 - 1) as usize;
                all.swap(at, other);
            }
            all.truncate(rows);
        }
        if parameter("first") > 1 {
            let first = parameter("first");
            all.retain(|(number, _)| *number >= first);
        }
        if self.is_malformed() {
            // Sort by number, so that `first` can skip the rows up to a crash.
            all.sort_by_key(|(number, _)| *number);
            let without = parameter("without");
            all.retain(|(_, row)| malformed::broken(self.family, row) & without == 0);
        }
        for (_, row) in &mut all {
            for (at, value) in row.iter_mut().enumerate() {
                *value *= u8::from(keep >> at & 1 == 1);
            }
        }
        all.retain(|(_, row)| self.family.is_legal(row));
        all
    }

    fn take(&self, t: &mut Tester<'_>) -> Done {
        let rows = self.rows(|name| t.parameter(name), t.random("rows"));
        if rows.is_empty() {
            let (strength, last) = (t.parameter("strength"), self.array(t.parameter("strength")).rows.len());
            let row = t.parameter("row");
            let why = if row > last as u64 {
                format!("row {row} does not exist: the rows of strength {strength} are 1 to {last}")
            } else if row == 0 {
                format!("no row to run: `first` and `without` leave none of the {last} rows of strength {strength}")
            } else {
                let keep = t.parameter("keep");
                format!("no row to run: row {row} is impossible with the conditions that keep={keep} leaves")
            };
            return Err(Stop::NotOffered(why));
        }
        let (family, simulated) = (self.family, t.is_simulated());
        let cells = |row, number| Cells {
            family,
            row,
            number,
            simulated,
        };
        match self.run {
            Run::Connections(connection) => {
                for (number, row) in &rows {
                    super::take(t, &[connection(&cells(row, *number))])?;
                }
            }
            Run::Malformed(connection) => {
                for (number, row) in &rows {
                    super::take(t, &[connection(&cells(row, *number))])?;
                }
                let (number, row) = (0, vec![0; family.factors.len()]);
                super::take(t, &[malformed::afterwards(&cells(&row, number))])?;
            }
            Run::Pairs(scene) => {
                let devices = pair::begin(t)?;
                let scenes: Vec<pair::Scene> = rows.iter().map(|(number, row)| scene(&cells(row, *number))).collect();
                pair::run(t, &devices, &scenes)?;
            }
            Run::Datagrams => {
                let channel = datagrams::begin(t)?;
                for (number, row) in &rows {
                    datagrams::run(t, &cells(row, *number), &channel)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the places where the DUT's queue pairs of the rows were created.
    fn created(&self, t: &Trace) -> Vec<usize> {
        let label = match self.run {
            Run::Connections(_) | Run::Malformed(_) | Run::Pairs(_) => labels::CREATE,
            Run::Datagrams => transport_datagrams::labels::CREATE,
        };
        let of_dut = t.commands(label).filter(|done| done.side == Side::Dut);
        of_dut.map(|done| done.place).collect()
    }

    /// Returns the rows to which the failed checks belong.
    fn failed(&self, t: &Trace, f: &Findings<'_>, rows: &[(u64, Row)]) -> Vec<(u64, Row)> {
        let created = self.created(t);
        let mut at = 0;
        let mut begins: Vec<usize> = Vec::new();
        for (_, row) in rows {
            begins.extend(created.get(at));
            // Another queue pair of the row was created behind its own.
            let history = self.family.find(row, parts::HISTORY.name).unwrap_or_default();
            at += if parts::has_another(history) { 2 } else { 1 };
        }
        let failed = f.checks.iter().filter(|check| check.result() == Passed::Fail);
        let rows_of = failed.filter_map(|check| {
            // Several rows between two adapters end at the same time, so the last place may belong to a later row.
            let place = match self.run {
                Run::Pairs(_) => check.places.first(),
                _ => check.places.last(),
            };
            let place = usize::try_from(*place?).ok()?;
            begins.partition_point(|begin| *begin <= place).checked_sub(1)
        });
        let all: BTreeSet<usize> = rows_of.collect();
        all.into_iter().filter_map(|at| rows.get(at).cloned()).collect()
    }

    /// Reports the rows that failed, when everything else is judged.
    fn tell(&self, t: &Trace, f: &mut Findings<'_>) {
        let begin = &t.begin;
        let again = |words: &str| {
            let (id, seed, strength) = (&begin.test, begin.seed, given(begin, "strength"));
            let strength = if strength == STRENGTHS.0 {
                String::new()
            } else {
                format!(" --set strength={strength}")
            };
            format!("again, on the same rig: {id} --seed {seed}{strength} {words}")
        };
        let rows = |parameter: &dyn Fn(&str) -> u64| self.rows(parameter, Stream::new(begin.seed, &begin.test, "rows"));
        let all = rows(&|name| given(begin, name));
        let mut failed = self.failed(t, f, &all);
        // The last failed row is the one at which a host crashed.
        if failed.len() > SHOWN {
            failed.drain(SHOWN - 1..failed.len() - 1);
        }
        for (number, row) in failed {
            let words = self.family.in_words(&row);
            let again = again(&format!("--set row={number}"));
            f.observe(format!("{FAILED}{number} fails: {words}; {again}"), &[]);
        }
        for note in t.notes.iter().filter(|note| note.starts_with(FURTHER)) {
            f.observe(note.clone(), &[]);
        }
        let shrunk = t.notes.iter().rev().find_map(|note| note.strip_prefix(super::SHRUNK));
        let Some(shrunk) = shrunk.map(|words| parameters(words)) else {
            return;
        };
        let fewer = |name: &str| shrunk.get(name).copied().unwrap_or_else(|| given(begin, name));
        if let Some((number, row)) = rows(&fewer).into_iter().next() {
            let words = self.family.in_words(&row);
            let again = again(&format!("--set row={number} --set keep={}", fewer("keep")));
            f.observe(format!("the fewest conditions that still fail: {words}; {again}"), &[]);
        }
    }
}

/// Returns whether a run has only some of the rows.
fn is_part(parameter: impl Fn(&str) -> u64) -> bool {
    ["rows", "row"].iter().any(|name| parameter(name) > 0) || parameter("first") > 1
}

/// Number of failed rows that a verdict names.
const SHOWN: usize = 10;
/// Prefix of the observation that names a failed row.
const FAILED: &str = "row ";
/// Prefix of the notes on the rows after a kernel report.
const FURTHER: &str = "after the kernel report: ";

/// Returns the broken values in a row of malformed packets as a bit mask, for the parameter `without`. Returns 0 for
/// other tests.
#[must_use]
pub fn broken_values(test: &str, strength: u64, row: u64) -> u64 {
    let found = ALL
        .into_iter()
        .find(|(of, matrix)| of.id == test && matrix.is_malformed());
    let Some((_, matrix)) = found else { return 0 };
    let rows = &matrix.array(strength).rows;
    let row = usize::try_from(row.saturating_sub(1)).ok().and_then(|at| rows.get(at));
    row.map_or(0, |row| malformed::broken(matrix.family, row))
}

/// Returns the numbers of the failed rows that a verdict names.
#[must_use]
pub fn failed_rows(verdict: &Verdict) -> Vec<u64> {
    let texts = verdict
        .observations
        .iter()
        .filter_map(|of| of.text.strip_prefix(FAILED));
    let numbers = texts.filter_map(|text| text.split_once(" fails: ")?.0.parse().ok());
    numbers.collect()
}

/// Returns the parameters of a note on a shrunk row: `row=37 keep=5 (12 tries)`.
fn parameters(words: &str) -> BTreeMap<&str, u64> {
    let given = words.split(' ').filter_map(|word| word.split_once('='));
    given
        .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
        .collect()
}

fn given(begin: &Begin, name: &str) -> u64 {
    let given = begin.parameters.iter().find(|(known, _)| known == name);
    given.map_or(0, |(_, value)| *value)
}

const RETRIES: &str = "C9-143";

macro_rules! matrix {
    ($need:ident $name:ident $matrix:ident $id:literal $family:path, $run:expr, $about:literal $reading:literal [$($statement:path),*]) => {
        static $matrix: Matrix = Matrix::new(&$family, $run);

        #[doc = $about]
        pub(in crate::transport) static $name: Test = Test {
            id: $id,
            aliases: &[],
            revision: 1,
            about: $about,
            reading: $reading,
            statements: &[$($statement),*],
            needs: &[Need::$need],
            parameters: &PARAMETERS,
            procedure: |t: &mut Tester<'_>| -> Done { $matrix.take(t) },
            judge,
        };
    };
}

matrix!(Packets ASKED ASKED_ROWS "c09-matrix-asked" asked::FAMILY, Run::Connections(asked::connection),
    "The DUT executes each message of the peer once and in order, for each pair of conditions."
    "Operation, length, address, PSN, history, company, loss, duplicate: each pair of values occurs \
        in a row. A row is a connection; the rules judge it."
    [ACKNOWLEDGEMENT, COMPLETION, IMMEDIATE, ATOMICS, rc::GENERATION, DUPLICATES, NAKS, RESPONSE_DATA, MSN]);
matrix!(Packets POSTED POSTED_ROWS "c09-matrix-posted" posted::FAMILY, Run::Connections(posted::connection),
    "The DUT sends, retries and completes each of its requests as the rules demand, for each pair of conditions."
    "Operation, length, address, PSN, history, company, treatment by the peer, retries: each pair of values occurs \
        in a row. A row is a connection; the rules judge it."
    [ACKNOWLEDGEMENT, COMPLETION, IMMEDIATE, ATOMICS, rc::GENERATION, NAKS, RESPONSE_DATA, TIMEOUT, RNR, RETRIES]);
matrix!(Packets REFUSED REFUSED_ROWS "c09-matrix-refused" refused::FAMILY, Run::Connections(refused::connection),
    "The DUT refuses each request with an error, and does nothing of it, for each pair of conditions."
    "Error, operation, PSN, history, the message before: each pair of values occurs \
        in a row. A row is a connection; the rules judge it."
    [ACKNOWLEDGEMENT, INVALID, ACCESS, ERRORS, ATOMICS, MSN]);
matrix!(Packets STRAYS STRAYS_ROWS "c09-matrix-strays" strays::FAMILY, Run::Connections(strays::connection),
    "Packets that belong to no outstanding request have no effect, for each pair of conditions."
    "Kind, distance, state of the requester, operation, PSN, history: each pair of values occurs \
        in a row. A row is a connection; the rules judge it."
    [ACKNOWLEDGEMENT, COMPLETION, rc::GENERATION, NAKS, RESPONSE_DATA, TIMEOUT, rc::ICRC]);
matrix!(Packets DATAGRAMS DATAGRAM_ROWS "c09-matrix-datagrams" datagrams::FAMILY, Run::Datagrams,
    "A datagram queue pair sends, accepts and drops each datagram as the rules demand, for each pair of conditions."
    "Operation, length, Q_Key, PSN, history, state, receive, error: each pair of values occurs \
        in a row. A row is a queue pair; the rules judge it."
    [transport_datagrams::DATAGRAMS, transport_datagrams::HEADERS, rc::ICRC]);

static MALFORMED_ROWS: Matrix = Matrix::new(&malformed::FAMILY, Run::Malformed(malformed::connection));

/// Malformed packets leave the DUT alive.
pub(in crate::transport) static MALFORMED: Test = Test {
    id: "c09-malformed",
    aliases: &[],
    revision: 1,
    about: "Malformed packets crash nothing, change no memory, and get only legal responses; other connections work.",
    reading: "Each row has its own connection. Sound messages come first, then one packet that is broken in at most \
        two ways. The DUT may drop it or refuse it. Then the memory is read, and the DUT's own requests and another \
        queue pair's requests complete. A report of the DUT's kernel is a FAIL. The host may crash: on hardware, the \
        test needs `may_crash = true` in the rig file.",
    statements: &[
        "9.6.1 header validation",
        ACKNOWLEDGEMENT,
        INVALID,
        ACCESS,
        ERRORS,
        ATOMICS,
        COMPLETION,
        RESPONSE_DATA,
        MSN,
        rc::GENERATION,
        rc::ICRC,
    ],
    needs: &[Need::Packets, Need::Crash],
    parameters: &WITH_CRASHES,
    procedure: |t: &mut Tester<'_>| -> Done { MALFORMED_ROWS.take(t) },
    judge,
};

const PARAMETERS: [Parameter; 5] = [
    Parameter {
        name: "strength",
        about: "number of conditions of which each combination occurs in a row",
        range: STRENGTHS,
        simulated: 2,
        default: 2,
    },
    Parameter {
        name: "rows",
        about: "number of rows, drawn from the seed; 0: all",
        range: (0, 100_000),
        simulated: 0,
        default: 0,
    },
    Parameter {
        name: "row",
        about: "only this row, counted from 1; 0: all",
        range: (0, 100_000),
        simulated: 0,
        default: 0,
    },
    Parameter {
        name: "first",
        about: "the rows from this number on",
        range: (1, 100_000),
        simulated: 1,
        default: 1,
    },
    Parameter {
        name: "keep",
        about: "which conditions keep their value, a bit each, the lowest for the first; the others have their default",
        range: (0, ALL_CONDITIONS),
        simulated: ALL_CONDITIONS,
        default: ALL_CONDITIONS,
    },
];

/// The parameters of malformed packets.
static WITH_CRASHES: [Parameter; 6] = {
    let without = Parameter {
        name: "without",
        about: "mask of broken values whose rows are left out, because they crash the host",
        range: (0, u64::MAX),
        simulated: 0,
        default: 0,
    };
    let [strength, rows, row, first, keep] = PARAMETERS;
    [strength, rows, row, first, keep, without]
};

/// Mask of all factors of a family.
const ALL_CONDITIONS: u64 = (1 << 16) - 1;

/// All tests with their rows.
static ALL: [(&Test, &Matrix); 14] = [
    (&ASKED, &ASKED_ROWS),
    (&POSTED, &POSTED_ROWS),
    (&REFUSED, &REFUSED_ROWS),
    (&STRAYS, &STRAYS_ROWS),
    (&DATAGRAMS, &DATAGRAM_ROWS),
    (&MALFORMED, &MALFORMED_ROWS),
    (&PAIR_RNR, &PAIR_RNR_ROWS),
    (&PAIR_RNR_RETRY, &PAIR_RNR_RETRY_ROWS),
    (&PAIR_TIMEOUT, &PAIR_TIMEOUT_ROWS),
    (&PAIR_SEQUENCE, &PAIR_SEQUENCE_ROWS),
    (&PAIR_ACCESS, &PAIR_ACCESS_ROWS),
    (&PAIR_LENGTH, &PAIR_LENGTH_ROWS),
    (&PAIR_ATOMICS, &PAIR_ATOMICS_ROWS),
    (&PAIR_ORDER, &PAIR_ORDER_ROWS),
];

/// Returns the test of a record and its rows.
fn matrix_of(begin: &Begin) -> Option<(&'static Test, &'static Matrix)> {
    ALL.into_iter().find(|(test, _)| test.id == begin.test)
}

/// Operations of the rows' requests.
const OPERATIONS: [O; 7] = [
    O::Send,
    O::SendImm,
    O::Write,
    O::WriteImm,
    O::Read,
    O::CompareSwap,
    O::FetchAdd,
];

/// Checks that packets or requests of the rows were sent. The rules judge the rest.
fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let is_part = is_part(|name| given(&t.begin, name));
    let has = |of: &O| offers::posts(t, *of) && offers::executes(t, *of);
    let has_all = has_atomics(t) && OPERATIONS.iter().all(has);
    // Only all rows, on a device with all operations, exercise every statement.
    if let Some((test, _)) = matrix_of(&t.begin).filter(|(_, of)| is_part || !has_all || of.is_malformed()) {
        f.goes_without.extend(test.statements);
    }
    f.exercises_any();
    rc::dialogues(t)?;
    let Some((_, matrix)) = matrix_of(&t.begin).filter(|(_, matrix)| matches!(matrix.run, Run::Connections(_))) else {
        return Ok(());
    };
    let names = [subjects::REQUEST, subjects::STRAY, subjects::ILLEGAL].map(|label| label.name);
    let begin = matrix.created(t).first().copied().unwrap_or(usize::MAX);
    let mut frames = t.timeline.frames.iter().filter(|frame| frame.place > begin);
    let is_sent = frames.any(|frame| !frame.received && names.contains(&frame.label.as_str()));
    if !is_sent && !t.commands(rc::steps::POST).any(|done| done.place > begin) {
        f.not_applicable = Some("the device has none of the operations of these rows".into());
    }
    Ok(())
}

/// Reports the rows that failed, when everything else is judged.
pub(super) fn tell(t: &Trace, f: &mut Findings<'_>) {
    if let Some((_, matrix)) = matrix_of(&t.begin) {
        matrix.tell(t, f);
    }
}

/// The rows of a test, and the pairs of conditions that they have.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Id of the test.
    pub test: &'static str,
    /// Number of rows of strength 2.
    pub rows: usize,
    /// Number of pairs of conditions that occur in a row. It is the number of all feasible pairs.
    pub pairs: usize,
    /// The pairs that no row can have, each in words with the reason.
    pub infeasible: Vec<(String, String)>,
}

/// Returns the rows of all tests with rows.
#[must_use]
pub fn rows() -> Vec<Rows> {
    let all = ALL.into_iter().map(|(test, matrix)| {
        let array = matrix.array(STRENGTHS.0);
        let infeasible = array.infeasible.iter();
        let infeasible = infeasible.map(|pair| (matrix.family.pair_in_words(pair), matrix.family.why_not(pair)));
        Rows {
            test: test.id,
            rows: array.rows.len(),
            pairs: array.covered,
            infeasible: infeasible.collect(),
        }
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_infeasible_pair_has_its_reason() {
        for rows in rows() {
            let is_unknown = |(_, why): &&(String, String)| why.starts_with("the values of several");
            assert_eq!(rows.infeasible.iter().find(is_unknown), None, "{}", rows.test);
        }
    }

    /// Returns the table of `docs/verbs-pair.md`: for each statement of chapters 9 to 11, the tests by packets and
    /// those between two adapters.
    fn table() -> String {
        let statements: BTreeSet<&str> = crate::TESTS
            .iter()
            .filter(|test| test.id.starts_with("c09-") && !test.id.starts_with("c09-link-"))
            .flat_map(|test| test.statements.iter().copied())
            .collect();
        let of = |statement: &str, need: Need| {
            let is_it = |test: &&&Test| test.needs == [need] && test.statements.contains(&statement);
            let ids: Vec<&str> = crate::TESTS.iter().filter(is_it).map(|test| test.id).collect();
            match ids.len() {
                0..4 => ids.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", "),
                many => format!("{many} tests"),
            }
        };
        let pairs = |statement: &str| {
            let is_it = |test: &&&Test| test.needs == [Need::Verbs] && test.statements.contains(&statement);
            let ids = crate::TESTS.iter().filter(is_it).map(|test| format!("`{}`", test.id));
            ids.collect::<Vec<_>>().join(", ")
        };
        let rows = statements.iter().map(|statement| {
            let (packets, pairs) = (of(statement, Need::Packets), pairs(statement));
            format!("| {statement} | {packets} | {pairs} |\n")
        });
        rows.collect()
    }

    #[test]
    fn page_lists_statements_of_pairs() {
        let page = include_str!("../../../../../../docs/verbs-pair.md");
        let table = table();
        assert!(
            page.contains(&table),
            "the table of docs/verbs-pair.md must be:\n{table}"
        );
    }

    #[test]
    fn all_defaults_are_legal() {
        for (test, matrix) in ALL {
            assert!(
                matrix.family.is_legal(&vec![0; matrix.family.factors.len()]),
                "{}",
                test.id
            );
        }
    }
}
