//! Shortens a failed walk: leaves out steps, as long as the remaining walk still fails.
//!
//! A walk is a test with the parameter `keep`, which has one bit per step. It may also have the parameter `connection`,
//! which selects one connection. A test with rows is shortened in the same way: `row` selects one row, and `keep` has
//! one bit per condition. Each try is a normal run of the test on the same rig, and the device is restored after
//! the try. A try leaves no record. The result goes into the walk's record as a note, from which the judge names the
//! remaining steps.

use verbatim_record_proto::v1::{Outcome, Verdict};
use verbatim_tester::{Case, Test};

/// Limit of tries.
const TRIES: u32 = 120;

/// The result of a try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Try {
    /// The shorter walk fails with the same fault.
    Fails,
    /// The shorter walk does not fail.
    Passes,
    /// No more tries: the run was cancelled, the rig is lost, or the time limit is over.
    Stop,
}

/// Runs a walk with other values of these parameters.
pub(crate) type Attempt<'a> = dyn FnMut(&[(&str, u64)]) -> Try + 'a;

/// Returns whether a test is a walk.
pub(crate) fn is_walk(test: &Test) -> bool {
    test.parameters.iter().any(|parameter| parameter.name == "keep")
}

/// Returns whether `verdict` shows the same fault as `first`: it fails the statement of the first finding of
/// `first`.
pub(crate) fn is_same(first: &Verdict, verdict: &Verdict) -> bool {
    let statement = first.findings.first().map(|finding| finding.statement.as_str());
    verdict.outcome() == Outcome::Fail && statement.is_some_and(|statement| verdict.fails(statement))
}

/// The parameters of a try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    /// The connection or the row; 0 for all.
    one: u64,
    keep: u64,
}

/// Returns a note on the shortest failing walk; None if no shorter walk fails. `attempt` runs the test with other
/// values of some parameters.
pub(crate) fn shrink(
    case: &Case<'_>,
    simulated: bool,
    failed_rows: &[u64],
    attempt: &mut Attempt<'_>,
) -> Option<String> {
    let value = |name: &str| case.parameter(name, simulated);
    let selector = ["connection", "row"].into_iter().find(|name| value(name).is_some());
    let whole = Part {
        one: selector.and_then(value).unwrap_or(0),
        keep: value("keep")?,
    };
    let mut tries = 0;
    let mut is_stopped = false;
    let mut fails = |part: Part| {
        if is_stopped || tries == TRIES {
            return false;
        }
        tries += 1;
        let one = selector.map(|name| (name, part.one));
        let given: Vec<(&str, u64)> = one.into_iter().chain([("keep", part.keep)]).collect();
        let came = attempt(&given);
        is_stopped = came == Try::Stop;
        came == Try::Fails
    };
    let mut left = whole;
    if let (0, Some(selector)) = (whole.one, selector) {
        // `keep` has one bit per step of one connection, so its width gives the number of connections of the walk.
        let keeps = case.test.parameters.iter().find(|parameter| parameter.name == "keep");
        let on_one = keeps.map_or(1, |keeps| keeps.range.1.count_ones().max(1));
        let candidates: Vec<u64> = match selector {
            "row" => failed_rows.to_vec(),
            _ => (1..=value("steps").unwrap_or(0).div_ceil(on_one.into()).max(1)).collect(),
        };
        let one = candidates.into_iter().map(|one| Part { one, ..whole });
        left = one.into_iter().find(|part| fails(*part)).unwrap_or(whole);
    }
    left.keep = fewest(left.keep, &mut |keep| fails(Part { keep, ..left }));
    (left != whole).then(|| {
        let one = selector.map_or(String::new(), |name| format!("{name}={} ", left.one));
        let words = if is_stopped { ", stopped early" } else { "" };
        format!("shrunk: {one}keep={} ({tries} tries{words})", left.keep)
    })
}

/// Returns a mask that still fails and of which no bit can be left out. Leaves out halves of the bits, then
/// quarters, down to single bits.
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

    /// Shrinks a mask of 16 bits that fails with the `needed` bits. Returns the remaining bits, and the number of
    /// tries.
    fn shrunk(needed: u64) -> (u64, u32) {
        let mut tries = 0;
        let mut fails = |mask: u64| {
            tries += 1;
            mask & needed == needed
        };
        (fewest(0xFFFF, &mut fails), tries)
    }

    #[test]
    fn keeps_only_the_needed_bits() {
        for needed in [1, 0x8000, 0x8001, 0x0550, 0x1111, 0xFFFF] {
            let (left, tries) = shrunk(needed);
            assert_eq!(left, needed);
            assert!(tries <= 64, "{tries} tries for {needed:#x}");
        }
    }
}
