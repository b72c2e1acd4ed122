//! Rules for traps. A trap about a bad M_Key is compared with the SMP that caused it.
//!
//! Source: architecture 13.4.8.2 (Notice), 13.4.9 (traps), 14.2.5.1 (trap 256).

use std::collections::{BTreeMap, BTreeSet};

use verbatim_record::{Arrived, Exchange, Trace, duration_words};
use verbatim_wire::trap::{self, BadMKey};
use verbatim_wire::values::NodeType;
use verbatim_wire::{AttributeId, DrSmp, Layout, Lid, MKey, Mad, Method, MgmtClass, Notice, PortInfo, Status};

use super::port::Broken;
use crate::registry::Rule;

/// The fields of an SMP that a trap 256 shows, without the M_Key: method, AttributeID, AttributeModifier, and for a
/// directed route the hop count and DrSLID.
type Described = (u8, u16, u32, Option<(u8, u16)>);

/// Numbers of the traps that an adapter or router sends: link integrity, buffer overrun, flow control, attribute
/// changes, bad M_Key, P_Key and Q_Key.
const OF_PORTS: [u16; 8] = [129, 130, 131, 144, 145, trap::BAD_M_KEY, 257, 258];
/// Notice:Type of a security trap.
const SECURITY: u8 = 2;
/// Bytes of the return path that fit into a notice.
const ROOM: usize = 30;

/// Facts about the port, from all its responses.
pub(super) struct Sender<'t> {
    /// Whether the port reports that it sends traps; `None`: unknown.
    pub(super) sends: Option<bool>,
    /// Kind of the port's node.
    pub(super) node: Option<NodeType>,
    /// Numbers of the exchanges whose request may have violated the M_Key check.
    pub(super) violations: &'t BTreeSet<u32>,
}

fn described_in(request: &Mad) -> Described {
    let route = request.is_directed().then(|| {
        let smp = DrSmp::from_bytes(request.bytes());
        (smp.hop_count(), smp.dr_slid().0)
    });
    (request.method().0, request.attribute_id().0, request.modifier(), route)
}

