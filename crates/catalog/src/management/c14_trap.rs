//! `c14-trap-bad-m-key`: trap 256 describes the violation, keeps its content when repeated, and ends after its
//! TrapRepress.
//!
//! The test needs a port with IsTrapSupported, a LID and a MasterSMLID, and locks it at level 2. A wrong-key Get of
//! PortInfo by the port's own number raises a trap that the test lets the port repeat. A wrong-key Get of NodeInfo
//! raises another trap, which the test represses at once. If traps are known to reach the tester, later violations,
//! including a wrong-key TrapRepress, must raise traps again.
//!
//! Each trap must name its cause: number 256, type, producer, issuer, method, attribute, modifier, M_Key and hops. The
//! M_Key, modifier and status of the trap's own header must be 0. A repetition has the first trap's TransactionID and
//! bytes. Traps are at least a SubnetTimeOut apart. No trap follows its TrapRepress. If the test's traps reached the
//! tester, further wrong-key Gets follow, each as soon as the previous Get's trap arrived. The traps must be at least a
//! SubnetTimeOut apart, also after a Set doubles SubnetTimeOut.
//!
//! Reading:
//!
//! - The number of repetitions is undefined.
//! - A port with IsTrapSupported that sends no trap for four violations fails only if the traps would reach the tester.
//!   On hardware, traps go to the subnet manager's LID; `traps_come_here` states whether that LID is the tester's.
//! - LIDADDR of a directed route without a LID-routed part is the permissive LID. Some agents use the port's own LID,
//!   which is an observation.
//! - The return path equals that of responses on the same route, with or without the first byte, which no hop uses.
//! - Traps with other keys than the test's belong to other requesters or to earlier tests.
//! - On a simulated rig, SMPs with longer routes, as switches would have written them, also raise traps; the oracle
//!   judges these traps.
//! - On hardware the test knows only arrival times, so it judges the total time of all repetitions, with a tolerance of
//!   one travel time.
//! - A port may repeat only its oldest trap until that trap is repressed. A missing trap for a TrapRepress is therefore
//!   a fault only if a later Get raised a trap.
//! - A busy port may or may not have checked the key, so the test does not judge whether it sends traps.
//!
//! False alarm: another SM that sends wrong keys during the test.

use core::time::Duration;

use verbatim_record::{Arrived, Exchange, Findings, Gap, Label, Passed, Trace, duration_words, duration_words_beside};
use verbatim_tester::{Need, Parameter, Step, Test, Tester};
use verbatim_wire::values::CapabilityMask;
use verbatim_wire::{
    AnyAttribute, AttributeId, MKey, Method, NodeInfo, Notice, PortInfo, PortState, SubnetTimeout, trap,
};

use self::content::content;
use crate::management::keys::{self, AFTER, BEFORE};

mod content;

const STATEMENT: &str = "14.2.5.1 traps";
const NODE: Label<NodeInfo> = Label::new("NodeInfo");
const PORT: Label<PortInfo> = Label::new("PortInfo");
const REPEATED: Label<AnyAttribute> = Label::new("wrong key, whose trap is left to be repeated");
const REPRESSED: Label<AnyAttribute> = Label::new("wrong key, whose trap is repressed");
const MORE: Label<AnyAttribute> = Label::new("wrong key once more, as no trap came");
const LATER: Label<AnyAttribute> = Label::new("wrong key, after a trap was repressed");
const NEXT: Label<AnyAttribute> = Label::new("wrong key, as soon as the trap of another came");
const SLOWER: Label<PortInfo> = Label::new("set a longer SubnetTimeOut");
const NEXT_SLOWER: Label<AnyAttribute> =
    Label::new("wrong key, with the longer SubnetTimeOut, as soon as the trap of another came");
const FAR: Label<AnyAttribute> = Label::new("wrong key, by a route of many hops");
const FAR_RIGHT: Label<AnyAttribute> = Label::new("right key, by a route of many hops");
const BY_REPRESS: Label<Notice> = Label::new("wrong key, TrapRepress");
const REPRESS: Label<Notice> = Label::new("right key, TrapRepress");
const CONTROL: Label<AnyAttribute> = Label::new("wrong key, behind those TrapRepress");
/// The number of times that the test sends a TrapRepress, so that at least one arrives. A TrapRepress gets no response.
const TIMES: usize = verbatim_record::TRIES as usize;
/// The number of consecutive violations, each with its own wrong key: enough violations to make the delay of the path
/// negligible.
const FOLLOWING: u32 = 5;
/// The numbers of hops of the longer routes, below and above the number that a notice can hold. The oracle judges the
/// traps.
const HOPS: [u8; 6] = [3, 29, 30, 31, 58, 63];
/// The largest SubnetTimeOut that the test sets: code 20 is 4.3 s.
const LONGEST_TIMEOUT: u8 = 20;
/// Notice:Type of a security trap.
const SECURITY: u8 = 2;

