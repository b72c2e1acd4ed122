//! What the M_Key tests share: keys, locking a port, and the check that the lock took.

use verbatim_record::{Exchange, Findings, Gap, Label, Passed, Trace};
use verbatim_tester::{Answer, Guarded, Quiet, Step, Stop, Tester};
use verbatim_wire::values::{Hex32, LeasePeriod, ProtectBits};
use verbatim_wire::{Attribute, Layout, MKey, NodeInfo, Notice, PortInfo, Status, trap};

/// The port before anything was changed.
pub(crate) const FOUND: Label<PortInfo> = Label::new("port as found");
/// The Set that puts our key in force.
pub(crate) const LOCK: Label<PortInfo> = Label::new("set key, protect level and lease");
/// What shows how many SMPs the port has room for.
const BURST_FIRST: Label<PortInfo> = Label::new("wrong key, as many at once as the rig sends");
/// What the right key shows after that.
pub(crate) const BEFORE: Label<PortInfo> = Label::new("right key, before");
/// What the right key shows at the end.
pub(crate) const AFTER: Label<PortInfo> = Label::new("right key, after");

/// What a lock is made of.
pub(crate) const LOCKED: [&str; 3] = ["M_Key", "M_KeyProtectBits", "M_KeyLeasePeriod"];

/// Our key, and four that are not: one random, two that differ from ours in a single bit of each half, and 0.
pub(crate) fn keys(t: &Tester<'_>) -> (MKey, [MKey; 4]) {
    let mut random = t.random("keys");
    // Never a key that one of the wrong ones could meet: neither 0 nor a single bit.
    let ours = random.nonzero() | 0x0100_0000_0000_0100;
    let other = random.nonzero() & !0x100;
    (
        MKey(ours),
        [MKey(other.max(2)), MKey(ours ^ (1 << 40)), MKey(ours ^ 1), MKey(0)],
    )
}

/// Journals the port, sets key, level and lease in one Set, and reads the port with the right key.
pub(crate) fn lock(t: &mut Tester<'_>, key: MKey, level: u8, lease: u16, violations: u16) -> Step<Guarded<PortInfo>> {
    lock_with(t, (key, None), level, lease, violations)
}

/// The same at a level at which wrong keys are dropped, and then no more of them at once than the port has room for: VL
/// 15 has no flow control. As many as it counts of a first burst with `other` it holds.
pub(crate) fn lock_with_room(
    t: &mut Tester<'_>,
    (key, other): (MKey, MKey),
    level: u8,
    lease: u16,
    violations: u16,
) -> Step<Guarded<PortInfo>> {
    lock_with(t, (key, Some(other)), level, lease, violations)
}

fn lock_with(
    t: &mut Tester<'_>,
    (key, other): (MKey, Option<MKey>),
    level: u8,
    lease: u16,
    violations: u16,
) -> Step<Guarded<PortInfo>> {
    let rig_key = t.rig_key();
    let port = t.guard(FOUND, rig_key)?;
    // A counter about to saturate would hide what is counted; some may be counted more than once, by a busy port.
    let room = port.found().m_key_violations() <= u16::MAX - violations.saturating_mul(2).max(0x100);
    let locked = protected(&port, key, level, lease);
    let locked = locked.change(|info| if room { info } else { info.with_m_key_violations(0) });
    let answer = t.set(LOCK, &port, locked)?;
    // A port without LID or SM may refuse the Set: then the key in force is the old one.
    let burst = other.filter(|_| t.key() == key && t.window() > 1);
    if let Some(other) = burst {
        t.provoke_many(BURST_FIRST, other, t.window() as u64)?;
    }
    let before = t.get(BEFORE, t.key())?;
    if burst.is_some() {
        let start = if room { port.found().m_key_violations() } else { 0 };
        t.narrow(before.m_key_violations().saturating_sub(start).into());
    }
    if t.key() != key {
        return Err(unlocked(answer));
    }
    Ok(port)
}

/// The end of a procedure whose lock was refused: its judge says why.
fn unlocked(answer: Option<Answer<PortInfo>>) -> Stop {
    let status = answer.map_or_else(|| "no answer".to_string(), |answer| format!("status {}", answer.status));
    Stop::Refused(format!("the port does not take the M_Key: {status}"))
}

