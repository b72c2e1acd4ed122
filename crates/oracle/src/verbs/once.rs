//! Rules of answers that nobody asked for: as many of one as there were requests for it, and no more; none to an atomic that the
//! connection cannot have done.
//!
//! Source: architecture 9.7.5.1 (acknowledgements), 9.7.5.2.8 (RNR NAK). An ACK may come again: it tells of credits. On hardware a
//! network may bring any frame twice, so that nothing is said there.

use std::collections::BTreeMap;

use verbatim_record::{Evidence, FrameSeen};

use super::asking::{Asking, VerbsRule};
use super::talk::Talk;
use crate::heard::{Asks, Heard};
use crate::rc::HALF;
use crate::rule::Rule;
use crate::rules::responder::Says;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::AnsweredOnce, answered_once),
    (Rule::AtomicUnknown, atomic_unknown),
];

/// What may come too often.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Read,
    Atomic,
    Rnr,
}

/// Answers to the same request: of which kind, and those that came more often than they were asked for.
type Came<'t> = BTreeMap<(Kind, u32), Vec<&'t FrameSeen>>;

fn too_many<'t>(talk: &Talk<'t>) -> Came<'t> {
    let Some(first) = talk.first() else {
        return Came::new();
    };
    let asked: Vec<(u32, u32, Asks, usize)> = talk
        .asked_anywhere()
        .map(|(offset, heard, frame)| (offset, talk.psns(&heard), Asks::of(heard.opcode), frame.place))
        .collect();
    let (mut times, mut came) = (BTreeMap::new(), Came::new());
    for (heard, frame) in talk.responses() {
        let kind = match Says::of(&heard) {
            Says::Read(_) => Kind::Read,
            Says::Atomic => Kind::Atomic,
            Says::Rnr => Kind::Rnr,
            _ => continue,
        };
        let offset = heard.psn.since(first);
        let asks_for_it = |(of, psns, asks, place): &&(u32, u32, Asks, usize)| {
            // How far its PSN lies behind that of the request, be it before the first.
            let into = offset.wrapping_sub(*of) & 0xFF_FFFF;
            *place < frame.place
                && match kind {
                    Kind::Read => *asks == Asks::Read && into < *psns,
                    Kind::Atomic => *asks == Asks::Atomic && into == 0,
                    // What comes behind it may bring it about, too.
                    Kind::Rnr => into == 0 || into > HALF,
                }
        };
        let times = times.entry((kind, offset)).or_insert(0);
        *times += 1;
        let more = came.entry((kind, offset)).or_default();
        if *times > asked.iter().filter(asks_for_it).count() {
            more.push(frame);
        }
    }
    came
}

fn answered_once<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    if !talk.is_lossless() {
        return;
    }
    for ((kind, _), more) in too_many(talk) {
        asking.must(more.is_empty(), more.iter().map(|frame| Evidence::from(*frame)), || {
            let seen = more
                .first()
                .map_or(String::new(), |one| format!("frame {} too", one.number));
            (format!("{kind:?}"), "one for each request".into(), seen)
        });
    }
}

fn atomic_unknown<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    let Some(first) = talk.first() else { return };
    for (offset, heard, frame) in talk.asked_anywhere() {
        if Asks::of(heard.opcode) != Asks::Atomic || offset < HALF {
            continue;
        }
        let is_it = |(of, answer): &(Heard<'_>, &FrameSeen)| {
            Says::of(of) == Says::Atomic && of.psn.since(first) == offset && answer.place > frame.place
        };
        let answer = talk.responses().find(is_it).map(|(_, answer)| answer);
        let evidence = [Some(frame), answer].into_iter().flatten().map(Evidence::from);
        asking.must(answer.is_none(), evidence, || {
            let about = format!("PSN {}, and the first is {first}", heard.psn);
            let seen = answer.map_or(String::new(), |one| format!("frame {}", one.number));
            (about, "no ATOMIC ACKNOWLEDGE".into(), seen)
        });
    }
}
