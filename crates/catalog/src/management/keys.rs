//! What the M_Key tests share: keys, locking a port, and the check that the lock took.

use verbatim_record::{Exchange, Findings, Gap, Label, Passed, Trace};
use verbatim_tester::{Guarded, Quiet, Step, Tester};
use verbatim_wire::values::{Hex32, LeasePeriod, ProtectBits};
use verbatim_wire::{Attribute, MKey, NodeInfo, Notice, PortInfo, Status, trap};

/// The port before anything was changed.
pub(crate) const FOUND: Label<PortInfo> = Label::new("port as found");
/// The Set that puts our key in force.
pub(crate) const LOCK: Label<PortInfo> = Label::new("set key, protect level and lease");
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
    let rig_key = t.rig_key();
    let port = t.guard(FOUND, rig_key)?;
    // A counter about to saturate would hide what is counted.
    let room = port.found().m_key_violations() <= u16::MAX - violations;
    let locked = protected(&port, key, level, lease);
    let locked = locked.change(|info| if room { info } else { info.with_m_key_violations(0) });
    t.set(LOCK, &port, locked)?;
    t.get(BEFORE, key)?;
    Ok(port)
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
        t.set(self.set, port, value)?;
        t.get(self.before, MKey(0))?;
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
        let set = t.exchange(self.set)?;
        if set.answer().is_some() {
            f.status("C14-26", set, accepted(&found));
        }
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
    let found: PortInfo = t.answer(FOUND)?;
    let (_, wanted) = t.asked(LOCK)?;
    let set = t.exchange(LOCK)?;
    if set.answer().is_some() {
        f.status("C14-26", set, accepted(&found));
    }
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

/// Status of a Set(PortInfo) that is obeyed: a port without LID or SM may complain of those fields and apply the rest.
pub(crate) fn accepted(found: &PortInfo) -> &'static [Status] {
    if found.lid().0 == 0 || found.master_sm_lid().0 == 0 {
        &[Status::OK, Status::INVALID_FIELD]
    } else {
        &[Status::OK]
    }
}

/// Judges M_KeyViolations: it must have grown by the number of SMPs that had to be dropped.
pub(crate) fn violations(t: &Trace, f: &mut Findings<'_>, dropped: usize) -> Result<(), Gap> {
    let before: PortInfo = t.answer(BEFORE)?;
    let after: PortInfo = t.answer(AFTER)?;
    let grown = i32::from(after.m_key_violations()) - i32::from(before.m_key_violations());
    let wanted = i32::try_from(dropped).unwrap_or(i32::MAX);
    t.require(
        BEFORE,
        "room in M_KeyViolations below 0xFFFF",
        i32::from(before.m_key_violations()) + wanted <= 0xFFFF,
    )?;
    let result = match grown.cmp(&wanted) {
        core::cmp::Ordering::Equal => Passed::Pass,
        // Somebody else on the subnet may have sent wrong keys too.
        core::cmp::Ordering::Greater if t.begin.shared_subnet => Passed::Inconclusive,
        // VL 15 has no flow control: of several packets one may be lost, and was never seen.
        core::cmp::Ordering::Less if !t.begin.simulated && wanted - grown == 1 => Passed::Inconclusive,
        _ => Passed::Fail,
    };
    let expected = format!(
        "{} + {wanted} wrong-key SMPs that had to be dropped",
        before.m_key_violations()
    );
    f.claim("C14-29", "M_KeyViolations")
        .on(BEFORE)
        .on(AFTER)
        .saw(after.m_key_violations())
        .comes_to(expected, result);
    Ok(())
}

/// NodeInfo as the right key shows it: a second attribute, so that a check of PortInfo alone shows.
pub(crate) const NODE: Label<NodeInfo> = Label::new("right key, NodeInfo");
