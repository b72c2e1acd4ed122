//! Helpers that the tests of reliable connections share: dialogues read from the record, and recurring checks.

pub(crate) mod answer;
pub(crate) mod ask;
mod case;
mod checks;
pub(crate) mod effect;
pub(crate) mod offers;
pub(crate) mod refusal;
mod requester;

pub(crate) use case::{Case, asked_again, cases};
pub(crate) use checks::{
    GENERATION, ICRC, NAKS, alive, answered_by, completion, completions_in_words, completions_of, evidence, in_words,
    is_alive_after, no_completion, quiet, sound_packets, taken_off,
};
pub(crate) use requester::{Ask, RESULTS, Requester, Sent, read_response, response_data};
pub(crate) use verbatim_oracle::rc::{Dialogue, Done, Seen, dialogues, path, psns, reply, steps};

use verbatim_record::verbs::{Command, Reply};
use verbatim_record::{Frames, Gap, Label, Side, Trace};

/// Checks that the peer sent at least one frame under each of these labels.
///
/// # Errors
/// Returns an error that names the first label without a frame.
pub(crate) fn came(t: &Trace, labels: &[Label<Frames>]) -> Result<(), Gap> {
    let missing = labels.iter().find(|label| t.frames(**label).next().is_none());
    missing.map_or(Ok(()), |label| Err(Gap::Missing(label.name)))
}

/// Checks that the peer sent a frame under one of these labels on each connection with a posted request.
///
/// # Errors
/// Returns an error when the DUT's host accepted a request on a connection that has no such frame.
pub(crate) fn came_on_each(t: &Trace, labels: &[Label<Frames>]) -> Result<(), Gap> {
    for dialogue in dialogues(t)? {
        let (after, before) = dialogue.places;
        let within = |place: usize| place > after && place < before;
        let is_post = |command: &Command| matches!(command, Command::PostSend(_));
        let mut commands = t
            .timeline
            .commands
            .iter()
            .filter(|done| done.side == Side::Dut && within(done.place));
        let posts = commands.any(|done| {
            let refused = matches!(done.answer, Some((_, _, Reply::Refused(_), _)));
            is_post(&done.command) && !refused
        });
        let came = labels
            .iter()
            .any(|label| t.frames(*label).any(|frame| within(frame.place)));
        if posts && !came {
            return Err(Gap::Missing(labels[0].name));
        }
    }
    Ok(())
}

/// Checks that the DUT responded, with a packet other than a NAK, to the last packet sent under this label.
///
/// One connection with this response is enough.
///
/// # Errors
/// Returns an error when no connection has such a response.
pub(crate) fn answered(t: &Trace, label: Label<Frames>) -> Result<(), Gap> {
    let is_answered = |turn: answer::Turn<'_>| {
        let mut answers = turn.answers.iter().filter(|seen| answer::nak_in(seen).is_none());
        answers.any(|seen| seen.psn().since(turn.last_sent()) < ask::HALF)
    };
    let all = dialogues(t)?;
    let mut turns = all.iter().filter_map(|dialogue| answer::turn(t, dialogue, label));
    match turns.any(is_answered) {
        true => Ok(()),
        false => Err(Gap::Unmet(
            label.name,
            "the condition that the DUT responds with a packet other than a NAK".into(),
        )),
    }
}
