//! `c14-trap-bad-m-key`: trap 256 says what was wrong, is the same when it is repeated, and ends when it is repressed.
//!
//! A port with IsTrapSupported, a LID and an SM's is locked at level 2. A wrong-key Get of PortInfo by the port's own
//! number raises a trap, which is left to be repeated; a second one, of NodeInfo, raises another, which is repressed as
//! soon as it comes. Each trap that came names its cause: number 256, type, producer, issuer, method, attribute, modifier,
//! M_Key and hops; a repetition has the first one's TransactionID and bytes; traps are a SubnetTimeOut apart; none
//! comes after its TrapRepress. Reading: whether and how often a trap is sent is left open, so none is no fault; LIDADDR and the return path of a
//! directed route are not judged. On hardware, where traps go to the SM's LID and times are those of arrival, all repetitions
//! together must have taken their time, less a way. A port that is busy when it is asked may have looked at the key or
//! not: nothing is judged then. False alarm: an SM of somebody else that sends wrong keys meanwhile.

use core::time::Duration;

use verbatim_record::{Arrived, Exchange, Findings, Gap, Label, Trace, duration_words};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::values::{CapabilityMask, NodeType};
use verbatim_wire::{
    AnyAttribute, AttributeId, DrSmp, Layout, Lid, Method, MgmtClass, NodeInfo, Notice, PortInfo, trap,
};

use crate::management::keys::{self, AFTER, BEFORE};

const STATEMENT: &str = "14.2.5.1 traps";
const NODE: Label<NodeInfo> = Label::new("NodeInfo");
const PORT: Label<PortInfo> = Label::new("PortInfo");
const REPEATED: Label<AnyAttribute> = Label::new("wrong key, whose trap is left to be repeated");
const REPRESSED: Label<AnyAttribute> = Label::new("wrong key, whose trap is repressed");
const REPRESS: Label<Notice> = Label::new("right key, TrapRepress");
/// A TrapRepress has no answer: it is sent so often that one of them arrives.
const TIMES: usize = verbatim_record::TRIES as usize;
/// Notice:Type of a security trap.
const SECURITY: u8 = 2;

pub(super) static TEST: Test = Test {
    id: "c14-trap-bad-m-key",
    aliases: &[],
    revision: 1,
    about: "Trap 256 names the SMP that had the wrong M_Key, is repeated as it was, a SubnetTimeOut apart, and ends with its TrapRepress.",
    reading: "Whether and how often a trap is sent is left open: none is no fault. LIDADDR and the return path are not \
        judged. On hardware the distance of traps is judged over all of them.",
    statements: &[STATEMENT, "C14-24", "C14-26"],
    needs: &[Need::Mad, Need::OwnSubnet],
    parameters: &[],
    procedure,
    judge,
};

/// Whether the port may send traps at all.
fn sends_traps(port: &PortInfo) -> bool {
    port.capability_mask().has(CapabilityMask::TRAP) && port.lid() != Lid(0) && port.master_sm_lid() != Lid(0)
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let node = t.get(NODE, key)?;
    let port = t.get(PORT, key)?;
    if !sends_traps(&port) {
        return Ok(());
    }
    let (ours, [other, another, ..]) = keys::keys(t);
    let lease = t.longer_than(16);
    keys::lock(t, ours, 2, lease, 2)?;
    let own = u32::from(node.local_port_num());
    t.provoke_trap(REPEATED, (AttributeId::PORT_INFO, own), other)?;
    // Long enough for a few repetitions, whatever the SubnetTimeOut.
    let repetitions = 6 * port.subnet_timeout().duration();
    t.wait_out(repetitions)?;
    if let Some(trap) = t.provoke_trap(REPRESSED, (AttributeId::NODE_INFO, 0), another)? {
        for _ in 0..TIMES {
            t.repress_trap(REPRESS, ours, &trap)?;
        }
    }
    t.wait_out(repetitions)?;
    t.get(AFTER, ours)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let port: PortInfo = t.answer(PORT)?;
    let node: NodeInfo = t.answer(NODE)?;
    if !sends_traps(&port) {
        f.not_applicable = Some("the port sends no traps, or has no LID or no subnet manager to send them to".into());
        return Ok(());
    }
    if !keys::locked(t, f)? {
        return Ok(());
    }
    t.answer::<PortInfo>(AFTER)?;
    let before: PortInfo = t.answer(BEFORE)?;
    let (repeated, repressed) = (t.exchange(REPEATED)?, t.exchange(REPRESSED)?);
    if repeated.is_busy() || repressed.is_busy() {
        t.not_judged(REPRESS);
        f.not_applicable = Some("the port was busy when a trap was to be raised: run it again".into());
        return Ok(());
    }
    for exchange in [repeated, repressed] {
        f.silent(STATEMENT, exchange);
    }
    let traps: Vec<&Arrived> = t.unasked.iter().filter(|of| of.mad.method() == Method::TRAP).collect();
    let is_second = |of: &&Arrived| of.at.earliest >= repressed.sent.earliest;
    let (second, first): (Vec<_>, Vec<_>) = traps
        .iter()
        .copied()
        .filter(|of| of.at.earliest >= repeated.sent.earliest)
        .partition(is_second);
    if first.is_empty() && second.is_empty() {
        f.observe_ambiguous("no trap came, though IsTrapSupported is set", &[repeated, repressed]);
        t.not_judged(REPRESS);
        f.not_applicable = Some("no trap came: whether one is sent is left open".into());
        return Ok(());
    }
    for trap in &first {
        content(f, &node, &before, repeated, trap);
    }
    for trap in &second {
        // One of the first kind may still be on its way.
        let late = first
            .last()
            .is_some_and(|last| last.mad.transaction_id() == trap.mad.transaction_id());
        content(f, &node, &before, if late { repeated } else { repressed }, trap);
    }
    repetitions(t, f, &before, repeated, &first);
    ends(t, f, &before, &second);
    Ok(())
}

