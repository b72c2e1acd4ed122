//! `c07-link-directed-routes`: a port responds to a directed-route SMP only if the route ends at the port.
//!
//! The test sends Get(NodeInfo) as a neighbor forwards it, with the permissive LID. The port responds to routes of 0 to
//! 63 hops that end at it, and reverses the direction. A channel adapter ignores an SMP whose HopPointer is not at the
//! end of the route, or whose route has more than 63 hops. It also ignores an SMP whose route continues with a
//! LID-routed part, and an SMP on its return path. Reading: the port's own SMI produces a HopPointer of HopCount + 1,
//! so a response and no response are both legal. False alarm: none known.

use verbatim_record::{Findings, FrameSeen, Frames, Gap, Label, Passed, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{AttributeId, DrSmp, Layout, Lid, Mad, Method};

use crate::link::native::{self, Link, Rule, Wire, mad_in};

const DIRECTED: Rule = Rule::new("C14-9");
const SENT: Label<Frames> = DIRECTED.label;

/// HopCount, HopPointer, DrDLID and D of each request. The last request shows that the port still responds.
const ROUTES: [(u8, u8, Lid, bool); 18] = [
    (0, 0, Lid::PERMISSIVE, false),
    (1, 1, Lid::PERMISSIVE, false),
    (1, 0, Lid::PERMISSIVE, false),
    (1, 3, Lid::PERMISSIVE, false),
    (0, 2, Lid::PERMISSIVE, false),
    (3, 1, Lid::PERMISSIVE, false),
    (3, 2, Lid::PERMISSIVE, false),
    (3, 3, Lid::PERMISSIVE, false),
    (63, 63, Lid::PERMISSIVE, false),
    (63, 62, Lid::PERMISSIVE, false),
    (64, 64, Lid::PERMISSIVE, false),
    (255, 255, Lid::PERMISSIVE, false),
    (1, 1, Lid(5), false),
    (0, 0, Lid(5), false),
    (2, 2, Lid(0), false),
    (3, 2, Lid::PERMISSIVE, true),
    (3, 3, Lid::PERMISSIVE, true),
    (1, 1, Lid::PERMISSIVE, false),
];

pub(super) static TEST: Test = Test {
    id: "c07-link-directed-routes",
    aliases: &[],
    revision: 1,
    about: "An SMP on a directed route is answered where its route ends, and nowhere else.",
    reading: "The port answers if HopPointer = HopCount, at most 63, and no LID-routed part follows. HopPointer = \
        HopCount + 1 is left open.",
    statements: &["C14-9"],
    needs: &[Need::Link, Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut link = Link::open(t)?;
    for (hop_count, hop_pointer, dr_dlid, direction) in ROUTES {
        let mad = link.get_node();
        let mut smp = DrSmp::from_bytes(
            Mad::directed(Method::GET, AttributeId::NODE_INFO, 0, &[])
                .with_m_key(mad.m_key())
                .with_transaction_id(mad.transaction_id())
                .bytes(),
        )
        .with_hop_count(hop_count)
        .with_hop_pointer(hop_pointer)
        .with_dr_dlid(dr_dlid)
        .with_direction(direction);
        for hop in 1..=usize::from(hop_count.min(63)) {
            smp = smp.with_initial_path(hop, 1);
        }
        let Ok(mad) = Mad::try_from(smp.bytes()) else { continue };
        let wire = Wire::smp(Lid::PERMISSIVE, &mad).lrh(|lrh| lrh.with_slid(Lid::PERMISSIVE));
        link.probe(&DIRECTED, &wire.mended())?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    native::came_to(t)?;
    for frame in t.frames(SENT) {
        route(t, f, frame);
    }
    Ok(())
}

/// Judges the response to one SMP.
fn route(t: &Trace, f: &mut Findings<'_>, frame: &FrameSeen) {
    let Some(request) = mad_in(&frame.bytes) else { return };
    let smp = DrSmp::from_bytes(request.bytes());
    let (count, pointer) = (smp.hop_count(), smp.hop_pointer());
    let answer = native::answer_to(t, frame, &request);
    let about = format!(
        "HopCount {count}, HopPointer {pointer}, DrDLID {}, D {}",
        smp.dr_dlid(),
        u8::from(smp.direction())
    );
    let ends_here = count == pointer && count < 64 && smp.dr_dlid() == Lid::PERMISSIVE && !smp.direction();
    let seen = if answer.is_some() { "an answer" } else { "no answer" };
    let wait = native::wait_behind(t, frame);
    let (expected, result) = match (ends_here, answer) {
        (true, Some(_)) => ("an answer", Passed::Pass),
        // The tester's native link loses no packets.
        (true, None) if native::is_alive_behind(t, frame) => ("an answer", Passed::Fail),
        (true, None) => ("an answer", Passed::Inconclusive),
        (false, Some(_)) => ("no answer", Passed::Fail),
        (false, None) if wait.is_some() => ("no answer", Passed::Pass),
        (false, None) => ("no answer", Passed::Inconclusive),
    };
    f.claim("C14-9", &about)
        .by(frame)
        .by_all(answer)
        .by_all(wait.filter(|_| answer.is_none()))
        .saw(seen)
        .comes_to(expected, result);
    let response = answer.and_then(|answer| mad_in(&answer.bytes));
    let Some(response) = response.filter(|_| ends_here) else {
        return;
    };
    let back = DrSmp::from_bytes(response.bytes());
    let mut turned = vec![
        ("D", u8::from(back.direction()), 1),
        ("HopCount", back.hop_count(), count),
        ("HopPointer", back.hop_pointer(), count),
    ];
    if let (Ok(port), 1..) = (native::last(t, native::PORT, frame), count) {
        let entry = back.return_path(count.into());
        turned.push(("ReturnPath at HopCount", entry, port.local_port_num()));
    }
    for (name, seen, expected) in turned {
        f.claim("C14-9", format!("{name} of the answer ({about})"))
            .by_all(answer)
            .saw(seen)
            .is(expected);
    }
}
