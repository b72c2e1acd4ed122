//! Model of a port's possible state. Every SMP that reaches the port changes the model, and every response is compared
//! with the model.

use std::collections::{BTreeMap, BTreeSet};

use verbatim_record::{Begin, Exchange, Span, TRIES};
use verbatim_wire::values::NodeType;
use verbatim_wire::{AttributeId, Lid, MKey, Mad, Method, NodeInfo, PortInfo, Status};

use super::access::{self, Becomes, Facts, Legal, Place, is_of_version_1, moves_link, sends_no_traps};
use super::image::{Denied, Image};
use super::known::{Known, Sure};
use super::lock::{Expired, Lock};
use crate::Rule;

/// Violation of a rule by an exchange.
#[derive(Clone, PartialEq, Debug)]
pub struct Broken {
    /// Rule that is broken.
    pub rule: Rule,
    /// Field or message that the rule checks.
    pub about: String,
    /// Legal value.
    pub expected: String,
    /// Value that was seen.
    pub seen: String,
    /// Numbers of the exchanges that show the violation.
    pub exchanges: Vec<u32>,
    /// Whether loss, a kernel or a subnet manager may have caused the violation.
    pub excusable: bool,
    /// M_Key, protection level and lease in force, in words, if the rule depends on them.
    pub given: Option<String>,
}

/// Outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Answered(Status),
    /// The port was busy, and may or may not have executed the request.
    Busy,
    /// A MAD came back that does not answer the request.
    Unclear,
    Silent,
}

/// Request that has no response yet.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) place: Place,
    /// Whether the port accepts the request's M_Key.
    pub(super) opens: Sure,
    /// Whether the port drops a Get with a wrong M_Key at its protection level.
    pub(super) drops: Sure,
    /// Whether the port responds to such a Get, but hides its M_Key.
    pub(super) hides: Sure,
    /// Known values before a Set.
    pub(super) before: Option<Image>,
}

/// Known state of a port.
#[derive(Debug)]
pub(super) struct Port<'t> {
    pub(super) begin: &'t Begin,
    /// Whether no other subnet manager is present, as the test requires and the rig states.
    pub(super) alone: bool,
    pub(super) shown: Option<PortInfo>,
    pub(super) node: Option<NodeInfo>,
    pub(super) images: BTreeMap<Place, Image>,
    pub(super) lock: Lock,
    pub(super) on_the_way: BTreeMap<u32, Asked>,
    /// Last request without a response, and how often in a row it was sent without a response.
    silences: Option<(Mad, u32)>,
    /// Numbers of the requests that may have violated the M_Key check.
    pub(super) violations: BTreeSet<u32>,
    pub(super) broken: Vec<Broken>,
    /// Number of times that each rule was applied, by its name.
    pub(super) asked: BTreeMap<&'static str, u64>,
}

impl<'t> Port<'t> {
    pub(super) fn new(begin: &'t Begin, alone: bool) -> Self {
        Self {
            begin,
            alone,
            shown: None,
            node: None,
            images: BTreeMap::new(),
            lock: Lock::default(),
            on_the_way: BTreeMap::new(),
            silences: None,
            violations: BTreeSet::new(),
            broken: Vec::new(),
            asked: BTreeMap::new(),
        }
    }

    /// Returns the facts that the port has reported; `None` if a fact is missing, or the node is no adapter or router.
    pub(super) fn facts(&self) -> Option<Facts> {
        let (port, node) = (self.shown?, self.node?);
        let vls = self
            .own("OperationalVLs")
            .only()
            .and_then(|code| u8::try_from(code).ok());
        matches!(node.node_type(), NodeType::CHANNEL_ADAPTER | NodeType::ROUTER).then(|| Facts {
            port,
            node,
            vls: vls.and_then(|code| verbatim_wire::VlCap(code).data_vls()),
            simulated: self.begin.simulated,
        })
    }

    /// Returns the known values of a field in the port's own PortInfo.
    pub(super) fn own(&self, name: &str) -> Known {
        let image = self.images.get(&(AttributeId::PORT_INFO, 0));
        image.map_or(Known::Any, |image| image.field(name))
    }

    fn own_mut(&mut self, name: &str) -> Option<&mut Known> {
        self.images.get_mut(&(AttributeId::PORT_INFO, 0))?.field_mut(name)
    }