/// Checks traps. A trap 256 with an M_Key that the tester used must describe an SMP that carried that M_Key and
/// violated the M_Key check.
///
/// A port must not send trap 256 if its IsTrapSupported is not set, or if it knows no subnet manager.
pub(super) fn judge(
    trace: &Trace,
    sender: &Sender<'_>,
    broken: &mut Vec<Broken>,
    checked: &mut BTreeMap<&'static str, u64>,
) {
    let simulated = trace.begin.simulated;
    // For each M_Key: whether an SMP with these fields may have violated the M_Key check, and the latest exchange.
    // A map, because a test may send 65,000 SMPs that each cause a trap.
    let mut carried: BTreeMap<u64, (BTreeMap<Described, bool>, &Exchange)> = BTreeMap::new();
    for exchange in trace.exchanges.iter().filter(|of| of.request.is_smp()) {
        let (smps, latest) = carried
            .entry(exchange.request.m_key().0)
            .or_insert_with(|| (BTreeMap::new(), exchange));
        *smps.entry(described_in(&exchange.request)).or_default() |= sender.violations.contains(&exchange.number);
        *latest = exchange;
    }
    let managers = lids(trace, PortInfo::master_sm_lid);
    let lids = lids(trace, PortInfo::lid);
    let traps = trace.unasked.iter().filter(|of| of.mad.method() == Method::TRAP);
    if simulated {
        repetitions(trace, broken, checked);
    }
    for arrived in traps {
        let notice: Notice = arrived.mad.attribute();
        let mut must = |about: &str, holds: bool, expected: String, seen: String, exchanges: Vec<u32>| {
            *checked.entry(Rule::Trap.name()).or_default() += 1;
            if !holds {
                broken.push(Broken {
                    rule: Rule::Trap,
                    about: about.into(),
                    expected,
                    seen,
                    exchanges,
                    excusable: trace.begin.shared_subnet || simulated,
                    given: None,
                });
            }
            holds
        };
        if simulated {
            let number = notice.trap_number();
            let is_of_a_port = notice.is_generic() && OF_PORTS.contains(&number);
            let expected = "a generic Notice with a trap number of an adapter or router";
            if !must("a trap", is_of_a_port, expected.into(), in_words(&notice), Vec::new()) {
                continue;
            }
        }
        let is_bad_m_key = notice.is_generic() && notice.trap_number() == trap::BAD_M_KEY;
        let described = BadMKey::from_bytes(notice.details());
        let sent_with_key = carried
            .get(&described.m_key().0)
            .filter(|_| is_bad_m_key && described.m_key() != MKey(0));
        // In real time, a trap may have another cause than the tester's SMPs, unless it carries an M_Key that the
        // tester used.
        if simulated || sent_with_key.is_some() {
            let wrong = headers(&arrived.mad, &notice, sender.node);
            must(
                "header and notice of a trap",
                wrong.is_empty(),
                "versions 1, M_Key 0, status 0, reserved bits 0, and the sender's ProducerType".into(),
                wrong.join(", "),
                sent_with_key.map(|(_, latest)| latest.number).into_iter().collect(),
            );
        }
        // A trap 256 without an M_Key of this test may belong to an earlier test, because a port repeats its traps.
        let Some((smps, latest)) = sent_with_key else { continue };
        let latest_number = vec![latest.number];
        if sender.sends == Some(false) {
            let about = "trap 256 of a port whose IsTrapSupported is not set";
            must(about, false, "no trap".into(), in_words(&described), latest_number);
            continue;
        }
        if !managers.iter().any(|lid| Lid(*lid).is_unicast()) && !managers.is_empty() {
            let about = "trap 256 of a port without a subnet manager";
            must(about, false, "no trap".into(), in_words(&described), latest_number);
            continue;
        }
        let route = described
            .directed()
            .then(|| (described.hop_count(), described.dr_slid().0));
        let violated = smps.get(&(
            described.method().0,
            described.attribute().0,
            described.modifier().0,
            route,
        ));
        let expected = format!(
            "an SMP that carried M_Key {}, such as {}",
            described.m_key(),
            latest.request
        );
        if !must(
            "SMP that trap 256 describes",
            violated.is_some(),
            expected,
            in_words(&described),
            latest_number.clone(),
        ) {
            continue;
        }
        let was_wrong = violated.copied().unwrap_or_default();
        must(
            "M_Key of the SMP that trap 256 describes",
            was_wrong,
            "a wrong M_Key".into(),
            in_words(&described),
            latest_number.clone(),
        );
        let mut wrong = details(trace, &described, &lids);
        let issuer = notice.issuer_lid();
        if !may_be(&lids, issuer) {
            wrong.push(format!("IssuerLID {issuer}"));
        }
        must(
            "route that trap 256 describes",
            wrong.is_empty(),
            "the route of the SMP, and a LID of the port as IssuerLID".into(),
            wrong.join(", "),
            latest_number,
        );
    }
}

fn in_words(of: &impl std::fmt::Display) -> String {
    of.to_string().replace('\n', ";")
}

/// Returns whether a LID may be the port's. If the port never showed PortInfo, any unicast LID may be the port's.
fn may_be(lids: &BTreeSet<u16>, lid: Lid) -> bool {
    if lids.is_empty() {
        lid.is_unicast()
    } else {
        lid != Lid(0) && lids.contains(&lid.0)
    }
}

