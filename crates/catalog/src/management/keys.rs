//! Shared parts of the M_Key tests: keys, locking a port, and the check that the port stored the lock.

use verbatim_record::{Exchange, Findings, Gap, Label, Passed, Trace};
use verbatim_tester::{Answer, Guarded, Quiet, Step, Stop, Tester};
use verbatim_wire::values::{Hex32, LeasePeriod, ProtectBits};
use verbatim_wire::{Attribute, Layout, MKey, NodeInfo, Notice, PortInfo, Status, trap};

/// PortInfo before any change.
pub(crate) const FOUND: Label<PortInfo> = Label::new("port as found");
/// The Set of the test's key, with level and lease.
pub(crate) const LOCK: Label<PortInfo> = Label::new("set key, protect level and lease");
/// The burst of wrong keys that shows how many SMPs the port can buffer.
const BURST_FIRST: Label<PortInfo> = Label::new("wrong key, as many at once as the rig sends");
/// PortInfo after the lock, read with the right key.
pub(crate) const BEFORE: Label<PortInfo> = Label::new("right key, before");
/// PortInfo at the end, read with the right key.
pub(crate) const AFTER: Label<PortInfo> = Label::new("right key, after");

/// The fields of a lock.
pub(crate) const LOCKED: [&str; 3] = ["M_Key", "M_KeyProtectBits", "M_KeyLeasePeriod"];

/// Returns the test's key and four wrong keys: a random key, two keys that differ from the right key in one bit, and 0.
pub(crate) fn keys(t: &Tester<'_>) -> (MKey, [MKey; 4]) {
    let mut random = t.random("keys");
    // The right key has bits 8 and 56 set, so no wrong key equals it.
    let ours = random.nonzero() | 0x0100_0000_0000_0100;
    let other = random.nonzero() & !0x100;
    (
        MKey(ours),
        [MKey(other.max(2)), MKey(ours ^ (1 << 40)), MKey(ours ^ 1), MKey(0)],
    )
}

/// Stores the port's state in the journal, sets key, level and lease in one Set, and reads the port with the right key.
pub(crate) fn lock(t: &mut Tester<'_>, key: MKey, level: u8, lease: u16, violations: u16) -> Step<Guarded<PortInfo>> {
    lock_with(t, (key, None), level, lease, violations)
}

/// Locks the port as [`lock`] does, at a level that drops wrong keys. VL 15 has no flow control, so the function limits
/// the requests in flight. The limit is the number that the port counts in a first burst with the key `other`.
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
    // A saturated counter would hide violations. A busy port may count a request more than once, so require space for
    // twice as many.
    let room = port.found().m_key_violations() <= u16::MAX - violations.saturating_mul(2).max(0x100);
    let locked = protected(&port, key, level, lease);
    let locked = locked.change(|info| if room { info } else { info.with_m_key_violations(0) });
    let answer = t.set(LOCK, &port, locked)?;
    // If a port without LID or SM refused the Set, its old key is in force.
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

/// Returns the stop of a procedure whose lock was refused. The judge states the reason.
fn unlocked(answer: Option<Answer<PortInfo>>) -> Stop {
    let status = answer.map_or_else(|| "no answer".to_string(), |answer| format!("status {}", answer.status));
    Stop::Refused(format!("the port does not accept the M_Key: {status}"))
}

/// Returns the port's original state with this key, level and lease.
pub(crate) fn protected(port: &Guarded<PortInfo>, key: MKey, level: u8, lease: u16) -> Quiet<PortInfo> {
    port.quiet().change(|info| {
        info.with_m_key(key)
            .with_protect_bits(ProtectBits(level))
            .with_m_key_lease_period(LeasePeriod(lease))
    })
}

/// Returns the Notice of the trap for a wrong M_Key, as a TrapRepress carries it.
pub(crate) fn bad_m_key_notice() -> Notice {
    Notice::default()
        .with_is_generic(true)
        .with_notice_type(2)
        .with_producer_type(Hex32(1))
        .with_trap_number(trap::BAD_M_KEY)
}