/// The port as it was found, but with this key, level and lease.
pub(crate) fn protected(port: &Guarded<PortInfo>, key: MKey, level: u8, lease: u16) -> Quiet<PortInfo> {
    port.quiet().change(|info| {
        info.with_m_key(key)
            .with_protect_bits(ProtectBits(level))
            .with_m_key_lease_period(LeasePeriod(lease))
    })
}

/// A Notice to repress: of the trap that tells of bad M_Keys.
pub(crate) fn bad_m_key_notice() -> Notice {
    Notice::default()
        .with_is_generic(true)
        .with_notice_type(2)
        .with_producer_type(Hex32(1))
        .with_trap_number(trap::BAD_M_KEY)
}

/// The labels of a port whose M_Key is set to 0, at a protect level at which it would be checked.
#[derive(Clone, Copy)]
pub(crate) struct Unlock {
    /// The Set.
    pub(crate) set: Label<PortInfo>,
    /// What the port shows after it.
    pub(crate) before: Label<PortInfo>,
}

impl Unlock {
    /// Sets M_Key 0, the level and a lease, and reads the port. What was set.
    pub(crate) fn run(
        self,
        t: &mut Tester<'_>,
        port: &Guarded<PortInfo>,
        level: u8,
        lease: u16,
    ) -> Step<Quiet<PortInfo>> {
        let value = protected(port, MKey(0), level, lease);
        let answer = t.set(self.set, port, value)?;
        t.get(self.before, t.key())?;
        if t.key() != MKey(0) {
            return Err(unlocked(answer));
        }
        Ok(value)
    }

