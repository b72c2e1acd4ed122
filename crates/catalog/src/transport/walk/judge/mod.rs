//! What a walk must come to, whatever its steps were: each message executed once and in order, each request completed once, in
//! order, and not before its answer.
//!
//! The oracle judges the packets beside this, as in every test.

mod duplicates;
mod in_flight;
mod messages;
mod receives;
mod refused;
mod requests;

use verbatim_record::{Findings, Gap, Passed, Trace, WcStatus};

use super::image::Image;
use crate::transport::rc::{self, Case, Done, Seen, effect, steps};

pub(super) const COMPLETION: &str = "C9-60";
pub(super) const DUPLICATES: &str = "9.7.4.1.1 duplicate requests";
pub(super) const RESPONSE_DATA: &str = "9.7.6.1.1 response data";
pub(super) const NAKS: &str = "9.7.5.1.1 NAK handling";
pub(super) const INVALID: &str = "9.7.5.2.4 invalid request";
pub(super) const ACCESS: &str = "9.7.5.2.5 remote access";
pub(super) const ERRORS: &str = "9.9.3 responder errors";
pub(super) const IMMEDIATE: &str = "9.4.1 SEND and immediate";
pub(super) const ATOMICS: &str = "9.4.5 atomics";

/// One connection of a walk.
pub(super) fn connection(t: &Trace, f: &mut Findings<'_>, case: &Case<'_>) -> Result<(), Gap> {
    rc::sound_packets(f, &case.dialogue);
    if has_given_up(t, f, case) {
        return Ok(());
    }
    let filled = t
        .commands_between(steps::FILL, case.dialogue.places)
        .next()
        .ok_or(Gap::Missing(steps::FILL.name))?;
    let mut image = Image::new(effect::written(filled).to_vec(), case.dialogue.memory.0);
    let answered = messages::judge(t, f, case, &mut image);
    let completed = requests::judge(t, f, case, &mut image);
    duplicates::judge(t, f, case);
    refused::judge(t, f, case);
    if answered && completed {
        receives::judge(t, f, case, &image);
        let read = t
            .commands_between(steps::MEMORY, case.dialogue.places)
            .next()
            .ok_or(Gap::Missing(steps::MEMORY.name))?;
        receives::memory(f, read, &image)?;
    }
    Ok(())
}

/// Whether a request ran out of retries where answers may be lost or late: then nobody knows whose doing that was.
fn has_given_up(t: &Trace, f: &mut Findings<'_>, case: &Case<'_>) -> bool {
    let spent = |done: &&Done<'_>| done.status() == WcStatus::RETRY_EXC_ERR;
    let Some(done) = case
        .dialogue
        .completions
        .iter()
        .find(spent)
        .filter(|_| !t.begin.simulated)
    else {
        return false;
    };
    let words = ("answers that come in time", done.in_words());
    f.prove(COMPLETION, &[done.told.into()], "retries", words, Passed::Inconclusive);
    true
}

/// The peer's packets under some labels, in order.
fn of_peer<'t>(case: &Case<'t>, labels: &[&str]) -> Vec<Seen<'t>> {
    let is_one = |seen: &&Seen<'t>| !seen.frame.received && labels.contains(&seen.frame.label.as_str());
    case.dialogue.packets.iter().filter(is_one).copied().collect()
}

fn of(is_so: bool) -> Passed {
    if is_so { Passed::Pass } else { Passed::Fail }
}