/// What a trap says of the SMP that raised it.
fn content(f: &mut Findings<'_>, node: &NodeInfo, port: &PortInfo, cause: &Exchange, trap: &Arrived) {
    let (mad, asked) = (&trap.mad, &cause.request);
    let notice: Notice = mad.attribute();
    let says = trap::BadMKey::from_bytes(notice.details());
    let producer = match node.node_type() {
        NodeType::SWITCH => 2,
        NodeType::ROUTER => 3,
        _ => 1,
    };
    let hops = if asked.is_directed() {
        DrSmp::from_bytes(asked.bytes()).hop_count()
    } else {
        0
    };
    let header = mad.header();
    // The field, what it says, what it must say.
    let words: [[String; 3]; 15] = [
        ["BaseVersion".into(), header.base_version().to_string(), "1".into()],
        [
            "MgmtClass".into(),
            mad.class().to_string(),
            MgmtClass::SUBN_LID.to_string(),
        ],
        ["ClassVersion".into(), header.class_version().to_string(), "1".into()],
        [
            "AttributeID".into(),
            mad.attribute_id().to_string(),
            AttributeId::NOTICE.to_string(),
        ],
        ["IsGeneric".into(), notice.is_generic().to_string(), "true".into()],
        ["Type".into(), notice.notice_type().to_string(), SECURITY.to_string()],
        [
            "ProducerType".into(),
            notice.producer_type().0.to_string(),
            producer.to_string(),
        ],
        [
            "TrapNumber".into(),
            notice.trap_number().to_string(),
            trap::BAD_M_KEY.to_string(),
        ],
        [
            "IssuerLID".into(),
            notice.issuer_lid().to_string(),
            port.lid().to_string(),
        ],
        ["METHOD".into(), says.method().to_string(), asked.method().to_string()],
        [
            "ATTRIBUTEID".into(),
            says.attribute().to_string(),
            asked.attribute_id().to_string(),
        ],
        [
            "ATTRIBUTEMODIFIER".into(),
            format!("{:#x}", says.modifier().0),
            format!("{:#x}", asked.modifier()),
        ],
        ["MKEY".into(), says.m_key().to_string(), asked.m_key().to_string()],
        [
            "DRNotice".into(),
            says.directed().to_string(),
            asked.is_directed().to_string(),
        ],
        ["DRHopCount".into(), says.hop_count().to_string(), hops.to_string()],
    ];
    let wrong: Vec<_> = words.iter().filter(|[_, seen, wanted]| seen != wanted).collect();
    let list = |column: usize| {
        let each = wrong.iter().map(|row| format!("{} {}", row[0], row[column]));
        each.collect::<Vec<_>>().join(", ")
    };
    let (seen, wanted) = (list(1), list(2));
    let is_right = wrong.is_empty();
    f.claim(STATEMENT, "what trap 256 says of the SMP")
        .by(cause)
        .saw(if is_right { "what was sent".into() } else { seen })
        .must(if is_right { "what was sent".into() } else { wanted }, is_right);
}

/// A repetition is the trap that was sent, a SubnetTimeOut later.
fn repetitions(t: &Trace, f: &mut Findings<'_>, port: &PortInfo, cause: &Exchange, traps: &[&Arrived]) {
    let apart = port.subnet_timeout().duration();
    for pair in traps.windows(2) {
        let (one, next) = (&pair[0], &pair[1]);
        let same = one.mad.transaction_id() == next.mad.transaction_id() && one.mad.data() == next.mad.data();
        f.claim(STATEMENT, "repetition of a trap")
            .by(cause)
            .saw(if same {
                "the same"
            } else {
                "another TransactionID or Notice"
            })
            .must("the same TransactionID and Notice", same);
        if t.begin.simulated {
            apart_enough(f, cause, (one, next), 1, apart);
        }
    }
    // On hardware the way of each may have been as long as it may be: over many repetitions that no longer matters.
    let times = u32::try_from(traps.len()).unwrap_or(u32::MAX).saturating_sub(1);
    let jitter = t.way(port) + t.begin.host_bound;
    if let (false, [one, .., last]) = (t.begin.simulated, traps) {
        let least = (times * apart).saturating_sub(jitter);
        apart_enough(f, cause, (one, last), times, least);
    }
}

/// So many repetitions take at least so long.
fn apart_enough(
    f: &mut Findings<'_>,
    cause: &Exchange,
    (one, next): (&Arrived, &Arrived),
    times: u32,
    least: Duration,
) {
    let (_, most) = next.at.since(one.at);
    f.claim(STATEMENT, format!("time from a trap to its repetition number {times}"))
        .by(cause)
        .saw(duration_words(most))
        .must(
            format!(
                "at least {}: repetitions are a SubnetTimeOut apart",
                duration_words(least)
            ),
            most >= least,
        );
}

/// Nothing comes after the TrapRepress, but for what had left before it arrived.
fn ends(t: &Trace, f: &mut Findings<'_>, port: &PortInfo, traps: &[&Arrived]) {
    let Some(repress) = t.each(REPRESS).last() else { return };
    let grace = if t.begin.simulated {
        Duration::from_micros(10)
    } else {
        2 * (t.way(port) + t.begin.host_bound)
    };
    let id = repress.request.transaction_id();
    let until = repress.sent.latest.after(grace);
    let later = traps
        .iter()
        .filter(|of| of.mad.transaction_id() == id && of.at.earliest > until);
    let count = later.count();
    f.claim(STATEMENT, "traps after their TrapRepress")
        .by_all(t.each(REPRESS))
        .saw(count)
        .is(0);
}