    /// Returns whether no other manager can Set a field. This is so if no other manager is present, or if the port
    /// has an M_Key of the test that Gets do not reveal.
    pub(super) fn is_ours(&self) -> bool {
        if self.alone {
            return true;
        }
        let secret = |key| key != 0 && key != self.begin.rig_key.0;
        self.own("M_Key").only().is_some_and(secret)
            && self.own("M_KeyProtectBits").sure(|level| level != 0) == Sure::Yes
    }

    fn place(&self, request: &Mad) -> Place {
        match self.facts() {
            Some(facts) => facts.place(request),
            None => (request.attribute_id(), request.modifier()),
        }
    }

    /// Applies a rule. Calls `broken` only if the rule does not hold.
    pub(super) fn must(&mut self, rule: Rule, holds: bool, broken: impl FnOnce(&Self) -> Broken) {
        *self.asked.entry(rule.name()).or_default() += 1;
        if !holds {
            let mut broken = broken(self);
            if Rule::of_the_lock().contains(&broken.rule) {
                broken.given = self.lock_in_words();
            }
            self.broken.push(broken);
        }
    }

    /// Returns the known M_Key, level and lease in words, with the exchange that showed them.
    fn lock_in_words(&self) -> Option<String> {
        let image = self.images.get(&(AttributeId::PORT_INFO, 0))?;
        let one = |name| self.own(name).only();
        let (key, level, lease) = (one("M_Key")?, one("M_KeyProtectBits")?, one("M_KeyLeasePeriod")?);
        Some(format!(
            "M_Key {}, level {level}, lease period {lease} s, shown by #{}",
            MKey(key),
            image.shown_in
        ))
    }

    /// Returns the time span in which a request was at the port.
    fn at_the_port(&self, exchange: &Exchange) -> Span {
        let latest = match (exchange.response(), &exchange.silence) {
            (Some(response), _) => response.at.latest,
            (None, _) if self.begin.simulated => exchange.sent.latest,
            (None, Some((.., way))) => exchange.sent.latest.after(way.duration() + self.begin.host_bound),
            (None, None) => exchange.sent.latest.after(self.begin.host_bound),
        };
        Span::between(exchange.sent.earliest, latest.max(exchange.sent.earliest))
    }

    /// Updates the model for a sent request. `is_alive_after`: the device responded to a later request.
    pub(super) fn sent(&mut self, exchange: &Exchange, is_alive_after: bool) {
        let now = self.at_the_port(exchange);
        self.expire(now);
        let request = &exchange.request;
        let is_for_it = exchange.dlid.map_or(Sure::Yes, |lid| self.has_lid(lid));
        if is_for_it != Sure::Yes {
            self.violations.insert(exchange.number);
            if is_for_it == Sure::Maybe && access::opens(&self.own("M_Key"), request.m_key().0) != Sure::Yes {
                self.lock.violated(now, &self.own("M_KeyLeasePeriod"), false);
            }
            return;
        }
        let fate = fate(exchange);
        let level = self.own("M_KeyProtectBits");
        let asked = Asked {
            place: self.place(request),
            opens: access::opens(&self.own("M_Key"), request.m_key().0),
            drops: level.sure(|level| level >= 2),
            hides: level.sure(|level| level == 1),
            before: None,
        };
        if is_of_version_1(request) && access::is_checked(request.method()) {
            self.silence(exchange, &asked, is_alive_after);
            self.look_at_key(exchange, now, &asked, fate);
        } else if asked.opens != Sure::Yes {
            self.violations.insert(exchange.number);
            self.lock.violated(now, &self.own("M_KeyLeasePeriod"), false);
        }
        let asked = if request.method() == Method::SET {
            self.set(exchange, asked)
        } else {
            asked
        };
        self.on_the_way.insert(exchange.number, asked);
    }

    /// Returns whether a LID belongs to the port.
    fn has_lid(&self, lid: Lid) -> Sure {
        let (base, lmc) = (self.own("LID").only(), self.own("LMC").only());
        let (Some(base), Some(lmc)) = (base, lmc) else {
            return Sure::Maybe;
        };
        match (1..0xC000).contains(&base) && u64::from(lid.0) >> lmc == base >> lmc {
            true => Sure::Yes,
            false => Sure::No,
        }
    }

    /// Sets the protection level to 0 if the lease has expired, or adds 0 as a possible level if the lease may have
    /// expired.
    fn expire(&mut self, now: Span) {
        let expired = self.lock.expired(now);
        let Some(level) = self.own_mut("M_KeyProtectBits") else {
            return;
        };
        match expired {
            Expired::Yes => *level = Known::is(0),
            Expired::Maybe => level.or(0),
            Expired::No => {}
        }
    }

