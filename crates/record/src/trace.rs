//! The view of a record for judges: exchanges by label.

mod tracing;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use std::sync::Arc;

use core::time::Duration;

use verbatim_wire::{Attribute, Lid, MKey, Mad, Method, PortInfo, RespTime, Status, SubnetTimeout};

use verbatim_record_proto::Restored;

use crate::entry::verbs::KernelReport;
use crate::entry::{Arrived, Begin, Entry, Match, Reset, Role, Sink as _, Stopped};
use crate::label::Label;
use crate::silence;
use crate::time::Span;
use crate::timeline::Timeline;

pub use tracing::Tracing;

/// A request with its responses.
#[derive(Clone, PartialEq, Debug)]
pub struct Exchange {
    /// The exchange's number, counted from 1.
    pub number: u32,
    /// The label's text, shared by all exchanges under it.
    pub label: Arc<str>,
    /// The number of the retry; 0 for the first try.
    pub attempt: u32,
    /// The time at which the request left.
    pub sent: Span,
    /// The request.
    pub request: Mad,
    /// The number of the rig's port that sent the request.
    pub port: u32,
    /// The destination LID, if it differs from the LID that the rig file configures for the device under test.
    pub dlid: Option<Lid>,
    /// Received MADs with the request's transaction ID, in order.
    pub arrivals: Vec<Arrived>,
    /// The time at which the tester noticed the expired deadline, and the two time codes of the deadline.
    pub silence: Option<(Span, RespTime, SubnetTimeout)>,
    /// The time at which the host returned the MAD as unanswered, and its errno. The host then drops a later response.
    pub returned: Option<(Span, i32)>,
}

impl Exchange {
    /// Returns the response, in time or late.
    #[must_use]
    pub fn answer(&self) -> Option<&Arrived> {
        self.arrivals.iter().find(|arrived| match arrived.how {
            Match::Answer => true,
            Match::Late => self.is_answered_by(&arrived.mad),
            _ => false,
        })
    }

    /// Returns any response with the request's transaction ID, even a malformed response. Any response disproves
    /// silence.
    #[must_use]
    pub fn response(&self) -> Option<&Arrived> {
        self.answer()
            .or_else(|| self.arrivals.iter().find(|arrived| arrived.mad.method().is_response()))
    }

    /// Returns whether the device responded with BUSY. A busy device may or may not have executed the request.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.answer()
            .is_some_and(|arrived| arrived.mad.status() == Status::BUSY)
    }

    fn is_answered_by(&self, mad: &Mad) -> bool {
        unlike_an_answer(&self.request, mad).is_empty()
    }

    /// Returns a MAD that differs from the expected response in one header field only, and that field's name.
    #[must_use]
    pub fn nearly_answered(&self) -> Option<(&Arrived, &'static str)> {
        self.arrivals.iter().find_map(|arrived| {
            let field = nearly_an_answer(&self.request, &arrived.mad)?;
            (arrived.how == Match::Wrong).then_some((arrived, field))
        })
    }

    /// Returns whether the tester waited as long as [`silence::lasts`] requires, and the host did not return the MAD
    /// during that wait. A MAD that the host returned may never have reached the device.
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

    /// Returns whether the lack of a response is proven: none arrived, and the tester waited long enough.
    #[must_use]
    pub fn is_silent(&self, begin: &Begin) -> bool {
        self.response().is_none() && self.is_waited_out(begin)
    }

    /// Describes the exchange in one line.
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
                        "no answer in {waited}; the host returned the request after {} (error {errno}), so it may \
                         never have left",
                        crate::duration_words(at.earliest.since(self.sent.latest))
                    ),
                    Some((at, _)) => format!(
                        "no answer in {waited}; the host gave the request up after {}",
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

/// Returns the header fields in which a MAD with the request's TransactionID differs from a response to the request.
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

/// Returns the header field in which a MAD differs from a response to the request, or `None` if no field or several
/// fields differ.
#[must_use]
pub fn nearly_an_answer(request: &Mad, mad: &Mad) -> Option<&'static str> {
    match unlike_an_answer(request, mad)[..] {
        [field] => Some(field),
        _ => None,
    }
}

