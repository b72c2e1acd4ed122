//! Captures with every packet twice, as from a switch that mirrors both ports, or from both ends of a tunnel.

use super::qp_trace::QpTrace;
use super::{Loss, judged};

/// Returns the frames, and a copy of each frame `later` frames after it.
fn doubled(qp: &QpTrace, later: usize) -> Vec<(u64, Vec<u8>)> {
    let mut at: Vec<(usize, &(u64, Vec<u8>))> = Vec::new();
    for (number, frame) in qp.frames.iter().enumerate() {
        at.push((2 * number, frame));
        at.push((2 * (number + later) + 1, frame));
    }
    at.sort_by_key(|(place, _)| *place);
    let mut frames: Vec<(u64, Vec<u8>)> = at.into_iter().map(|(_, frame)| frame.clone()).collect();
    for (number, (time, _)) in frames.iter_mut().enumerate() {
        *time = (*time).max(number as u64);
    }
    frames
}

#[test]
fn mirrored_capture_is_one_connection() {
    for later in 0..4 {
        let all = judged(Loss::Possible, &doubled(&QpTrace::of_everything(), later));
        let findings = all.iter().flat_map(|ended| &ended.connection.findings);
        let wrong: Vec<String> = findings
            .filter(|finding| finding.unless.is_none())
            .map(|finding| format!("{:?} {finding}", finding.packets))
            .collect();
        assert_eq!((all.len(), wrong), (1, vec![]), "{later} frames later");
    }
}
