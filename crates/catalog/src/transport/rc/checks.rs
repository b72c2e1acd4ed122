//! Checks that recur in tests of reliable connections.

use core::time::Duration;

use verbatim_record::verbs::{Event, Reply};
use verbatim_record::{Evidence, Findings, FrameSeen, Passed, Side, Trace, WaitDone, WcStatus, duration_words};
use verbatim_wire::packet::AckTimeout;

use verbatim_oracle::rc::{Dialogue, Done, Seen};

pub(crate) const ICRC: &str = "7.8.1 ICRC";
pub(crate) const NAKS: &str = "9.7.5.1.1 NAK handling";
pub(crate) const GENERATION: &str = "9.7.3 request generation";

/// Checks ICRC, transport version, P_Key and padding of every packet of the DUT.
///
/// Only `c09-reserved-bits` checks reserved bits.
pub(crate) fn sound_packets(f: &mut Findings<'_>, dialogue: &Dialogue<'_>) {
    for seen in dialogue.of_dut() {
        let (bth, frame) = (seen.packet.bth(), [Evidence::from(seen.frame)]);
        if !seen.packet.icrc_is_right() {
            let hex = |crc: Option<[u8; 4]>| crc.map_or_else(|| "none".into(), |crc| format!("{crc:02x?}"));
            let words = (hex(seen.packet.computed_icrc()), hex(seen.packet.icrc()));
            f.prove(ICRC, &frame, "ICRC", words, Passed::Fail);
        }
        if bth.tver() != 0 {
            f.prove(
                GENERATION,
                &frame,
                "BTH:TVer",
                ("0", bth.tver().to_string()),
                Passed::Fail,
            );
        }
        if bth.p_key().0 & 0x7FFF != 0x7FFF {
            let words = ("the default P_Key", bth.p_key().to_string());
            f.prove(GENERATION, &frame, "BTH:P_Key", words, Passed::Fail);
        }
        let padded = seen.packet.padded_payload().len();
        if padded % 4 != 0 {
            let words = ("a multiple of 4 bytes", format!("{padded} bytes"));
            f.prove(GENERATION, &frame, "payload with its padding", words, Passed::Fail);
        }
    }
}

/// Returns whether the DUT's host replied after a place in the record. A reply rules out that a dead host caused
/// silence before that place.
pub(crate) fn is_alive_after(trace: &Trace, place: usize) -> bool {
    trace.timeline.commands.iter().any(|command| {
        // The agent refuses commands by itself after the device disappeared, so a refusal proves nothing.
        let said = matches!(&command.answer, Some((.., reply, _)) if !matches!(reply, Reply::Refused(_)));
        command.place >= place && command.side == Side::Dut && said
    })
}

/// Returns the first and the last RNR NAK that the retry `transmissions[at]` may answer.
///
/// The first is the first NAK after the previous transmission, because a requester may wait longer than the interval.
/// The last is the newest NAK before the retry; it may be a repetition.
///
/// A repeated NAK may have crossed the previous transmission on the wire. The peer then sent the NAK at most one
/// round trip (`path`) before that transmission arrived. The retry may answer such a NAK. If no NAK qualifies as
/// the first, the last NAK is both.
pub(crate) fn answered_by<'t>(
    naks: &[&'t FrameSeen],
    transmissions: &[&FrameSeen],
    at: usize,
    path: Option<Duration>,
) -> Option<(&'t FrameSeen, &'t FrameSeen)> {
    let retry = transmissions.get(at)?.place;
    let before = transmissions.get(at.checked_sub(1)?)?;
    let earlier = at.checked_sub(2).map_or(0, |earlier| transmissions[earlier].place);
    let between = |nak: &&FrameSeen| nak.place > earlier && nak.place < before.place;
    let brought_before = naks.iter().copied().filter(between).map(|nak| nak.place).min();
    let crossed = |nak: &&FrameSeen| {
        brought_before.is_some_and(|cause| nak.place > cause)
            && path.is_none_or(|path| before.at.since(nak.at).0 <= path)
    };
    let so_far = || naks.iter().copied().filter(|nak| nak.place < retry);
    let last = so_far().max_by_key(|nak| nak.place)?;
    let first = so_far()
        .filter(|nak| nak.place > before.place || crossed(nak))
        .min_by_key(|nak| nak.place);
    Some((first.unwrap_or(last), last))
}

