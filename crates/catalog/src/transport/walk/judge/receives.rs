//! What the messages did to the host: receives completed once each and in order, and its memory.

use verbatim_record::verbs::Reply;
use verbatim_record::{Evidence, Findings, Gap, Passed, Trace, VerbsDone, WcStatus};

use super::{IMMEDIATE, RESPONSE_DATA, of, of_peer};
use crate::transport::rc::effect::{Received, differs};
use crate::transport::rc::{self, Case, Done, RESULTS, steps};
use crate::transport::walk::image::Image;
use crate::transport::walk::peer::{RECEIVES, SLOT, labels};

/// The receives completed once each and in order, with length and immediate data.
pub(super) fn judge(t: &Trace, f: &mut Findings<'_>, case: &Case<'_>, image: &Image) {
    let refused = of_peer(case, &[labels::ILLEGAL.name])
        .first()
        .map(|seen| seen.frame.place);
    let all = case.dialogue.completions.iter();
    let mut done: Vec<&Done<'_>> = all
        .filter(|done| done.completion.wr_id >= RECEIVES && done.status() != WcStatus::WR_FLUSH_ERR)
        .collect();
    // The receive of a request that is refused may end with an error of its own, and no other does.
    let is_of_refused = |done: &&Done<'_>| {
        done.status() != WcStatus::SUCCESS && refused.is_some_and(|refused| done.told.place > refused)
    };
    if let Some(at) = done.iter().position(is_of_refused) {
        done.remove(at);
    }
    if done.is_empty() && image.completed.is_empty() {
        return;
    }
    let words = |wr_id: u64, length: u32, imm: Option<u32>| {
        let imm = imm.map_or(String::new(), |imm| format!(", immediate {imm:#010x}"));
        format!("wr_id {wr_id}, {length} bytes{imm}")
    };
    let expected = |of: &Received| words(of.wr_id, of.byte_len, of.imm);
    let found = |done: &Done<'_>| {
        let of = done.completion;
        let status = match done.status() {
            WcStatus::SUCCESS => String::new(),
            status => format!(" with {status}"),
        };
        format!("{}{status}", words(of.wr_id, of.byte_len, of.imm))
    };
    let places = 0..done.len().max(image.completed.len());
    let wrong = places.into_iter().find_map(|at| {
        let expected = image.completed.get(at).map_or_else(|| "none".into(), expected);
        let found = done.get(at).map_or_else(|| "none".into(), |done| found(done));
        (expected != found).then_some((at, expected, found))
    });
    let Some((at, expected, found)) = wrong else {
        let words = ("in order, as sent", format!("{} of {}", done.len(), done.len()));
        f.prove(IMMEDIATE, &[], "receives", words, Passed::Pass);
        return;
    };
    let result = match done.get(at) {
        Some(_) => Passed::Fail,
        // The host tells over a reliable stream: nothing of this can be lost.
        None => rc::alive(t, case.end(), true),
    };
    let evidence: Vec<Evidence<'_>> = done.get(at).map(|done| done.told.into()).into_iter().collect();
    f.prove(
        IMMEDIATE,
        &evidence,
        &format!("receive {}", at + 1),
        (expected, found),
        result,
    );
}

/// The memory holds what the messages wrote and the responses brought, and nothing else has changed.
pub(super) fn memory(f: &mut Findings<'_>, read: &VerbsDone, image: &Image) -> Result<(), Gap> {
    let Some(Reply::Bytes(found)) = rc::reply(read) else {
        return Err(Gap::Missing(steps::MEMORY.name));
    };
    let mut bytes = found.bytes.clone();
    // What a receive holds that did not complete with success is nobody's business.
    for at in image.open_receives() {
        let until = (at + SLOT as usize).min(bytes.len()).min(image.bytes.len());
        if let (Some(found), Some(held)) = (bytes.get_mut(at..until), image.bytes.get(at..until)) {
            found.copy_from_slice(held);
        }
    }
    let held = image.bytes.get(..bytes.len()).unwrap_or(&image.bytes);
    let differing = held.iter().zip(&bytes).position(|(a, b)| a != b);
    let statement = match differing {
        Some(at) if at as u32 >= RESULTS => RESPONSE_DATA,
        _ => IMMEDIATE,
    };
    let words = (
        "what the messages wrote and the responses brought, each once and in order",
        differs(held, &bytes),
    );
    f.prove(statement, &[read.into()], "memory of the DUT", words, of(held == bytes));
    Ok(())
}
