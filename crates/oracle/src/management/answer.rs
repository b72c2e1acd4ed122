//! Comparison of a response with the possible state of the port.

use verbatim_record::Exchange;
use verbatim_wire::{AttributeId, MKey, Mad, Method, PortInfo, Status};

use super::access::{self, KNOWS_EXTENDED_SPEEDS, Legal, is_of_version_1};
use super::image::{Element, Image, moves};
use super::known::{Known, Sure};
use super::port::{Asked, Broken, Port};
use crate::Rule;

impl Port<'_> {
    /// Takes the response to a request.
    pub(super) fn answered(&mut self, exchange: &Exchange, response: &Mad) {
        let Some(asked) = self.on_the_way.remove(&exchange.number) else {
            return;
        };
        let status = response.status();
        if status == Status::BUSY {
            return;
        }
        self.status(exchange, &asked, status);
        let request = &exchange.request;
        if request.method() == Method::SET && asked.opens != Sure::No {
            self.settle(exchange, &asked, status);
        }
        if status == Status::OK && matches!(request.method(), Method::GET | Method::SET) && is_of_version_1(request) {
            self.compare(exchange, &asked, response);
        }
    }

    /// Checks the status of a response.
    fn status(&mut self, exchange: &Exchange, asked: &Asked, status: Status) {
        const REFUSED: &[Status] = &[Status::METHOD_UNSUPPORTED, Status::METHOD_ATTRIBUTE_UNSUPPORTED];
        let request = &exchange.request;
        let Some(facts) = self.facts() else {
            // Every kind of node has these two attributes.
            let is_had = matches!(request.attribute_id(), AttributeId::NODE_INFO | AttributeId::PORT_INFO);
            if is_had && is_of_version_1(request) && (request.method(), request.modifier()) == (Method::GET, 0) {
                self.must_have_status(exchange, status, &[Status::OK]);
            }
            return;
        };
        let allowed: &[Status] = match request.method() {
            _ if !is_of_version_1(request) => &[Status::BAD_VERSION],
            Method::GET if asked.opens == Sure::Yes || asked.opens == Sure::No && asked.drops == Sure::No => {
                facts.of_get(request)
            }
            Method::SET if asked.opens == Sure::Yes => match (facts.of_set(request), self.legality(exchange, asked)) {
                (&[Status::OK], Legal::No) => &[Status::INVALID_FIELD],
                (&[Status::OK], Legal::Open) => &[],
                (&[Status::OK, ..], Legal::No | Legal::Open) => &[Status::OK, Status::INVALID_FIELD],
                (allowed, _) => allowed,
            },
            method if !access::is_known(method) => REFUSED,
            _ => &[],
        };
        // Another port may be of another kind, such as Ethernet.
        let is_other_port = asked.place.0 == AttributeId::PORT_INFO && asked.place.1 != 0;
        if allowed.is_empty() || is_other_port && !self.begin.simulated && status == Status::INVALID_FIELD {
            return;
        }
        self.must_have_status(exchange, status, allowed);
    }

    fn must_have_status(&mut self, exchange: &Exchange, status: Status, allowed: &[Status]) {
        let words: Vec<String> = allowed.iter().map(|status| format!("status {status}")).collect();
        let (about, number) = (format!("status of {}", exchange.request), exchange.number);
        self.must(Rule::Status, allowed.contains(&status), |_| Broken {
            rule: Rule::Status,
            about,
            expected: words.join(" or "),
            seen: format!("status {status}"),
            exchanges: vec![number],
            // A kernel responds with this status if it has no agent for the request. For LedInfo and NodeDescription
            // this is no excuse, because the port's capabilities declare whether these requests are supported.
            excusable: status == Status::METHOD_ATTRIBUTE_UNSUPPORTED
                && !matches!(
                    exchange.request.attribute_id(),
                    AttributeId::LED_INFO | AttributeId::NODE_DESCRIPTION
                ),
            given: None,
        });
    }

    /// Returns whether all values in a Set are legal.
    pub(super) fn legality(&self, exchange: &Exchange, asked: &Asked) -> Legal {
        let (Some(facts), Some(before)) = (self.facts(), &asked.before) else {
            return Legal::Open;
        };
        let each = before.elements();
        let legal = each.map(|element| facts.set(&exchange.request, element, before.known(element)).1);
        legal.max().unwrap_or(Legal::Open)
    }

    /// Checks that each shown element has a possible value, and stores the value.
    fn compare(&mut self, exchange: &Exchange, asked: &Asked, response: &Mad) {
        let Some(blank) = Image::of(response) else { return };
        let is_own_port = asked.place == (AttributeId::PORT_INFO, 0);
        let is_other_port = !is_own_port && asked.place.0 == AttributeId::PORT_INFO;
        if is_other_port {
            self.hides_other_key(exchange, asked, response);
        }
        if is_other_port && !self.begin.simulated || asked.place.0 == AttributeId::SM_INFO {
            return;
        }
        let is_set = exchange.request.method() == Method::SET;
        let set_on_the_way = self
            .on_the_way
            .values()
            .any(|other| other.place == asked.place && other.before.is_some());
        let ours = self.is_ours();
        let mut image = self.images.remove(&asked.place).unwrap_or(blank);
        for element in image.elements() {
            if moves(self.begin.simulated, asked.place.0, element.field.name)
                || asked.place.0 == AttributeId::PORT_INFO && !is_shown(element, &exchange.request)
                || is_other_port && OF_THE_KEY.contains(&element.field.name)
            {
                continue;
            }
            let value = element.bits(response.data());
            if is_own_port && element.field.name == "M_Key" && !self.key_shown(exchange, asked, value, response) {
                continue;
            }
            let holds = image.known(element).may_be(value);
            let rule = self.rule_of(&image, asked, element, value);
            let known = image.known(element).clone();
            self.must(rule, holds, |port| {
                port.mismatch((&image, ours), (exchange, asked), (rule, element, &known), value)
            });
            if !set_on_the_way && asked.opens != Sure::No {
                *image.known_mut(element) = Known::is(value);
            }
        }
        if !set_on_the_way && asked.opens != Sure::No {
            image.shown_in = exchange.number;
            image.was_ours = ours;
            image.is_set = false;
            image.denied.clear();
        }
        self.images.insert(asked.place, image);
        match asked.place {
            (AttributeId::PORT_INFO, 0) => {
                self.counter(exchange, asked, &response.attribute::<PortInfo>());
                if !is_set || self.shown.is_none() {
                    self.shown = Some(response.attribute());
                }
            }
            (AttributeId::NODE_INFO, 0) => self.node = Some(response.attribute()),
            _ => {}
        }
    }

    /// Returns whether the M_Key in a response is the port's own. If the key in the request is wrong, checks that
    /// the port hides its M_Key where the protection level demands it.
    fn key_shown(&mut self, exchange: &Exchange, asked: &Asked, value: u64, response: &Mad) -> bool {
        let level = response.attribute::<PortInfo>().protect_bits().0;
        if exchange.request.method() == Method::SET {
            // If the Set changed the M_Key, the key that the Set carried may now be wrong. At level 1 the port then
            // hides its M_Key.
            let keeps = exchange.request.attribute::<PortInfo>().m_key() == exchange.request.m_key();
            return keeps && asked.opens == Sure::Yes || value != 0 || level != 1;
        }
        match asked.opens {
            Sure::Yes => true,
            Sure::No if asked.hides == Sure::Yes => {
                let (number, shown) = (exchange.number, verbatim_wire::MKey(value));
                self.must(Rule::MKeyHidden, value == 0, |port| Broken {
                    rule: Rule::MKeyHidden,
                    about: "M_Key as shown to a wrong key".into(),
                    expected: "0".into(),
                    seen: shown.to_string(),
                    exchanges: vec![number],
                    excusable: !port.is_ours(),
                    given: None,
                });
                false
            }
            Sure::No => asked.drops == Sure::No && asked.hides == Sure::No,
            Sure::Maybe => value != 0 || level != 1,
        }
    }

    /// Checks that a response about another port of the device hides that port's M_Key. Applies only if this port hides
    /// its M_Key and the other port's protection level is not 0. In other cases the architecture leaves open which
    /// port's level counts.
    fn hides_other_key(&mut self, exchange: &Exchange, asked: &Asked, response: &Mad) {
        let is_get = exchange.request.method() == Method::GET;
        let shown: PortInfo = response.attribute();
        let both_hide = asked.hides == Sure::Yes && shown.protect_bits().0 != 0;
        if !is_get || asked.opens != Sure::No || !both_hide {
            return;
        }
        let (number, key) = (exchange.number, shown.m_key());
        let holds = key == MKey(0) || key == exchange.request.m_key();
        self.must(Rule::MKeyHidden, holds, |port| Broken {
            rule: Rule::MKeyHidden,
            about: "M_Key of another port of the device, as shown to a wrong key".into(),
            expected: "0".into(),
            seen: key.to_string(),
            exchanges: vec![number],
            excusable: !port.is_ours(),
            given: None,
        });
    }

    /// Returns the rule that a wrong value of a field breaks.
    fn rule_of(&self, image: &Image, asked: &Asked, element: Element, value: u64) -> Rule {
        let name = element.field.name;
        if asked.opens == Sure::No {
            return Rule::MKeyShows;
        }
        let is_own_guid = asked.place == (AttributeId::GUID_INFO, 0) && element.index == 0;
        let is_fixed_text = asked.place.0 == AttributeId::NODE_DESCRIPTION
            && self.facts().is_some_and(|facts| !facts.sets_description());
        if is_own_guid || is_fixed_text || access::is_read_only(asked.place, name) {
            return Rule::ReadOnly;
        }
        if let Some(denied) = image.denied.last()
            && !image.known(element).may_be(value)
        {
            return denied.rule;
        }
        if name != "M_KeyProtectBits" || image.is_set {
            return Rule::Kept;
        }
        match (self.own("M_KeyLeasePeriod").only(), image.known(element).only()) {
            (Some(0), _) => Rule::LeaseEndless,
            (_, Some(0)) => Rule::LeaseExpires,
            _ if self.lock.may_run() => Rule::LeaseExpires,
            _ => Rule::LeaseStops,
        }
    }

    fn mismatch(
        &self,
        (image, ours): (&Image, bool),
        (exchange, asked): (&Exchange, &Asked),
        (rule, element, known): (Rule, Element, &Known),
        value: u64,
    ) -> Broken {
        let name = element.field.name;
        let all = known.all().unwrap_or_default();
        let words: Vec<String> = all.iter().map(|value| element.words(*value)).collect();
        let denied = image.denied.last().filter(|denied| denied.rule == rule);
        let others = [
            Some(image.shown_in).filter(|number| *number != 0),
            denied.map(|denied| denied.exchange),
        ];
        let mut exchanges: Vec<u32> = others.into_iter().flatten().collect();
        exchanges.push(exchange.number);
        let is_set = exchange.request.method() == Method::SET;
        let by_others = match asked.place.0 {
            // The driver or the host may write these attributes.
            AttributeId::NODE_DESCRIPTION | AttributeId::GUID_INFO => !is_set,
            AttributeId::PORT_INFO if name.starts_with("CapabilityMask") => true,
            _ => rule != Rule::ReadOnly && !is_set && !(ours && image.was_ours),
        };
        Broken {
            rule,
            about: format!(
                "{} {}",
                verbatim_wire::AnyAttribute::name(exchange.request.class(), asked.place.0),
                element.name()
            ),
            expected: words.join(" or "),
            seen: element.words(value),
            exchanges,
            excusable: by_others,
            given: None,
        }
    }

    /// Checks and stores the M_Key violation counter in PortInfo.
    fn counter(&mut self, exchange: &Exchange, asked: &Asked, shown: &PortInfo) {
        let seen = shown.m_key_violations();
        if let Some((least, most)) = self.lock.violations() {
            let holds = (least..=most).contains(&seen.into());
            let (number, alone) = (exchange.number, self.alone);
            self.must(Rule::Violations, holds, |_| Broken {
                rule: Rule::Violations,
                about: "M_KeyViolations".into(),
                expected: if least == most {
                    least.to_string()
                } else {
                    format!("{least} to {most}")
                },
                seen: seen.to_string(),
                exchanges: vec![number],
                // The counter also counts SMPs of other nodes, and it does not count lost SMPs.
                excusable: u32::from(seen) < least || !alone,
                given: None,
            });
        }
        let wrong = self
            .on_the_way
            .values()
            .filter(|other| other.opens != Sure::Yes)
            .count();
        let on_their_way = if self.begin.simulated {
            0
        } else {
            u32::try_from(wrong).unwrap_or(u32::MAX)
        };
        if asked.opens != Sure::No {
            self.lock.shown(seen, on_their_way);
        }
    }
}

/// Fields of another port that depend on that port's own M_Key.
const OF_THE_KEY: [&str; 3] = ["M_Key", "M_KeyProtectBits", "M_KeyViolations"];

/// Returns whether the response to this request shows an element.
fn is_shown(element: Element, request: &Mad) -> bool {
    !element.field.name.starts_with("LinkSpeedExt") || request.modifier() & KNOWS_EXTENDED_SPEEDS != 0
}