pub(super) static TEST: Test = Test {
    id: "c14-trap-bad-m-key",
    aliases: &[],
    revision: 8,
    about: "Trap 256 describes the SMP with the wrong M_Key, is repeated unchanged, a SubnetTimeOut apart, and ends \
        with its TrapRepress.",
    reading: "The specification leaves the number of traps open. A port that sends none fails only if traps_come_here \
        is 1. LIDADDR is judged on a directed route. On hardware the time between traps is judged over all traps \
        together.",
    statements: &[STATEMENT, "C14-24", "C14-26"],
    needs: &[Need::Mad, Need::OwnSubnet],
    parameters: &[Parameter {
        name: "traps_come_here",
        about: "1: the port's MasterSMLID is that of the tester's port, so that its traps reach the tester",
        range: (0, 1),
        simulated: 1,
        default: 0,
    }],
    procedure,
    judge,
};

fn sends_traps(port: &PortInfo) -> bool {
    port.capability_mask().has(CapabilityMask::TRAP) && port.lid().is_unicast() && port.master_sm_lid().is_unicast()
}

/// Returns a SubnetTimeOut twice as long, or `None` if it exceeds [`LONGEST_TIMEOUT`].
fn longer(port: &PortInfo) -> Option<SubnetTimeout> {
    let code = port.subnet_timeout().0 + 1;
    (code <= LONGEST_TIMEOUT).then_some(SubnetTimeout(code))
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let node = t.get(NODE, key)?;
    let port = t.get(PORT, key)?;
    if !sends_traps(&port) {
        return Ok(());
    }
    let (ours, [other, another, third, _]) = keys::keys(t);
    let lease = t.longer_than(60);
    let guarded = keys::lock(t, ours, 2, lease, 6)?;
    let own = u32::from(node.local_port_num());
    t.provoke_trap(REPEATED, (AttributeId::PORT_INFO, own), other)?;
    // This time is long enough for a few repetitions with any SubnetTimeOut.
    let repetitions = 6 * port.subnet_timeout().duration();
    t.wait_out(repetitions)?;
    let trap = t.provoke_trap(REPRESSED, (AttributeId::NODE_INFO, 0), another)?;
    let repressed = trap.is_some();
    if let Some(trap) = trap {
        for _ in 0..TIMES {
            t.repress_trap(REPRESS, ours, &trap)?;
        }
    }
    t.wait_out(repetitions)?;
    let come_here = t.parameter("traps_come_here") == 1;
    // The test cannot recognize a trap without one of its keys.
    if !t.has_trap_of(&[other, another]) && come_here {
        for _ in 0..2 {
            t.provoke_trap(MORE, (AttributeId::NODE_INFO, 0), other)?;
            t.wait_out(repetitions)?;
        }
    }
    // A TrapRepress ends one trap, but not the traps of later violations.
    if repressed && come_here {
        for _ in 0..2 {
            t.provoke_trap(LATER, (AttributeId::NODE_INFO, 0), MKey(ours.0 ^ 1 << 41))?;
            t.wait_out(repetitions)?;
        }
    }
    if t.has_trap_of(&[other, another]) {
        for bit in 0..FOLLOWING {
            t.provoke_trap(NEXT, (AttributeId::NODE_INFO, 0), MKey(ours.0 ^ 1 << (42 + bit)))?;
        }
        t.wait_out(repetitions)?;
        if let Some(longer) = longer(&port) {
            let slower = keys::protected(&guarded, ours, 2, lease).change(|info| info.with_subnet_timeout(longer));
            t.set(SLOWER, &guarded, slower)?;
            for bit in FOLLOWING..2 * FOLLOWING {
                t.provoke_trap(NEXT_SLOWER, (AttributeId::NODE_INFO, 0), MKey(ours.0 ^ 1 << (42 + bit)))?;
            }
            t.wait_out(2 * repetitions)?;
        }
    }
    if come_here {
        for _ in 0..TIMES {
            t.repress(BY_REPRESS, MKey(ours.0 ^ 1 << 52), &keys::bad_m_key_notice())?;
            t.wait_out(repetitions)?;
        }
        t.provoke_trap(CONTROL, (AttributeId::NODE_INFO, 0), MKey(ours.0 ^ 1 << 53))?;
        t.wait_out(repetitions)?;
    }
    // On a real path, switches would write the route themselves.
    for hops in HOPS.into_iter().filter(|_| t.is_simulated()).collect::<Vec<_>>() {
        t.ask_from_afar(FAR_RIGHT, hops, (AttributeId::NODE_INFO, 0), ours)?;
        t.provoke_trap_from_afar(FAR, hops, (AttributeId::GUID_INFO, 0), third)?;
        t.wait_out(repetitions)?;
    }
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
    t.not_judged(FAR);
    t.not_judged(CONTROL);
    t.not_judged(FAR_RIGHT);
    let before: PortInfo = t.answer(BEFORE)?;
    let (repeated, repressed) = (t.exchange(REPEATED)?, t.exchange(REPRESSED)?);
    if repeated.is_busy() || repressed.is_busy() {
        t.not_judged(REPRESS);
        f.not_applicable = Some("the port was busy when the test provoked a trap; run the test again".into());
        return Ok(());
    }
    for exchange in [repeated, repressed] {
        f.silent(STATEMENT, exchange);
    }
    // A port also repeats traps of earlier tests, and other ports of the subnet send traps. Each trap of this test has
    // one of the test's keys.
    let ours: Vec<MKey> = [REPEATED, REPRESSED, MORE]
        .into_iter()
        .flat_map(|label| t.each(label))
        .map(|exchange| exchange.request.m_key())
        .chain(t.each(AFTER).map(|exchange| exchange.request.m_key()))
        .collect();
    let is_ours = |of: &&Arrived| of.mad.method() == Method::TRAP && ours.contains(&trap::m_key_of(&of.mad));
    // After the restore of the port's own key, the test's key is a wrong key and raises further traps.
    let end = t.exchange(AFTER)?;
    let end = end.answer().map_or(end.sent.latest, |answer| answer.at.latest);
    let traps: Vec<&Arrived> = t
        .unasked
        .iter()
        .filter(|of| of.at.earliest <= end)
        .filter(is_ours)
        .collect();
    // A trap that was read late may have arrived before or after the Get was sent; its key then decides.
    let is_second = |of: &&Arrived| {
        let may_be = of.at.latest >= repressed.sent.earliest;
        let must_be = of.at.earliest >= repressed.sent.latest;
        must_be || may_be && trap::m_key_of(&of.mad) == repressed.request.m_key()
    };
    let (second, first): (Vec<_>, Vec<_>) = traps
        .iter()
        .copied()
        .filter(|of| of.at.latest >= repeated.sent.earliest)
        .partition(is_second);
    let more: Vec<_> = t.each(MORE).collect();
    // A port that is not Active may be unable to reach its manager.
    let must_send = before.port_state() == PortState::ACTIVE && !more.is_empty();
    if first.is_empty() && second.is_empty() && must_send && !more.iter().any(|of| of.is_busy()) {
        t.not_judged(REPRESS);
        f.claim(STATEMENT, "traps of 4 violations by a port with IsTrapSupported")
            .by_all([repeated, repressed])
            .by_all(more)
            .saw("no trap with the M_Key of a violation")
            .comes_to("a trap 256 to the MasterSMLID", Passed::Fail);
        return Ok(());
    }
    if first.is_empty() && second.is_empty() {
        f.observe_ambiguous("no trap arrived, though IsTrapSupported is set", &[repeated, repressed]);
        t.not_judged(REPRESS);
        f.not_applicable = Some("no trap arrived; the specification leaves open whether a port sends one".into());
        return Ok(());
    }
    for trap in &first {
        content(t, f, (&node, &before), repeated, trap);
    }
    for trap in &second {
        // The trap may be a late trap of the first violation.
        let late = first
            .last()
            .map_or(trap::m_key_of(&trap.mad) == repeated.request.m_key(), |last| {
                last.mad.transaction_id() == trap.mad.transaction_id()
            });
        content(t, f, (&node, &before), if late { repeated } else { repressed }, trap);
    }
    after_repress(t, f);
    by_repress(t, f);
    following(t, f, &before, NEXT);
    // If the port did not execute the Set, the oracle reports that.
    let set = t.each(SLOWER).find_map(Exchange::answer);
    let set = set.map(|answer| answer.mad.attribute::<PortInfo>().subnet_timeout());
    if let Some(longer) = longer(&before).filter(|longer| Some(*longer) == set) {
        following(t, f, &before.with_subnet_timeout(longer), NEXT_SLOWER);
    } else {
        t.not_judged(SLOWER);
        t.not_judged(NEXT_SLOWER);
    }
    repetitions(t, f, &before, repeated, &first);
    ends(t, f, &before, &second);
    Ok(())
}