/// Returns the result for a missing effect: FAIL if the host is alive and no packet loss explains it, else
/// INCONCLUSIVE.
pub(crate) fn alive(trace: &Trace, place: usize, asked_again: bool) -> Passed {
    if (trace.begin.simulated || asked_again) && is_alive_after(trace, place) {
        Passed::Fail
    } else {
        Passed::Inconclusive
    }
}

/// Returns the note on an inconclusive duration, from which the longest round trip was subtracted.
pub(crate) fn taken_off(path: Option<Duration>, result: Passed) -> String {
    match path {
        _ if result != Passed::Inconclusive => String::new(),
        Some(path) => format!(
            "; the first value is reduced by {}, the longest round trip before or after the test",
            duration_words(path)
        ),
        None => "; the round trip was not measured, so no time is long enough".into(),
    }
}

/// Checks that the DUT sent nothing on this connection from a place to the end of a wait.
///
/// The result is inconclusive if the wait is shorter than the silence rule requires.
pub(crate) fn quiet(
    trace: &Trace,
    f: &mut Findings<'_>,
    statement: &str,
    about: &str,
    (dialogue, after, wait): (&Dialogue<'_>, usize, &WaitDone),
    rnr_interval: Duration,
) -> bool {
    let seen = dialogue.of_dut_between(after, wait.place);
    if let Some(first) = seen.first() {
        let evidence: Vec<Evidence<'_>> = seen.iter().map(|seen| seen.frame.into()).collect();
        return f.prove(
            statement,
            &evidence,
            about,
            ("no packet", first.packet.to_string()),
            Passed::Fail,
        );
    }
    let long_enough = wait.until.since(wait.since) >= silence(dialogue, rnr_interval);
    let result = if long_enough && is_alive_after(trace, wait.place) {
        Passed::Pass
    } else {
        Passed::Inconclusive
    };
    let seen = format!("no packet in {}", duration_words(wait.until.since(wait.since)));
    f.prove(statement, &[wait.into()], about, ("no packet", seen), result)
}

/// Returns how long silence must last on this connection.
fn silence(dialogue: &Dialogue<'_>, rnr_interval: Duration) -> Duration {
    let code = |value: Option<u32>| value.and_then(|value| u8::try_from(value).ok()).unwrap_or(0);
    verbatim_record::silence::rc_lasts(
        rnr_interval,
        AckTimeout(code(dialogue.attributes.timeout)),
        code(dialogue.attributes.retry_cnt),
    )
}

/// Checks that no request of this queue pair completed between two places.
pub(crate) fn no_completion(
    f: &mut Findings<'_>,
    statement: &str,
    about: &str,
    dialogue: &Dialogue<'_>,
    (after, before): (usize, usize),
) -> bool {
    let done = dialogue.completions_between(after, before);
    let evidence: Vec<Evidence<'_>> = done.iter().map(|done| done.event.into()).collect();
    let seen = done.first().map_or_else(
        || "none".into(),
        |done| format!("wr_id {} with {}", done.completion.wr_id, done.status()),
    );
    let result = if done.is_empty() { Passed::Pass } else { Passed::Fail };
    f.prove(statement, &evidence, about, ("no completion", seen), result)
}

/// Checks that exactly one request completed between two places: this wr_id, with an allowed status.
///
/// Returns the first completion, if there is one.
pub(crate) fn completion<'t>(
    trace: &'t Trace,
    f: &mut Findings<'_>,
    statement: &str,
    about: &str,
    (dialogue, after, before): (&Dialogue<'t>, usize, usize),
    (wr_id, allowed): (u64, &[WcStatus]),
) -> Option<Done<'t>> {
    let done = dialogue.completions_between(after, before);
    let evidence: Vec<Evidence<'_>> = done.iter().map(|done| done.event.into()).collect();
    let statuses: Vec<String> = allowed.iter().map(ToString::to_string).collect();
    let expected = format!("one completion, of wr_id {wr_id} with {}", statuses.join(" or "));
    let seen = match done.as_slice() {
        [] => "none".to_string(),
        all => all.iter().map(Done::in_words).collect::<Vec<_>>().join(", "),
    };
    let result = match done.as_slice() {
        [only] if only.completion.wr_id == wr_id && allowed.contains(&only.status()) => Passed::Pass,
        [] => alive(trace, before, false),
        _ => Passed::Fail,
    };
    f.prove(statement, &evidence, about, (expected, seen), result);
    done.first().copied()
}