/// The labels of a Set to M_Key 0 and of the read after it. With another M_Key, the protect level would make the port
/// check keys.
#[derive(Clone, Copy)]
pub(crate) struct Unlock {
    /// The Set of the M_Key, level and lease.
    pub(crate) set: Label<PortInfo>,
    /// PortInfo after the Set.
    pub(crate) before: Label<PortInfo>,
}

impl Unlock {
    /// Sets M_Key 0, the level and a lease, and reads the port. Returns the value of the Set.
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

    /// Checks that the port stored these fields and returns its PortInfo. Returns `None` if the port did not; the test
    /// then ends.
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

/// Requires that the request under a label had a key other than 0.
pub(crate) fn require_another<A: Attribute>(t: &Trace, label: Label<A>) -> Result<(), Gap> {
    let (key, _) = t.asked(label)?;
    t.require(label, "a key other than 0", key != MKey(0))
}

/// Requires that a wrong-key request got no response. Another test covers the check itself.
pub(crate) fn require_dropped<A>(t: &Trace, label: Label<A>, exchange: &Exchange) -> Result<(), Gap> {
    t.require(label, "a wrong key that was dropped", exchange.answer().is_none())
}

/// Checks that the port stored key, level and lease. Returns false if the port did not; the test then ends.
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
        // The port stored the other fields, so it may have stored the key and hide it from its owner.
        f.claim("C14-16", "M_Key as shown to the right key")
            .on(BEFORE)
            .saw(before.m_key())
            .is(wanted.m_key());
    }
    f.same_fields("C14-24", t.exchange(BEFORE)?, &LOCKED, &wanted)
}

/// Checks the status of a Set(PortInfo) that the port must execute; a later read of `fields` shows whether it did.
///
/// A port without LID or SM may respond with 0x001C and apply the other fields or none. If the response was lost, or
/// the port was busy, the read alone decides.
///
/// # Errors
/// Returns [`Gap::NoLid`] when such a port applied nothing. No other check is then possible.
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
        // The port may have executed the Set although the response was lost.
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

/// Checks that M_KeyViolations increased by the number of SMPs that the port had to drop.
pub(crate) fn violations(t: &Trace, f: &mut Findings<'_>, dropped: usize) -> Result<(), Gap> {
    // VL 15 has no flow control, so one of several packets may be lost.
    counted(t, f, dropped, 1)
}

/// Checks the counter as [`violations`] does, with many requests in flight. On hardware up to `lost` of them may be
/// lost.
pub(crate) fn counted(t: &Trace, f: &mut Findings<'_>, dropped: usize, lost: usize) -> Result<(), Gap> {
    let before: PortInfo = t.answer(BEFORE)?;
    let after: PortInfo = t.answer(AFTER)?;
    let grown = i32::from(after.m_key_violations()) - i32::from(before.m_key_violations());
    let wanted = i32::try_from(dropped).unwrap_or(i32::MAX);
    // A busy port may or may not have checked the key.
    let busy = t.busy_with_another_key(before.m_key(), t.exchange(BEFORE)?, t.exchange(AFTER)?);
    let most = wanted.saturating_add(i32::try_from(busy).unwrap_or(i32::MAX));
    t.require(
        BEFORE,
        "room in M_KeyViolations below 0xFFFF",
        i32::from(before.m_key_violations()) + most <= 0xFFFF,
    )?;
    let result = match grown.cmp(&wanted) {
        _ if (wanted..=most).contains(&grown) => Passed::Pass,
        // Other nodes of the subnet may have sent wrong keys too. A subnet manager may also have written back an old
        // value of the counter, or 0.
        _ if t.begin.shared_subnet => Passed::Inconclusive,
        // A subnet manager that has just joined the subnet may have sent wrong keys.
        core::cmp::Ordering::Greater if !t.begin.simulated => Passed::Inconclusive,
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

/// The reason why a TrapRepress test does not apply to a port that sends no traps and ignored the TrapRepress.
pub(crate) const NO_TRAPS: &str = "the port sends no traps and ignored a TrapRepress, as the specification allows";

/// NodeInfo read with the right key: a second attribute, which detects a port that checks keys for PortInfo only.
pub(crate) const NODE: Label<NodeInfo> = Label::new("right key, NodeInfo");