/// Checks that violations after a TrapRepress raise traps.
fn after_repress(t: &Trace, f: &mut Findings<'_>) {
    let later: Vec<_> = t.each(LATER).collect();
    let (Some(first), false) = (later.first(), later.iter().any(|of| of.is_busy())) else {
        return;
    };
    let key = first.request.m_key();
    let is_told = |of: &&Arrived| of.mad.method() == Method::TRAP && trap::m_key_of(&of.mad) == key;
    let told = t.unasked.iter().filter(is_told).count();
    f.claim(STATEMENT, "traps of two violations after a TrapRepress of another one")
        .by_all(later)
        .saw(told)
        .must("at least 1", told > 0);
}

/// Checks that a wrong-key TrapRepress raises a trap, as any violation does. A port may send only its oldest trap until
/// that trap is repressed. The check therefore needs a trap for the Get that follows the TrapRepress.
fn by_repress(t: &Trace, f: &mut Findings<'_>) {
    let Some(first) = t.each(BY_REPRESS).next() else { return };
    let told_of = |cause: &Exchange| {
        let key = cause.request.m_key();
        let is_told = |of: &&Arrived| of.mad.method() == Method::TRAP && trap::m_key_of(&of.mad) == key;
        t.unasked.iter().filter(is_told).count()
    };
    let told = told_of(first);
    if told == 0 && !t.each(CONTROL).any(|control| told_of(control) > 0) {
        f.observe(
            "no trap arrived for the TrapRepress with a wrong key, and none for the wrong-key Get after it",
            &[first],
        );
        return;
    }
    f.claim(STATEMENT, format!("traps of {TIMES} TrapRepress with a wrong key"))
        .by_all(t.each(BY_REPRESS))
        .by_all(t.each(CONTROL))
        .saw(told)
        .must("at least 1, as for a wrong-key Get after them", told > 0);
}