/// Formats packets, for "seen".
pub(crate) fn in_words(packets: &[Seen<'_>]) -> String {
    match packets {
        [] => "no packet".into(),
        all => all
            .iter()
            .map(|seen| seen.packet.to_string())
            .collect::<Vec<_>>()
            .join("; "),
    }
}

/// Returns the completions of one side between two places, both excluded.
pub(crate) fn completions_of(trace: &Trace, side: Side, places: (usize, usize)) -> Vec<Done<'_>> {
    let told = trace.timeline.told_between(places).iter();
    told.filter(|told| told.side == side)
        .filter_map(|told| match &told.event {
            Event::Completion(completion) => Some(Done {
                event: told,
                completion,
            }),
            Event::AsyncEvent(_) => None,
        })
        .collect()
}

pub(crate) fn evidence<'t>(done: &[Done<'t>]) -> Vec<Evidence<'t>> {
    done.iter().map(|done| done.event.into()).collect()
}

/// Formats completions, for "seen".
pub(crate) fn completions_in_words(done: &[Done<'_>]) -> String {
    match done {
        [] => "none".into(),
        all => all.iter().map(Done::in_words).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbatim_record::{Span, Time};

    /// Returns a frame at a place in the record. The place is also the frame's time in milliseconds.
    fn at(place: usize) -> FrameSeen {
        FrameSeen {
            number: 1,
            label: String::new(),
            port: 0,
            received: false,
            at: Span::exactly(Time(place as u64 * 1_000_000)),
            bytes: Vec::new().into(),
            delimiter: None,
            place,
        }
    }

    /// Returns the places of the NAKs that the last transmission may answer.
    fn answered(naks: &[usize], transmissions: &[usize], path: Option<Duration>) -> Option<(usize, usize)> {
        let all = |places: &[usize]| places.iter().map(|place| at(*place)).collect::<Vec<_>>();
        let (naks, transmissions) = (all(naks), all(transmissions));
        let (naks, transmissions): (Vec<_>, Vec<_>) = (naks.iter().collect(), transmissions.iter().collect());
        let (first, last) = answered_by(&naks, &transmissions, transmissions.len() - 1, path)?;
        Some((first.place, last.place))
    }

    #[test]
    fn retry_answers_only_earlier_rnr_naks() {
        let path = Some(Duration::from_millis(1));
        assert_eq!(
            answered(&[3, 5, 9], &[1, 7], path),
            Some((3, 5)),
            "one that was sent again"
        );
        assert_eq!(
            answered(&[3, 5, 9], &[1, 4, 7], path),
            Some((5, 5)),
            "one before the transmission before is answered"
        );
        assert_eq!(
            answered(&[3, 5, 9], &[1, 6, 7], path),
            Some((5, 5)),
            "a second retry without another NAK, though one follows"
        );
        assert_eq!(answered(&[3, 5, 9], &[1, 2], path), None, "none before it");
    }

    #[test]
    fn retry_may_answer_a_crossed_rnr_nak() {
        let (naks, transmissions) = ([3, 50, 52], [1, 51, 90]);
        let within = |milliseconds| answered(&naks, &transmissions, Some(Duration::from_millis(milliseconds)));
        assert_eq!(within(1), Some((50, 52)), "it came in less than a round trip later");
        assert_eq!(answered(&naks, &transmissions, None), Some((50, 52)), "unknown path");
        assert_eq!(within(0), Some((52, 52)), "it came later");
        let first_alone = answered(&[50, 52], &[1, 51, 90], Some(Duration::from_millis(1)));
        assert_eq!(first_alone, Some((52, 52)), "the first brought the transmission before");
    }

    #[test]
    fn inconclusive_time_names_the_path() {
        let path = Duration::from_micros(1_050);
        assert_eq!(taken_off(Some(path), Passed::Pass), "");
        assert_eq!(
            taken_off(Some(path), Passed::Inconclusive),
            "; the first value is reduced by 1.05 ms, the longest round trip before or after the test"
        );
        assert!(taken_off(None, Passed::Inconclusive).contains("not measured"));
    }
}