    /// Judges that the port keeps these fields: what it shows then. `None` when it does not: nothing else can be said.
    pub(crate) fn kept(
        self,
        t: &Trace,
        f: &mut Findings<'_>,
        fields: &[&'static str],
    ) -> Result<Option<PortInfo>, Gap> {
        let found: PortInfo = t.answer(FOUND)?;
        let (_, wanted) = t.asked(self.set)?;
        obeyed(t, f, "C14-26", (&found, self.set), (self.before, fields))?;
        let before = t.exchange(self.before)?;
        let kept = f.same_fields("C14-24", before, fields, &wanted)?;
        Ok(if kept { Some(t.answered(before)?) } else { None })
    }
}

/// Demands that what was sent while the M_Key was 0 carried another key.
pub(crate) fn require_another<A: Attribute>(t: &Trace, label: Label<A>) -> Result<(), Gap> {
    let (key, _) = t.asked(label)?;
    t.require(label, "a key other than 0", key != MKey(0))
}

/// Demands that what was sent with a wrong key was not answered: the test of the check itself is another one.
pub(crate) fn require_dropped<A>(t: &Trace, label: Label<A>, exchange: &Exchange) -> Result<(), Gap> {
    t.require(label, "a wrong key that was dropped", exchange.answer().is_none())
}

/// Judges the lock: whether the port keeps key, level and lease. False when it does not: nothing else can be said.
pub(crate) fn locked(t: &Trace, f: &mut Findings<'_>) -> Result<bool, Gap> {
    t.not_judged(BURST_FIRST);
    let found: PortInfo = t.answer(FOUND)?;
    let (_, wanted) = t.asked(LOCK)?;
    obeyed(t, f, "C14-26", (&found, LOCK), (BEFORE, &LOCKED))?;
    let before: PortInfo = t.answer(BEFORE)?;
    if wanted.protect_bits().0 == 1
        && before.protect_bits().0 == 1
        && before.m_key() == MKey(0)
        && wanted.m_key() != MKey(0)
    {
        // The rest of the lock was kept: the key may be there and hidden from its owner.
        f.claim("C14-16", "M_Key as shown to the right key")
            .on(BEFORE)
            .saw(before.m_key())
            .is(wanted.m_key());
    }
    f.same_fields("C14-24", t.exchange(BEFORE)?, &LOCKED, &wanted)
}

/// Judges the status of a Set(PortInfo) that must be obeyed, as a read after it shows in these fields.
///
/// A port without LID or SM may complain of those, and apply the rest or nothing. A Set whose answer is lost, or one to a
/// busy port, is judged by what was read.
///
/// # Errors
/// [`Gap::NoLid`] when such a port applied nothing: then nothing else can be said.
pub(crate) fn obeyed(
    t: &Trace,
    f: &mut Findings<'_>,
    statement: &str,
    (found, set): (&PortInfo, Label<PortInfo>),
    (read, fields): (Label<PortInfo>, &[&'static str]),
) -> Result<(), Gap> {
    let exchange = t.exchange(set)?;
    let (_, wanted) = t.asked(set)?;
    let is_set = |shown: &PortInfo| {
        let left = wanted.differences(shown);
        left.iter().all(|of| !fields.contains(&of.field.name))
    };
    let Some(answer) = exchange.answer().filter(|_| !exchange.is_busy()) else {
        // Its answer may be lost, and it be done all the same.
        if !t.answer(read).is_ok_and(|shown| is_set(&shown)) {
            f.status(statement, exchange, &[Status::OK]);
        }
        return Ok(());
    };
    let unassigned = !found.lid().is_unicast() || !found.master_sm_lid().is_unicast();
    if !unassigned || answer.mad.status() != Status::INVALID_FIELD {
        f.status(statement, exchange, &[Status::OK]);
        return Ok(());
    }
    f.status(statement, exchange, &[Status::OK, Status::INVALID_FIELD]);
    if is_set(&t.answer(read)?) {
        Ok(())
    } else {
        Err(Gap::NoLid(exchange.number))
    }
}

/// Judges M_KeyViolations: it must have grown by the number of SMPs that had to be dropped.
pub(crate) fn violations(t: &Trace, f: &mut Findings<'_>, dropped: usize) -> Result<(), Gap> {
    // VL 15 has no flow control: of several packets one may be lost, and was never seen.
    counted(t, f, dropped, 1)
}

/// The same where many were outstanding at once, of which that many may be lost on hardware.
pub(crate) fn counted(t: &Trace, f: &mut Findings<'_>, dropped: usize, lost: usize) -> Result<(), Gap> {
    let before: PortInfo = t.answer(BEFORE)?;
    let after: PortInfo = t.answer(AFTER)?;
    let grown = i32::from(after.m_key_violations()) - i32::from(before.m_key_violations());
    let wanted = i32::try_from(dropped).unwrap_or(i32::MAX);
    // Whether a busy port looked at the key is open.
    let busy = t.busy_with_another_key(before.m_key(), t.exchange(BEFORE)?, t.exchange(AFTER)?);
    let most = wanted.saturating_add(i32::try_from(busy).unwrap_or(i32::MAX));
    t.require(
        BEFORE,
        "room in M_KeyViolations below 0xFFFF",
        i32::from(before.m_key_violations()) + most <= 0xFFFF,
    )?;
    let result = match grown.cmp(&wanted) {
        _ if (wanted..=most).contains(&grown) => Passed::Pass,
        // Somebody else on the subnet may have sent wrong keys too, or have written back what it read of the counter before:
        // 0 resets it.
        _ if t.begin.shared_subnet => Passed::Inconclusive,
        core::cmp::Ordering::Less
            if !t.begin.simulated && usize::try_from(wanted - grown).is_ok_and(|missing| missing <= lost) =>
        {
            Passed::Inconclusive
        }
        _ => Passed::Fail,
    };
    let mut expected = format!(
        "{} + {wanted} wrong-key SMPs that had to be dropped",
        before.m_key_violations()
    );
    if busy > 0 {
        expected += &format!(", and up to {busy} that found the port busy");
    }
    f.claim("C14-29", "M_KeyViolations")
        .on(BEFORE)
        .on(AFTER)
        .saw(after.m_key_violations())
        .comes_to(expected, result);
    Ok(())
}

/// Why a test of TrapRepress does not apply to such a port that made nothing of it.
pub(crate) const NO_TRAPS: &str = "the port sends no traps and made nothing of a TrapRepress, which it need not know";

/// NodeInfo as the right key shows it: a second attribute, so that a check of PortInfo alone shows.
pub(crate) const NODE: Label<NodeInfo> = Label::new("right key, NodeInfo");