/// Checks that the traps of consecutive violations are at least a SubnetTimeOut apart, as repetitions are.
fn following(t: &Trace, f: &mut Findings<'_>, port: &PortInfo, label: Label<AnyAttribute>) {
    let came = |cause: &Exchange| {
        let mut traps = t.unasked.iter().filter(|of| of.mad.method() == Method::TRAP);
        traps.find(|of| trap::m_key_of(&of.mad) == cause.request.m_key())
    };
    // A request that found the port busy may or may not have raised a trap.
    let causes: Vec<_> = t.each(label).filter(|of| !of.is_busy()).collect();
    let traps: Vec<_> = causes.iter().copied().filter_map(came).collect();
    let [one, .., last] = traps[..] else { return };
    let times = u32::try_from(traps.len() - 1).unwrap_or(u32::MAX);
    let least = times * port.subnet_timeout().duration();
    let jitter = if t.begin.simulated {
        Duration::ZERO
    } else {
        t.way(port) + t.begin.host_bound
    };
    let least = least.saturating_sub(jitter);
    let (shortest, most) = last.at.since(one.at);
    f.claim(STATEMENT, format!("time from a trap to trap number {times} after it"))
        .by_all(causes)
        .measured((shortest, most), least, None)
        .saw(duration_words_beside(most, least))
        .must(
            format!("at least {}: traps are a SubnetTimeOut apart", duration_words(least)),
            most >= least,
        );
}

/// Checks that a repetition has the same content, and is at least a SubnetTimeOut later.
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
    // On hardware the path may delay each trap. Over many repetitions the delay matters less.
    let times = u32::try_from(traps.len()).unwrap_or(u32::MAX).saturating_sub(1);
    let jitter = t.way(port) + t.begin.host_bound;
    if let (false, [one, .., last]) = (t.begin.simulated, traps) {
        let least = (times * apart).saturating_sub(jitter);
        apart_enough(f, cause, (one, last), times, least);
    }
}

/// Checks that `times` repetitions took at least `least`.
fn apart_enough(
    f: &mut Findings<'_>,
    cause: &Exchange,
    (one, next): (&Arrived, &Arrived),
    times: u32,
    least: Duration,
) {
    let (shortest, most) = next.at.since(one.at);
    f.claim(STATEMENT, format!("time from a trap to its repetition number {times}"))
        .by(cause)
        .measured((shortest, most), least, None)
        .saw(duration_words_beside(most, least))
        .must(
            format!(
                "at least {}: repetitions are a SubnetTimeOut apart",
                duration_words(least)
            ),
            most >= least,
        );
}

/// Checks that no trap follows its TrapRepress, except traps that the port sent before the TrapRepress arrived.
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