    /// Checks that the port responds to a request that it must answer, and drops a request that it must drop.
    fn silence(&mut self, exchange: &Exchange, asked: &Asked, is_alive_after: bool) {
        let is_get = exchange.request.method() == Method::GET;
        let tolerated = is_get && asked.drops == Sure::No;
        let number = exchange.number;
        let what = exchange.request.to_string();
        let broken = |rule, expected: &str, seen: String, excusable| Broken {
            rule,
            about: format!("answer to {what}"),
            expected: expected.into(),
            seen,
            exchanges: vec![number],
            excusable,
            given: None,
        };
        let dropped = asked.opens == Sure::No && (!is_get || asked.drops == Sure::Yes);
        let is_repress = exchange.request.method() == Method::TRAP_REPRESS;
        if dropped && !is_repress && self.may_be_refused_first(exchange) {
            return;
        }
        if dropped || is_repress {
            let response = exchange.response().filter(|_| is_repress || !exchange.is_busy());
            let seen = response.map_or_else(String::new, |arrived| arrived.mad.to_string());
            // The architecture leaves open whether a port responds to a TrapRepress with the right key.
            let excusable = !self.is_ours() || is_repress && asked.opens != Sure::No;
            return self.must(Rule::MKeyDrops, response.is_none(), |_| {
                broken(Rule::MKeyDrops, "no answer", seen, excusable)
            });
        }
        if asked.opens == Sure::Yes || asked.opens == Sure::No && tolerated {
            let is_alone = self.on_the_way.is_empty();
            let silent = exchange.is_silent(self.begin) && is_alive_after && !moves_link(&exchange.request) && is_alone;
            // Another port of the device has its own M_Key, which this model does not know.
            let is_other_port = asked.place.0 == AttributeId::PORT_INFO && asked.place.1 != 0;
            let may_be_its_own = is_other_port && !self.begin.simulated;
            let excusable = !self.is_asked_again(exchange, silent) || !self.is_ours() || may_be_its_own;
            self.must(Rule::MKeyPasses, !silent, |_| {
                broken(Rule::MKeyPasses, "an answer", "no answer".into(), excusable)
            });
        }
    }

    /// Returns whether a request with a wrong M_Key was refused as unsupported, and the port need not support the
    /// request. The architecture leaves open whether the support check or the M_Key check comes first. A host's kernel
    /// may refuse SMInfo by itself, since SMInfo belongs to a subnet manager.
    fn may_be_refused_first(&self, exchange: &Exchange) -> bool {
        const NO_SUCH: [Status; 2] = [Status::METHOD_UNSUPPORTED, Status::METHOD_ATTRIBUTE_UNSUPPORTED];
        let request = &exchange.request;
        let Some(status) = exchange.response().map(|arrived| arrived.mad.status()) else {
            return false;
        };
        if request.attribute_id() == AttributeId::SM_INFO {
            return !self.begin.simulated;
        }
        let needs_no = |facts: &Facts| match request.method() {
            Method::GET => !facts.of_get(request).contains(&Status::OK),
            _ => !facts.of_set(request).contains(&Status::OK),
        };
        NO_SUCH.contains(&status) && self.facts().as_ref().is_none_or(needs_no)
    }

    /// Returns whether the same request got no response so often in a row that lost packets do not explain the silence.
    fn is_asked_again(&mut self, exchange: &Exchange, silent: bool) -> bool {
        let what = exchange.request.with_transaction_id(0);
        self.silences = match self.silences {
            Some((before, times)) if silent && before == what => Some((what, times + 1)),
            _ => silent.then_some((what, 1)),
        };
        self.silences.is_some_and(|(_, times)| times >= TRIES)
    }

    /// Returns whether the port may discard the request: a TrapRepress to a port that sends no traps.
    fn may_be_discarded(&self, request: &Mad) -> bool {
        let has_no_traps = |facts: Facts| sends_no_traps(&facts.port);
        request.method() == Method::TRAP_REPRESS && self.facts().is_some_and(has_no_traps)
    }