/// Returns every LID that the port reported, or that a Set wrote. `which` selects the port's own LID, or its subnet
/// manager's.
fn lids(trace: &Trace, which: impl Fn(&PortInfo) -> Lid) -> BTreeSet<u16> {
    let of_port = |mad: &Mad| {
        let carries = mad.is_smp() && mad.attribute_id() == AttributeId::PORT_INFO;
        carries.then(|| which(&mad.attribute::<PortInfo>()).0)
    };
    let each = trace.exchanges.iter().flat_map(|exchange| {
        let set = (exchange.request.method() == Method::SET).then_some(exchange.request);
        let shown = exchange.answer().map(|answer| answer.mad);
        [set, shown.filter(|mad| mad.status() == Status::OK)]
    });
    each.flatten().filter_map(|mad| of_port(&mad)).collect()
}

/// Returns the errors in the header of a trap, and in its notice's description of the sender. Toggle and count must be
/// 0 in a trap: they belong to notices that a manager fetches.
fn headers(mad: &Mad, notice: &Notice, node: Option<NodeType>) -> Vec<String> {
    let header = mad.header();
    let mut wrong = Vec::new();
    let mut must = |name: &str, holds: bool, seen: String| {
        if !holds {
            wrong.push(format!("{name} {seen}"));
        }
    };
    must(
        "BaseVersion",
        header.base_version() == 1,
        header.base_version().to_string(),
    );
    must(
        "ClassVersion",
        header.class_version() == 1,
        header.class_version().to_string(),
    );
    must("MgmtClass", mad.class() == MgmtClass::SUBN_LID, mad.class().to_string());
    must(
        "AttributeID",
        mad.attribute_id() == AttributeId::NOTICE,
        mad.attribute_id().to_string(),
    );
    must(
        "AttributeModifier",
        mad.modifier() == 0,
        format!("{:#x}", mad.modifier()),
    );
    must("Status", mad.status() == Status::OK, mad.status().to_string());
    must("M_Key", mad.m_key() == MKey(0), mad.m_key().to_string());
    must(
        "reserved bytes of the MAD header",
        header.is_zero_in("Reserved144"),
        "not 0".into(),
    );
    let smp = verbatim_wire::LidSmp::from_bytes(mad.bytes());
    let zero = smp.is_zero_in("Reserved256") && smp.is_zero_in("Reserved1024");
    must("reserved bytes of the SMP", zero, "not 0".into());
    let producer = match node {
        Some(NodeType::SWITCH) => 2,
        Some(NodeType::ROUTER) => 3,
        _ => 1,
    };
    if node.is_some() {
        let seen = notice.producer_type().0;
        must("ProducerType", seen == producer, seen.to_string());
    }
    let is_of_a_key = notice.trap_number() >= trap::BAD_M_KEY;
    must(
        "Type",
        !is_of_a_key || notice.notice_type() == SECURITY,
        notice.notice_type().to_string(),
    );
    must("NoticeToggle", !notice.toggle(), notice.toggle().to_string());
    must(
        "NoticeCount",
        notice.notice_count() == 0,
        notice.notice_count().to_string(),
    );
    wrong
}

