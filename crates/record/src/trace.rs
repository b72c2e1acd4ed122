//! A record as judges read it: exchanges by label.

mod tracing;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use std::sync::Arc;

use core::time::Duration;

use verbatim_wire::{Attribute, Lid, MKey, Mad, Method, PortInfo, RespTime, Status, SubnetTimeout};

use verbatim_record_proto::Restored;

use crate::entry::{Arrived, Begin, Entry, Match, Reset, Role, Sink as _, Stopped};
use crate::label::Label;
use crate::silence;
use crate::time::Span;
use crate::timeline::Timeline;

pub use tracing::Tracing;

/// A request and all that followed from it.
#[derive(Clone, PartialEq, Debug)]
pub struct Exchange {
    /// Its number, from 1 on.
    pub number: u32,
    /// Its label, shared by all exchanges under it.
    pub label: Arc<str>,
    /// 0 for the first try.
    pub attempt: u32,
    /// When the request left.
    pub sent: Span,
    /// The request.
    pub request: Mad,
    /// The rig's port that it left by.
    pub port: u32,
    /// The LID that it went to, where that is another than the rig's way to the device under test.
    pub dlid: Option<Lid>,
    /// What came in with its transaction id, in order.
    pub arrivals: Vec<Arrived>,
    /// When silence was found, and the codes its deadline rests on.
    pub silence: Option<(Span, RespTime, SubnetTimeout)>,
    /// When the host gave the MAD back unanswered, and its error number. It drops an answer that comes later.
    pub returned: Option<(Span, i32)>,
}

impl Exchange {
    /// The answer, in time or late.
    #[must_use]
    pub fn answer(&self) -> Option<&Arrived> {
        self.arrivals.iter().find(|arrived| match arrived.how {
            Match::Answer => true,
            Match::Late => self.is_answered_by(&arrived.mad),
            _ => false,
        })
    }

    /// Any response with the request's transaction id, be it the right one or not: it breaks silence.
    #[must_use]
    pub fn response(&self) -> Option<&Arrived> {
        self.answer()
            .or_else(|| self.arrivals.iter().find(|arrived| arrived.mad.method().is_response()))
    }

    /// Whether the device said that it was busy: the request may have been done or not.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.answer()
            .is_some_and(|arrived| arrived.mad.status() == Status::BUSY)
    }

    fn is_answered_by(&self, mad: &Mad) -> bool {
        unlike_an_answer(&self.request, mad).is_empty()
    }

    /// A response that is the answer in all but one field of its header, and that field.
    #[must_use]
    pub fn nearly_answered(&self) -> Option<(&Arrived, &'static str)> {
        self.arrivals.iter().find_map(|arrived| {
            let field = nearly_an_answer(&self.request, &arrived.mad)?;
            (arrived.how == Match::Wrong).then_some((arrived, field))
        })
    }

    /// Whether the wait was as long as the rule of silence asks, and the request did leave the host.
    ///
    /// A MAD that the host gave back before the deadline may never have reached the device.
    #[must_use]
    pub fn is_waited_out(&self, begin: &Begin) -> bool {
        let Some((found, resp_time, subnet_timeout)) = self.silence else {
            return false;
        };
        let needed = silence::lasts(resp_time, subnet_timeout, begin.host_bound);
        let gave_back = self
            .returned
            .is_some_and(|(at, _)| at.earliest.since(self.sent.latest) < needed);
        found.earliest.since(self.sent.latest) >= needed && !gave_back
    }

    /// Whether "no answer" is proven: nothing came, and it was waited for long enough.
    #[must_use]
    pub fn is_silent(&self, begin: &Begin) -> bool {
        self.response().is_none() && self.is_waited_out(begin)
    }

    /// One line for people.
    #[must_use]
    pub fn in_words(&self) -> String {
        let answer = match (self.answer(), self.arrivals.first(), &self.silence) {
            (Some(arrived), ..) => {
                let (low, high) = arrived.at.since(self.sent);
                let took = if low == high {
                    crate::duration_words(low)
                } else {
                    format!("{}..{}", crate::duration_words(low), crate::duration_words(high))
                };
                format!("{} after {took}{}", arrived.mad, arrived.at.source_words())
            }
            (None, Some(arrived), _) => match self.nearly_answered() {
                Some((nearly, field)) => format!("an answer but for its {field}: {}", nearly.mad),
                None => format!("no answer, but {} ({:?})", arrived.mad, arrived.how),
            },
            (None, None, Some((found, ..))) => {
                let waited = crate::duration_words(found.earliest.since(self.sent.latest));
                match self.returned {
                    Some((at, errno)) if at.earliest < found.earliest => format!(
                        "no answer in {waited}; the host gave it back after {} (error {errno}), so it may never have left",
                        crate::duration_words(at.earliest.since(self.sent.latest))
                    ),
                    Some((at, _)) => format!(
                        "no answer in {waited}, nor until the host gave it up after {}",
                        crate::duration_words(at.earliest.since(self.sent.latest))
                    ),
                    None => format!("no answer in {waited}"),
                }
            }
            (None, None, None) => "nothing recorded".into(),
        };
        let key = if self.request.is_smp() {
            format!(" M_Key {}", self.request.m_key())
        } else {
            String::new()
        };
        let to = self.dlid.map_or_else(String::new, |lid| format!(" to LID {lid}"));
        format!(
            "#{} \"{}\": {}{key}{to} -> {answer}",
            self.number, self.label, self.request
        )
    }
}

