//! A walk that fails is made short: its steps are left out, a few at a time, as long as what is left still fails.
//!
//! A walk is a test with the parameter `keep`, a bit for each step that is taken; it may have `connection` too, the one
//! connection that is taken. Each try is a run of the test like any other, on the same rig, with the device restored after
//! it; none of them leaves a record. What was found goes into the record of the walk as a note, from which its judge says
//! which steps are left.

use verbatim_record_proto::v1::{Outcome, Verdict};
use verbatim_tester::{Case, Test};

/// Tries, at most.
const TRIES: u32 = 120;

/// What became of a try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Try {
    /// It fails as the whole walk did.
    Fails,
    /// It does not.
    Passes,
    /// No more tries: the run was cancelled, the rig is gone, or it took too long.
    Stop,
}

/// Runs a walk with other values of some parameters.
pub(crate) type Attempt<'a> = dyn FnMut(&[(&str, u64)]) -> Try + 'a;

/// Whether a test is a walk.
pub(crate) fn is_walk(test: &Test) -> bool {
    test.parameters.iter().any(|parameter| parameter.name == "keep")
}

/// Whether a verdict shows the fault that another one has shown: the device broke the statement of its first finding.
pub(crate) fn is_same(first: &Verdict, verdict: &Verdict) -> bool {
    let statement = first.findings.first().map(|finding| finding.statement.as_str());
    verdict.outcome() == Outcome::Fail && statement.is_some_and(|statement| verdict.fails(statement))
}

/// Parameters of a walk that is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    connection: u64,
    keep: u64,
}

/// The note on the shortest walk that was found to fail; none when no shorter one did. `attempt` runs the test with other
/// values of some parameters.
pub(crate) fn shrink(case: &Case<'_>, simulated: bool, attempt: &mut Attempt<'_>) -> Option<String> {
    let value = |name: &str| case.parameter(name, simulated);
    let whole = Part {
        connection: value("connection").unwrap_or(0),
        keep: value("keep")?,
    };
    let mut tries = 0;
    let mut is_stopped = false;
    let mut fails = |part: Part| {
        if is_stopped || tries == TRIES {
            return false;
        }
        tries += 1;
        let all = [("connection", part.connection), ("keep", part.keep)];
        let declared = |name: &str| case.test.parameters.iter().any(|parameter| parameter.name == name);
        let given: Vec<(&str, u64)> = all.into_iter().filter(|(name, _)| declared(name)).collect();
        let came = attempt(&given);
        is_stopped = came == Try::Stop;
        came == Try::Fails
    };
    let mut left = whole;
    let keeps = case.test.parameters.iter().find(|parameter| parameter.name == "keep");
    if whole.connection == 0
        && let Some(range) = case
            .test
            .parameters
            .iter()
            .find(|parameter| parameter.name == "connection")
    {
        // The mask has a bit for each step that a connection may have.
        let on_one = keeps.map_or(1, |keeps| keeps.range.1.count_ones().max(1));
        let count = value("steps").unwrap_or(0).div_ceil(on_one.into());
        let one = (1..=count.clamp(1, range.range.1)).map(|connection| Part { connection, ..whole });
        left = one.into_iter().find(|part| fails(*part)).unwrap_or(whole);
    }
    left.keep = fewest(left.keep, &mut |keep| fails(Part { keep, ..left }));
    (left != whole).then(|| {
        let connection = if value("connection").is_some() {
            format!("connection={} ", left.connection)
        } else {
            String::new()
        };
        let words = if is_stopped { ", stopped early" } else { "" };
        format!("shrunk: {connection}keep={} ({tries} tries{words})", left.keep)
    })
}

/// The fewest bits of a mask that still fail: halves are left out, then quarters, down to single ones, until none of these can
/// be left out any more.
fn fewest(mut mask: u64, fails: &mut dyn FnMut(u64) -> bool) -> u64 {
    let mut size = mask.count_ones().div_ceil(2).max(1);
    loop {
        let mut is_shorter = false;
        let bits: Vec<u32> = (0..64).filter(|bit| mask >> bit & 1 == 1).collect();
        for chunk in bits.chunks(size as usize) {
            let without = chunk.iter().fold(mask, |mask, bit| mask & !(1 << bit));
            if without != 0 && without != mask && fails(without) {
                mask = without;
                is_shorter = true;
            }
        }
        match (is_shorter, size) {
            (true, _) => size = size.min(mask.count_ones().div_ceil(2)).max(1),
            (false, 1) => return mask,
            (false, _) => size = size.div_ceil(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shrinks a mask of 16 bits of which these are needed. What is left, and tries.
    fn shrunk(needed: u64) -> (u64, u32) {
        let mut tries = 0;
        let mut fails = |mask: u64| {
            tries += 1;
            mask & needed == needed
        };
        (fewest(0xFFFF, &mut fails), tries)
    }

    #[test]
    fn what_is_left_of_a_walk_is_what_it_takes_to_fail() {
        for needed in [1, 0x8000, 0x8001, 0x0550, 0x1111, 0xFFFF] {
            let (left, tries) = shrunk(needed);
            assert_eq!(left, needed);
            assert!(tries <= 64, "{tries} tries for {needed:#x}");
        }
    }
}