/// Returns the errors in a notice's description of a route: LIDADDR, return path, reserved fields.
fn details(trace: &Trace, described: &BadMKey, lids: &BTreeSet<u16>) -> Vec<String> {
    let mut wrong = Vec::new();
    let reserved = ["Reserved0", "Reserved56", "Reserved176"];
    if let Some(name) = reserved.iter().find(|name| !described.is_zero_in(name)) {
        wrong.push(format!("{name} is not 0"));
    }
    if !described.directed() {
        if described.hop_count() != 0 {
            wrong.push(format!("hop count {}", described.hop_count()));
        }
        return wrong;
    }
    // On a route that is directed from end to end, LIDADDR is the permissive LID. Existing agents write their own LID
    // instead.
    if described.lid() != Lid::PERMISSIVE && !may_be(lids, described.lid()) {
        wrong.push(format!("LIDADDR {}", described.lid()));
    }
    let hops = usize::from(described.hop_count());
    // The architecture leaves open whether the path includes the first byte, which no hop uses.
    let may_be_truncated = [hops > ROOM, hops + 1 > ROOM];
    if !may_be_truncated.contains(&described.path_truncated()) {
        wrong.push(format!("path truncated {}", described.path_truncated()));
    }
    // Responses on routes with the same number of hops show the possible return paths.
    let mut paths = trace.exchanges.iter().filter_map(|exchange| {
        let answer = exchange.answer()?;
        let smp = DrSmp::from_bytes(answer.mad.bytes());
        let is_such = answer.mad.is_directed() && usize::from(smp.hop_count()) == hops && exchange.port == 0;
        is_such.then(|| (1..=hops).map(|hop| smp.return_path(hop)).collect::<Vec<_>>())
    });
    let shown: Vec<u8> = (0..ROOM).map(|hop| described.return_path(hop)).collect();
    // The path may have three layouts, each cut to the 30 bytes of the field. (1) The unused first byte and the path.
    // (2) The path alone. (3) A zero byte and the path without its last hop.
    let is_path = |path: &Vec<u8>| {
        let (whole, bare) = (path.len().min(ROOM - 1), path.len().min(ROOM));
        let short = path.len().saturating_sub(1).min(ROOM - 1);
        shown[1..=whole] == path[..whole]
            || shown[..bare] == path[..bare]
            || shown[0] == 0 && shown[1..=short] == path[..short]
    };
    let first = paths.next();
    let fits = first.as_ref().is_none_or(is_path);
    if !fits && !paths.any(|path| is_path(&path)) {
        let path = first.unwrap_or_default();
        wrong.push(format!("return path {shown:?} instead of {path:?}"));
    }
    wrong
}

/// Checks that traps with one TransactionID carry the same Notice, and that traps of a port are at least a
/// SubnetTimeOut apart.
fn repetitions(trace: &Trace, broken: &mut Vec<Broken>, checked: &mut BTreeMap<&'static str, u64>) {
    let mut must = |about: &str, holds: bool, expected: String, seen: String| {
        *checked.entry(Rule::Trap.name()).or_default() += 1;
        if !holds {
            broken.push(Broken {
                rule: Rule::Trap,
                about: about.into(),
                expected,
                seen,
                exchanges: Vec::new(),
                excusable: true,
                given: None,
            });
        }
    };
    let least = shortest(trace);
    let mut previous: BTreeMap<u32, &Arrived> = BTreeMap::new();
    let mut by_transaction: BTreeMap<(u32, u64), &Arrived> = BTreeMap::new();
    for arrived in trace.unasked.iter().filter(|of| of.mad.method() == Method::TRAP) {
        let id = arrived.mad.transaction_id();
        if let Some(first) = by_transaction.insert((arrived.port, id), arrived) {
            let same = first.mad.data() == arrived.mad.data();
            let seen = if same { "the same" } else { "another Notice" };
            must(
                "traps of one TransactionID",
                same,
                "the same Notice".into(),
                seen.into(),
            );
        }
        if let (Some(last), Some(least)) = (previous.insert(arrived.port, arrived), least) {
            let most = trace.begin.at_most(arrived.at.since(last.at).1);
            must(
                "time from a trap to the next",
                most >= least,
                format!("at least {}, the SubnetTimeOut", duration_words(least)),
                duration_words(most),
            );
        }
    }
}

/// Returns the shortest SubnetTimeOut that the port had or was given.
fn shortest(trace: &Trace) -> Option<core::time::Duration> {
    let each = trace.exchanges.iter().flat_map(|exchange| {
        let set = (exchange.request.method() == Method::SET).then_some(exchange.request);
        [set, exchange.answer().map(|answer| answer.mad)]
    });
    let infos = each
        .flatten()
        .filter(|mad| mad.is_smp() && mad.attribute_id() == AttributeId::PORT_INFO && mad.status() == Status::OK);
    infos
        .map(|mad| mad.attribute::<PortInfo>().subnet_timeout().duration())
        .min()
}