/// The fields of its header in which a MAD is not the response to a request whose TransactionID it has.
#[must_use]
pub fn unlike_an_answer(request: &Mad, mad: &Mad) -> Vec<&'static str> {
    let fields = [
        ("Method", mad.method() == Method::GET_RESP),
        ("MgmtClass", mad.class() == request.class()),
        ("AttributeID", mad.attribute_id() == request.attribute_id()),
        ("AttributeModifier", mad.modifier() == request.modifier()),
    ];
    fields
        .into_iter()
        .filter(|(_, same)| !same)
        .map(|(name, _)| name)
        .collect()
}

/// The one field in which it is not, if it is one.
#[must_use]
pub fn nearly_an_answer(request: &Mad, mad: &Mad) -> Option<&'static str> {
    match unlike_an_answer(request, mad)[..] {
        [field] => Some(field),
        _ => None,
    }
}

/// Why a judge cannot go on.
#[derive(Clone, PartialEq, Debug)]
pub enum Gap {
    /// Nothing was recorded under the label.
    Missing(&'static str),
    /// More than one exchange where the label is unique.
    Repeated(&'static str),
    /// All tries under the label stayed unanswered, by the rule of silence.
    NoAnswer(u32),
    /// A port without LID or SM refused a Set, as it may.
    NoLid(u32),
    /// The exchange was answered with an error status.
    Refused(u32, Status),
    /// An exchange was neither answered nor waited for long enough.
    Undecided(u32),
    /// What a check rests on does not hold.
    Unmet(&'static str, String),
    /// The procedure ended before it came to what is missing: why.
    Ended(String),
}

/// A record of one test, indexed.
#[derive(Debug)]
pub struct Trace {
    /// What was asked for.
    pub begin: Begin,
    /// Every exchange, by number − 1.
    pub exchanges: Vec<Exchange>,
    /// Why the procedure ended early, if it did.
    pub stopped: Option<Stopped>,
    /// What restoring came to.
    pub restored: Vec<Restored>,
    /// Runs of the rig's reset command after the restore.
    pub resets: Vec<Reset>,
    /// Notes of the procedure.
    pub notes: Vec<String>,
    /// Traps and strays.
    pub unasked: Vec<Arrived>,
    /// Frames, verbs commands and waits, in order.
    pub timeline: Timeline,
    labels: BTreeMap<Arc<str>, (Role, Vec<usize>)>,
    judged: RefCell<BTreeSet<String>>,
}

/// Why entries make no trace.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TraceError {
    /// The first entry is not Begin.
    #[error("the record does not begin with Begin")]
    NoBegin,
    /// An entry refers to an exchange or label that was not defined before it.
    #[error("entry {entry} refers to {what} {number}, which the record does not have")]
    Dangling {
        /// Place of the entry.
        entry: usize,
        /// Exchange or label.
        what: &'static str,
        /// Its number.
        number: u32,
    },
}

impl Trace {
    /// Indexes the entries of a record.
    ///
    /// # Errors
    /// When an entry refers to what is not there.
    pub fn new(entries: Vec<Entry>) -> Result<Self, TraceError> {
        let mut tracing = Tracing::default();
        for entry in entries {
            tracing.put(entry);
        }
        tracing.into_trace()
    }

    /// An empty one.
    fn of(begin: Begin) -> Self {
        Self {
            begin,
            exchanges: Vec::new(),
            stopped: None,
            restored: Vec::new(),
            resets: Vec::new(),
            notes: Vec::new(),
            unasked: Vec::new(),
            timeline: Timeline::default(),
            labels: BTreeMap::new(),
            judged: RefCell::default(),
        }
    }

    fn numbered(&mut self, number: u32) -> Option<&mut Exchange> {
        self.exchanges.get_mut((number as usize).checked_sub(1)?)
    }

    /// Says that a label was looked at.
    pub(crate) fn looked_at(&self, name: &str) {
        self.judged.borrow_mut().insert(name.to_string());
    }

    /// Begins judging: nothing was looked at yet.
    pub fn judged_anew(&self) {
        self.judged.borrow_mut().clear();
    }

    /// Declares that all that was recorded is judged, whatever its label.
    pub fn judged_whole(&self) {
        self.judged
            .borrow_mut()
            .extend(self.labels.keys().map(ToString::to_string));
    }

    /// All tries and keys under a label, in order; none when nothing was sent under it.
    pub fn each<A>(&self, label: Label<A>) -> impl Iterator<Item = &Exchange> {
        self.looked_at(label.name);
        self.labels
            .get(label.name)
            .into_iter()
            .flat_map(|(_, exchanges)| exchanges.iter().map(|&at| &self.exchanges[at]))
    }

    /// Declares that a judge does not go by what was recorded under a label, if anything was.
    pub fn not_judged<A>(&self, label: Label<A>) {
        self.looked_at(label.name);
    }

    /// Whether anything was sent under a label.
    #[must_use]
    pub fn has<A>(&self, label: Label<A>) -> bool {
        self.each(label).next().is_some()
    }

    /// The one exchange under a label: the last try.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn exchange<A>(&self, label: Label<A>) -> Result<&Exchange, Gap> {
        let firsts = self.each(label).filter(|exchange| exchange.attempt == 0).count();
        match (firsts, self.each(label).last()) {
            (0, _) | (_, None) => Err(Gap::Missing(label.name)),
            (1, Some(last)) => Ok(last),
            _ => Err(Gap::Repeated(label.name)),
        }
    }

    /// What was asked under a label: the M_Key and the attribute that the request carried.
    ///
    /// # Errors
    /// As [`Trace::exchange`].
    pub fn asked<A: Attribute>(&self, label: Label<A>) -> Result<(MKey, A), Gap> {
        let request = &self.exchange(label)?.request;
        Ok((request.m_key(), request.attribute()))
    }

    /// What was answered with success under a label.
    ///
    /// # Errors
    /// As [`Trace::exchange`], and when there was no answer or an error status.
    pub fn answer<A: Attribute>(&self, label: Label<A>) -> Result<A, Gap> {
        self.answered(self.exchange(label)?)
    }

    /// The attribute that an exchange was answered with.
    ///
    /// # Errors
    /// When there was no answer or an error status.
    pub fn answered<A: Attribute>(&self, exchange: &Exchange) -> Result<A, Gap> {
        match exchange.answer() {
            Some(arrived) if arrived.mad.status() == Status::OK => Ok(arrived.mad.attribute()),
            Some(arrived) => Err(Gap::Refused(exchange.number, arrived.mad.status())),
            None if exchange.is_waited_out(&self.begin) => Err(Gap::NoAnswer(exchange.number)),
            None => Err(Gap::Undecided(exchange.number)),
        }
    }

    /// The answer of a keyed series for one AttributeModifier: of its last try.
    #[must_use]
    pub fn keyed<A>(&self, label: Label<A>, modifier: u32) -> Option<&Exchange> {
        self.each(label)
            .filter(|exchange| exchange.request.modifier() == modifier)
            .last()
    }

    /// How many tries of a request stayed unanswered, up to this one: not those that found the device busy.
    #[must_use]
    pub fn silences(&self, exchange: &Exchange) -> usize {
        let places = self.labels.get(&exchange.label).map_or(&[][..], |(_, places)| places);
        let tries = places.iter().rev().map(|place| &self.exchanges[*place]);
        let series =
            tries.filter(|of| of.number <= exchange.number && of.request.modifier() == exchange.request.modifier());
        let mut silent = 0;
        for of in series {
            silent += usize::from(of.response().is_none());
            if of.attempt == 0 {
                break;
            }
        }
        silent
    }

    /// The first try of a request.
    #[must_use]
    pub fn first_try<'t>(&'t self, exchange: &'t Exchange) -> &'t Exchange {
        let places = self.labels.get(&exchange.label).map_or(&[][..], |(_, places)| places);
        let tries = places.iter().rev().map(|place| &self.exchanges[*place]);
        let mut earlier = tries.filter(|of| of.number <= exchange.number && of.attempt == 0);
        earlier.next().unwrap_or(exchange)
    }

    /// How many SMPs that carried another key than this one found the device busy, from one exchange to another: whether
    /// their keys were looked at is not known.
    #[must_use]
    pub fn busy_with_another_key(&self, key: MKey, from: &Exchange, to: &Exchange) -> usize {
        let between = self.exchanges.iter().skip(from.number as usize);
        let between = between.take_while(|exchange| exchange.number < to.number);
        between
            .filter(|exchange| exchange.is_busy() && exchange.request.m_key() != key)
            .count()
    }

    /// Demands that something holds on which a check rests.
    ///
    /// # Errors
    /// When it does not.
    pub fn require<A>(&self, label: Label<A>, what: &str, holds: bool) -> Result<(), Gap> {
        if holds {
            Ok(())
        } else {
            Err(Gap::Unmet(label.name, what.into()))
        }
    }

    /// How long a packet may take one way through the subnet: by the rig file, else as the port itself tells.
    #[must_use]
    pub fn way(&self, port: &PortInfo) -> Duration {
        self.begin.subnet_timeout.unwrap_or(port.subnet_timeout()).duration()
    }

    /// The value of a parameter, as recorded.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<u64> {
        self.begin
            .parameters
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| *value)
    }

    /// The last exchange of the procedure itself: the one that an early end is about.
    #[must_use]
    pub fn last_of_procedure(&self) -> Option<&Exchange> {
        let mut places = self
            .labels
            .values()
            .filter(|(role, _)| *role == Role::Test)
            .flat_map(|(_, places)| places.last());
        let first = *places.next()?;
        Some(&self.exchanges[places.fold(first, |last, place| last.max(*place))])
    }

    /// Labels of the procedure that no judge looked at: a defect of the test.
    #[must_use]
    pub fn unjudged(&self) -> Vec<&str> {
        let judged = self.judged.borrow();
        self.labels
            .iter()
            .filter(|(name, (role, exchanges))| {
                let used = !exchanges.is_empty() || self.timeline.uses(name);
                *role == Role::Test && used && !judged.contains(&***name)
            })
            .map(|(name, _)| &**name)
            .collect()
    }

    /// A response that came while that exchange was waited for, belongs to no request by its TransactionID, and is its
    /// answer in all else.
    #[must_use]
    pub fn answered_as_another(&self, exchange: &Exchange) -> Option<&Arrived> {
        let until = exchange.silence.as_ref().map(|(at, ..)| at.latest);
        self.unasked.iter().find(|arrived| {
            arrived.how == Match::Stray
                && arrived.port == exchange.port
                && exchange.is_answered_by(&arrived.mad)
                && arrived.at.latest >= exchange.sent.earliest
                && until.is_none_or(|until| arrived.at.earliest <= until)
        })
    }

    /// Whether the device answered anything after that exchange was sent: it was alive, then.
    #[must_use]
    pub fn alive_after(&self, number: u32) -> bool {
        self.exchanges
            .iter()
            .skip(number as usize)
            .any(|exchange| exchange.answer().is_some())
    }
}