/// The reason why a judge cannot continue.
#[derive(Clone, PartialEq, Debug)]
pub enum Gap {
    /// The record has no exchange, frame, command or wait under the label.
    Missing(&'static str),
    /// The record has more than one exchange, frame, command or wait under a label that must be unique.
    Repeated(&'static str),
    /// The exchange stayed without a response, and the wait was long enough to prove silence.
    NoAnswer(u32),
    /// A port without LID or SM refused a Set. Such a refusal is legal.
    NoLid(u32),
    /// The response had an error status.
    Refused(u32, Status),
    /// The exchange had no response, and the wait was too short to prove silence.
    Undecided(u32),
    /// A precondition of a check does not hold.
    Unmet(&'static str, String),
    /// The procedure ended before it sent the missing exchange; the text is the reason.
    Ended(String),
}

/// The indexed record of one test.
#[derive(Debug)]
pub struct Trace {
    /// The test, its parameters and the rig.
    pub begin: Begin,
    /// The exchanges; exchange n is at index n − 1.
    pub exchanges: Vec<Exchange>,
    /// The reason of an early end of the procedure.
    pub stopped: Option<Stopped>,
    /// The results of the restore.
    pub restored: Vec<Restored>,
    /// Runs of the rig's reset command after the restore.
    pub resets: Vec<Reset>,
    /// Reports of kernels on their consoles.
    pub kernel_reports: Vec<KernelReport>,
    /// Remarks of the procedure.
    pub notes: Vec<String>,
    /// Traps, and MADs with an unknown transaction ID.
    pub unasked: Vec<Arrived>,
    /// Frames, verbs commands, events and waits, in order.
    pub timeline: Timeline,
    labels: BTreeMap<Arc<str>, (Role, Vec<usize>)>,
    judged: RefCell<BTreeSet<String>>,
}

/// The reason why entries are not a trace.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TraceError {
    /// The first entry is not `Begin`.
    #[error("the record does not begin with Begin")]
    NoBegin,
    /// An entry refers to an exchange, command, frame or label that no earlier entry defined.
    #[error("entry {entry} refers to {what} {number}, which the record does not have")]
    Dangling {
        /// The index of the entry.
        entry: usize,
        /// The kind of the undefined item.
        what: &'static str,
        /// The number of the undefined item.
        number: u32,
    },
}

impl Trace {
    /// Indexes the entries of a record.
    ///
    /// # Errors
    /// Returns an error when the first entry is not `Begin`, or an entry refers to an undefined item.
    pub fn new(entries: Vec<Entry>) -> Result<Self, TraceError> {
        let mut tracing = Tracing::default();
        for entry in entries {
            tracing.put(entry);
        }
        tracing.into_trace()
    }

    fn of(begin: Begin) -> Self {
        Self {
            begin,
            exchanges: Vec::new(),
            stopped: None,
            restored: Vec::new(),
            resets: Vec::new(),
            kernel_reports: Vec::new(),
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

    /// Marks a label as judged.
    pub(crate) fn looked_at(&self, name: &str) {
        self.judged.borrow_mut().insert(name.to_string());
    }

    /// Marks all labels as not judged.
    pub fn judged_anew(&self) {
        self.judged.borrow_mut().clear();
    }

    /// Marks all labels as judged.
    pub fn judged_whole(&self) {
        self.judged
            .borrow_mut()
            .extend(self.labels.keys().map(ToString::to_string));
    }

    /// Returns all exchanges under a label, in order.
    pub fn each<A>(&self, label: Label<A>) -> impl Iterator<Item = &Exchange> {
        self.looked_at(label.name);
        self.labels
            .get(label.name)
            .into_iter()
            .flat_map(|(_, exchanges)| exchanges.iter().map(|&at| &self.exchanges[at]))
    }

    /// Marks a label as judged, although the judge does not use its exchanges.
    pub fn not_judged<A>(&self, label: Label<A>) {
        self.looked_at(label.name);
    }

    /// Returns whether the tester sent any request under a label.
    #[must_use]
    pub fn has<A>(&self, label: Label<A>) -> bool {
        self.each(label).next().is_some()
    }

    /// Returns the last try of the only request under a label.
    ///
    /// # Errors
    /// Returns an error when there is no request or more than one.
    pub fn exchange<A>(&self, label: Label<A>) -> Result<&Exchange, Gap> {
        let firsts = self.each(label).filter(|exchange| exchange.attempt == 0).count();
        match (firsts, self.each(label).last()) {
            (0, _) | (_, None) => Err(Gap::Missing(label.name)),
            (1, Some(last)) => Ok(last),
            _ => Err(Gap::Repeated(label.name)),
        }
    }

    /// Returns the M_Key and the attribute of the request under a label.
    ///
    /// # Errors
    /// Returns the errors of [`Trace::exchange`].
    pub fn asked<A: Attribute>(&self, label: Label<A>) -> Result<(MKey, A), Gap> {
        let request = &self.exchange(label)?.request;
        Ok((request.m_key(), request.attribute()))
    }

    /// Returns the attribute of the successful response under a label.
    ///
    /// # Errors
    /// Returns the errors of [`Trace::exchange`], and an error when there was no response or an error status.
    pub fn answer<A: Attribute>(&self, label: Label<A>) -> Result<A, Gap> {
        self.answered(self.exchange(label)?)
    }

    /// Returns the attribute of an exchange's response.
    ///
    /// # Errors
    /// Returns an error when there was no response, or an error status.
    pub fn answered<A: Attribute>(&self, exchange: &Exchange) -> Result<A, Gap> {
        match exchange.answer() {
            Some(arrived) if arrived.mad.status() == Status::OK => Ok(arrived.mad.attribute()),
            Some(arrived) => Err(Gap::Refused(exchange.number, arrived.mad.status())),
            None if exchange.is_waited_out(&self.begin) => Err(Gap::NoAnswer(exchange.number)),
            None => Err(Gap::Undecided(exchange.number)),
        }
    }

    /// Returns the last try of the request under this label that has this AttributeModifier.
    #[must_use]
    pub fn keyed<A>(&self, label: Label<A>, modifier: u32) -> Option<&Exchange> {
        self.each(label)
            .filter(|exchange| exchange.request.modifier() == modifier)
            .last()
    }

    /// Returns how many tries of the request stayed without a response, up to and including this exchange. A BUSY
    /// response counts as a response.
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

    /// Returns the first try of a request.
    #[must_use]
    pub fn first_try<'t>(&'t self, exchange: &'t Exchange) -> &'t Exchange {
        let places = self.labels.get(&exchange.label).map_or(&[][..], |(_, places)| places);
        let tries = places.iter().rev().map(|place| &self.exchanges[*place]);
        let mut earlier = tries.filter(|of| of.number <= exchange.number && of.attempt == 0);
        earlier.next().unwrap_or(exchange)
    }

    /// Returns how many SMPs with a key other than `key` got a BUSY response strictly between two exchanges. The device
    /// may or may not have checked their keys.
    #[must_use]
    pub fn busy_with_another_key(&self, key: MKey, from: &Exchange, to: &Exchange) -> usize {
        let between = self.exchanges.iter().skip(from.number as usize);
        let between = between.take_while(|exchange| exchange.number < to.number);
        between
            .filter(|exchange| exchange.is_busy() && exchange.request.m_key() != key)
            .count()
    }

    /// Requires that a precondition of a check holds.
    ///
    /// # Errors
    /// Returns [`Gap::Unmet`] when the precondition does not hold.
    pub fn require<A>(&self, label: Label<A>, what: &str, holds: bool) -> Result<(), Gap> {
        if holds {
            Ok(())
        } else {
            Err(Gap::Unmet(label.name, what.into()))
        }
    }

    /// Returns the longest one-way time of a packet through the subnet, from the rig file or else from the port.
    #[must_use]
    pub fn way(&self, port: &PortInfo) -> Duration {
        self.begin.subnet_timeout.unwrap_or(port.subnet_timeout()).duration()
    }

    /// Returns the value of a parameter.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<u64> {
        self.begin
            .parameters
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| *value)
    }

    /// Returns the procedure's last exchange. The reason of an early end refers to this exchange.
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

    /// Returns the procedure's labels that no judge looked up. An unjudged label is a defect of the test.
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

    /// Returns a MAD that would be the response to this exchange, but has an unknown TransactionID. The port received
    /// it before the exchange's deadline.
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

    /// Returns whether the device responded to any request that was sent after this exchange's request.
    #[must_use]
    pub fn alive_after(&self, number: u32) -> bool {
        self.exchanges
            .iter()
            .skip(number as usize)
            .any(|exchange| exchange.answer().is_some())
    }
}