    /// Updates lease timer and violation counter for the M_Key of an SMP.
    fn look_at_key(&mut self, exchange: &Exchange, now: Span, asked: &Asked, fate: Fate) {
        // VL 15 drops an SMP if no buffer is free. An SMP sent while others are outstanding may therefore be lost.
        let arrived = self.begin.simulated && self.on_the_way.is_empty() || fate != Fate::Silent;
        let certain = arrived && fate != Fate::Busy && !self.may_be_discarded(&exchange.request);
        match asked.opens {
            Sure::Yes if certain => return self.lock.stop(),
            Sure::Yes => return self.lock.may_stop(),
            _ => {}
        }
        let is_get = exchange.request.method() == Method::GET;
        let answered = matches!(fate, Fate::Answered(_));
        let is_violation = match asked.drops {
            _ if !is_get => Sure::Yes,
            // The outcome of a Get with a wrong key reveals the level.
            Sure::Maybe if answered => Sure::No,
            Sure::Maybe if certain && fate == Fate::Silent => Sure::Yes,
            drops => drops,
        };
        if is_violation != Sure::Yes || asked.opens == Sure::Maybe {
            // An SMP with the right M_Key stops the timer. The architecture leaves open whether a Get with a wrong
            // M_Key also stops the timer if the protection level permits the Get.
            self.lock.may_stop();
        }
        if is_violation != Sure::No {
            self.violations.insert(exchange.number);
            // If the port responds to a request that it must drop, it is unknown whether it checked the M_Key.
            let dropped = !answered || is_get && asked.drops == Sure::No;
            let certain = certain && dropped && is_violation == Sure::Yes && asked.opens == Sure::No;
            self.lock.violated(now, &self.own("M_KeyLeasePeriod"), certain);
        }
    }

    /// Adds the values of a sent Set to the possible values of its fields.
    fn set(&mut self, exchange: &Exchange, asked: Asked) -> Asked {
        let request = &exchange.request;
        let facts = self.facts();
        let Some(blank) = Image::of(request) else { return asked };
        let image = self.images.entry(asked.place).or_insert(blank);
        if asked.opens == Sure::No {
            image.denied.push(Denied {
                exchange: exchange.number,
                rule: Rule::MKeyObeyed,
            });
            return asked;
        }
        let before = image.clone();
        for element in image.elements() {
            match facts.map(|facts| facts.set(request, element, image.known(element)).0) {
                None | Some(Becomes::Anything) => image.forget(element),
                Some(Becomes::Is(value) | Becomes::MayBe(value)) => image.or(element, value),
                Some(Becomes::Stays) => {}
            }
        }
        if asked.place == (AttributeId::PORT_INFO, 0) {
            self.lock
                .written(request.attribute::<PortInfo>().m_key_violations(), false);
        }
        Asked {
            before: Some(before),
            ..asked
        }
    }

    /// Removes a request that will get no response.
    pub(super) fn given_up(&mut self, exchange: &Exchange) {
        self.on_the_way.remove(&exchange.number);
    }

    /// Updates the possible values of the fields of a Set after the response.
    pub(super) fn settle(&mut self, exchange: &Exchange, asked: &Asked, status: Status) {
        let request = &exchange.request;
        let facts = self.facts();
        // The port may have executed another outstanding request to the same attribute before or after the Set.
        let alone = self.on_the_way.values().all(|other| other.place != asked.place);
        let Some(mut before) = asked.before.clone() else { return };
        let legality = self.legality(exchange, asked);
        let Some(image) = self.images.get_mut(&asked.place) else {
            return;
        };
        if status != Status::OK && legality == Legal::No {
            image.denied.push(Denied {
                exchange: exchange.number,
                rule: Rule::IllegalKept,
            });
        }
        if !alone || status == Status::INVALID_FIELD {
            return;
        }
        if status == Status::OK {
            for element in before.elements() {
                match facts.map(|facts| facts.set(request, element, before.known(element)).0) {
                    None | Some(Becomes::Anything) => before.forget(element),
                    Some(Becomes::Is(value)) => *before.known_mut(element) = Known::is(value),
                    Some(Becomes::MayBe(value)) => before.or(element, value),
                    Some(Becomes::Stays) => {}
                }
            }
            if asked.place == (AttributeId::PORT_INFO, 0) {
                self.lock
                    .written(request.attribute::<PortInfo>().m_key_violations(), true);
            }
        }
        *image = before;
        image.is_set |= status == Status::OK;
    }
}

fn fate(exchange: &Exchange) -> Fate {
    match (exchange.answer(), exchange.response()) {
        (Some(arrived), _) if arrived.mad.status() == Status::BUSY => Fate::Busy,
        (Some(arrived), _) => Fate::Answered(arrived.mad.status()),
        (None, Some(_)) => Fate::Unclear,
        (None, None) => Fate::Silent,
    }
}
