//! PortInfo (architecture 14.2.5.6): the reported fields, and the effect of a Set, including illegal values.

use verbatim_wire::SubnetTimeout;
use verbatim_wire::values::{CapabilityMask, Hex16};
use verbatim_wire::{
    Layout, Lid, LinkDownDefault, LinkSpeedExt, LinkSpeeds, LinkWidths, MKey, Mad, PhysState, PortInfo, PortState,
    Status, VlCap,
};

use crate::agent::{Agent, Reply};
use crate::choices::{CounterWrite, Unassigned};
use crate::defect::{Defect, Faults};
use crate::m_key::{Access, WrongReaction};
use crate::port::Port;
use crate::profile::Profile;

/// Bit of the AttributeModifier: the subnet manager supports extended speeds. The bit is not part of the port number.
const SM_KNOWS_EXTENDED_SPEEDS: u32 = 1 << 31;
/// Exclusive upper bound of LinkRoundTripLatency, a field of 24 bits.
const LATENCY_BOUND: u32 = 1 << 24;
/// LinkSpeedExtEnabled: no extended speed.
const EXT_DISABLED: u8 = 30;
/// LinkSpeedExtEnabled: all supported extended speeds.
const EXT_ALL: u8 = 31;

impl Agent<'_> {
    pub(crate) fn get_port_info(&mut self, request: &Mad, access: Access) -> Reply {
        let Some(target) = self.target(request) else {
            return Reply::refused(Status::INVALID_FIELD);
        };
        if access == Access::WrongReaction(WrongReaction::Blank) {
            return Reply::ok(&[]);
        }
        let key_shown = if target == self.at {
            !matches!(access, Access::Read { key_shown: false })
        } else {
            let lock = &self.ports[target].lock;
            lock.opens_with(request.m_key()) || lock.shows_key()
        };
        let shown = self.show(target, key_shown);
        if self.faults.has(Defect::ViolationsResetByGet) {
            self.ports[target].lock.violations = 0;
        }
        Reply::ok(shown.bytes())
    }

    /// Applies a Set to the receiving port. A Set that addresses another port changes nothing.
    pub(crate) fn set_port_info(&mut self, request: &Mad) -> Reply {
        let Some(target) = self.target(request) else {
            if self.faults.has(Defect::RefusedSetTakesLease) {
                let (wanted, faults): (PortInfo, _) = (request.attribute(), self.faults);
                let (protect, lease) = (wanted.protect_bits(), wanted.m_key_lease_period());
                let lock = &mut self.port().lock;
                lock.set(lock.key, protect, lease, faults);
            }
            return Reply::refused(Status::INVALID_FIELD);
        };
        if target != self.at && !self.faults.has(Defect::OtherPortWritable) {
            return self.get_port_info(request, Access::Full);
        }
        let wanted: PortInfo = request.attribute();
        let status = apply(&mut self.ports[target], &wanted, self.profile, self.faults);
        let reregister =
            wanted.client_reregister() && self.profile.capability_mask.has(CapabilityMask::CLIENT_REREGISTRATION);
        let shown = self
            .show(target, true)
            .with_client_reregister(reregister && status == Status::OK);
        Reply::with(status, shown.bytes())
    }

    /// Returns the index of the port in the AttributeModifier, counted from 0.
    fn target(&self, request: &Mad) -> Option<usize> {
        let mut number = request.modifier();
        if self.profile.has_extended_speeds() {
            number &= !SM_KNOWS_EXTENDED_SPEEDS;
        }
        let own = u32::from(self.ports[self.at].number);
        if number == own && self.faults.has(Defect::OwnPortByNumberRefused) {
            return None;
        }
        if number == 0 {
            return Some(self.at);
        }
        let index = usize::try_from(number).ok()? - 1;
        if index < self.ports.len() {
            return Some(index);
        }
        self.faults.has(Defect::PortBeyondAccepted).then_some(self.at)
    }

    fn show(&self, target: usize, key_shown: bool) -> PortInfo {
        let port = &self.ports[target];
        let local = if self.faults.has(Defect::OtherPortShowsItsOwnNumber) {
            port.number
        } else {
            self.ports[self.at].number
        };
        let none = self.profile.choices.no_ext_speeds_as_0 && port.info.link_speed_ext_enabled().0 == EXT_DISABLED;
        let speeds = if none {
            LinkSpeedExt(0)
        } else {
            port.info.link_speed_ext_enabled()
        };
        let info = port
            .info
            .with_link_speed_ext_enabled(speeds)
            .with_m_key(if key_shown { port.lock.key } else { MKey(0) })
            .with_protect_bits(port.lock.protect)
            .with_m_key_lease_period(port.lock.lease)
            .with_m_key_violations(port.lock.violations)
            .with_local_port_num(local);
        let info = if self.profile.choices.tests_itself && !self.faults.has(Defect::DiagCodeWritable) {
            // The four lowest bits have the same meaning for all vendors; 0 means ready.
            #[allow(clippy::cast_possible_truncation)] // the value wraps
            info.with_diag_code(Hex16(self.now.as_micros() as u16 & 0xFFF0))
        } else {
            info
        };
        if self.faults.has(Defect::PortInfoLocalPortNumWrong) {
            return info.with_local_port_num(local.wrapping_add(1));
        }
        if self.faults.has(Defect::RespTimeValueIllegal) {
            return info.with_resp_time_value(verbatim_wire::RespTime(25));
        }
        self.show_wrong(info)
    }

    /// Returns PortInfo, with a wrong value if the device has a defect of this function.
    fn show_wrong(&self, info: PortInfo) -> PortInfo {
        let widths = info.link_width_supported().0;
        if self.faults.has(Defect::LinkWidthActiveNotSupported) {
            return info.with_link_width_active(LinkWidths(!widths & widths.wrapping_add(1)));
        }
        if self.faults.has(Defect::LinkWidthActiveAllSupported) {
            return info.with_link_width_active(LinkWidths(widths));
        }
        if self.faults.has(Defect::LinkSpeedActiveNotSupported) {
            return info.with_link_speed_active(LinkSpeeds(8));
        }
        if self.faults.has(Defect::ExtendedSpeedsWithoutCapability) && !self.profile.has_extended_speeds() {
            return info.with_link_speed_ext_supported(LinkSpeedExt(1));
        }
        if self.faults.has(Defect::PhysicalStateStale) {
            return info.with_port_physical_state(PhysState::POLLING);
        }
        if self.faults.has(Defect::PortInfoReservedNotZero) {
            return info.with_reserved_416(verbatim_wire::Reserved(1));
        }
        info
    }
}

/// Fields that a port may apply only when its link goes down.
const OF_THE_LINK: [&str; 3] = ["LinkDownDefaultState", "NeighborMTU", "OperationalVLs"];

/// The result of a Set, built field by field.
struct Change<'c> {
    info: PortInfo,
    faults: &'c Faults,
    /// Whether a field had an illegal value.
    illegal: bool,
}

impl Change<'_> {
    /// Applies a field if its value is legal.
    fn take(&mut self, legal: bool, with: impl FnOnce(PortInfo) -> PortInfo) {
        if legal {
            self.info = with(self.info);
        } else {
            self.illegal = true;
        }
    }

    /// Applies a field if its value is legal, or if a defect accepts every value.
    fn take_or(&mut self, legal: bool, defect: Defect, with: impl FnOnce(PortInfo) -> PortInfo) {
        self.take(legal || self.faults.has(defect), with);
    }
}

/// Applies a Set and returns the status of the response.
fn apply(port: &mut Port, wanted: &PortInfo, profile: &Profile, faults: &Faults) -> Status {
    let mut change = Change {
        info: port
            .waits
            .map_or(port.info, |waits| port.info.with_fields_of(&waits, &OF_THE_LINK)),
        faults,
        illegal: false,
    };
    let unassigned = addresses(&mut change, wanted, profile);
    link(&mut change, wanted, profile);
    let waits = (profile.choices.link_fields_wait && !goes_down(wanted)).then_some(change.info);
    if waits.is_some() {
        change.info = change.info.with_fields_of(&port.info, &OF_THE_LINK);
    }
    plain_fields(&mut change, wanted, profile);
    read_only_fields(&mut change, wanted);
    fields_not_kept(&mut change, &port.info);
    fields_cut(&mut change);
    codes_kept(&mut change, wanted);

    let refused = unassigned && profile.choices.unassigned == Unassigned::Refused;
    if refused || change.illegal && profile.choices.illegal_set_applies_nothing {
        return refusal(faults);
    }
    (port.info, port.waits) = (change.info, waits);
    port.lock.set(
        wanted.m_key(),
        wanted.protect_bits(),
        wanted.m_key_lease_period(),
        faults,
    );
    counters(port, wanted, profile.choices.counter_write, faults);
    if change.illegal || unassigned {
        refusal(faults)
    } else {
        Status::OK
    }
}

fn refusal(faults: &Faults) -> Status {
    if faults.has(Defect::IllegalFieldWithoutStatus) {
        Status::OK
    } else {
        Status::INVALID_FIELD
    }
}

/// Applies LID and MasterSMLID, which must be unicast addresses. A Set may repeat an unassigned address; the
/// implementer chooses whether the port refuses this Set. Returns whether the port refuses the Set for this reason.
fn addresses(change: &mut Change<'_>, wanted: &PortInfo, profile: &Profile) -> bool {
    let unicast = Lid::is_unicast;
    let mut unassigned = false;
    let (lid, sm_lid) = (wanted.lid(), wanted.master_sm_lid());
    if !unicast(lid) && change.info.lid() == lid {
        unassigned = true;
    } else {
        let legal = unicast(lid) || lid == Lid::PERMISSIVE && change.faults.has(Defect::PermissiveLidAccepted);
        change.take_or(legal, Defect::IllegalLidAccepted, |info| info.with_lid(lid));
    }
    if sm_lid == Lid(0) && change.info.master_sm_lid() == Lid(0) {
        unassigned = true;
    } else {
        change.take_or(unicast(sm_lid), Defect::IllegalSmLidAccepted, |info| {
            info.with_master_sm_lid(sm_lid)
        });
    }
    unassigned && profile.choices.unassigned != Unassigned::Obeyed
}

/// Applies the fields of the link. In most of these fields the value 0 means no change.
fn link(change: &mut Change<'_>, wanted: &PortInfo, profile: &Profile) {
    let widths = match wanted.link_width_enabled() {
        LinkWidths(0) if change.faults.has(Defect::NoChangeValueStored) => LinkWidths(0),
        LinkWidths(0) => change.info.link_width_enabled(),
        LinkWidths(0xFF) => change.info.link_width_supported(),
        some => some,
    };
    let supported = widths.0 & !change.info.link_width_supported().0 == 0;
    change.take_or(supported, Defect::IllegalLinkWidthAccepted, |info| {
        info.with_link_width_enabled(widths)
    });

    let speeds = match wanted.link_speed_enabled() {
        LinkSpeeds(0) => change.info.link_speed_enabled(),
        LinkSpeeds(0xF) => change.info.link_speed_supported(),
        some => some,
    };
    let supported = speeds.0 & !change.info.link_speed_supported().0 == 0;
    change.take_or(supported, Defect::IllegalLinkSpeedAccepted, |info| {
        info.with_link_speed_enabled(speeds)
    });

    if profile.has_extended_speeds() {
        let supported = change.info.link_speed_ext_supported();
        let speeds = match wanted.link_speed_ext_enabled() {
            LinkSpeedExt(0) => change.info.link_speed_ext_enabled(),
            LinkSpeedExt(EXT_ALL) => supported,
            some => some,
        };
        let is_off = speeds.0 == EXT_DISABLED;
        let speeds = match change.faults.has(Defect::ExtSpeedsOffRefused) && is_off {
            true => change.info.link_speed_ext_enabled(),
            false => speeds,
        };
        let legal = is_off || speeds.0 & !supported.0 == 0;
        change.take_or(legal, Defect::ExtSpeedsUnsupportedKept, |info| {
            info.with_link_speed_ext_enabled(speeds)
        });
    }

    let down = match wanted.link_down_default_state() {
        LinkDownDefault::NO_CHANGE => change.info.link_down_default_state(),
        some => some,
    };
    let legal = matches!(down, LinkDownDefault::SLEEP | LinkDownDefault::POLLING);
    change.take_or(legal, Defect::IllegalLinkDownDefaultAccepted, |info| {
        info.with_link_down_default_state(down)
    });

    let looked_at = if change.faults.has(Defect::OperationalVlsLow3Bits) {
        7
    } else {
        0xF
    };
    let vls = match VlCap(wanted.operational_vls().0 & looked_at) {
        VlCap(0) => change.info.operational_vls(),
        VlCap(3) if change.faults.has(Defect::OperationalVls3StoredAs2) => VlCap(2),
        some => some,
    };
    let legal = vls.0 <= change.info.vl_cap().0;
    change.take_or(legal, Defect::IllegalOperationalVlsAccepted, |info| {
        info.with_operational_vls(vls)
    });

    let mtu = wanted.neighbor_mtu();
    let legal =
        (1..=change.info.mtu_cap().0).contains(&mtu.0) || mtu.0 == 0 && change.faults.has(Defect::NeighborMtu0Accepted);
    let legal = legal && !(mtu.0 == 1 && change.faults.has(Defect::NeighborMtu256Refused));
    change.take_or(legal, Defect::IllegalNeighborMtuAccepted, |info| {
        info.with_neighbor_mtu(mtu)
    });
    states(change, wanted);
}

/// Returns whether a Set takes the link down. An illegal PortPhysicalState does not take the link down.
fn goes_down(wanted: &PortInfo) -> bool {
    let down = matches!(wanted.port_state(), PortState::NO_CHANGE | PortState::DOWN);
    match wanted.port_physical_state() {
        PhysState::NO_CHANGE => wanted.port_state() == PortState::DOWN,
        PhysState::SLEEP | PhysState::POLLING | PhysState::DISABLED => down,
        _ => false,
    }
}

/// Applies PortState and PortPhysicalState, which are commands to the link (architecture 7.2).
///
/// The model assumes that the neighbour brings the link up again at once, so Down and Polling end in Initialize.
fn states(change: &mut Change<'_>, wanted: &PortInfo) {
    let now = change.info.port_state();
    let (state, physical) = (wanted.port_state(), wanted.port_physical_state());
    let down = matches!(state, PortState::NO_CHANGE | PortState::DOWN);
    match physical {
        PhysState::NO_CHANGE => {}
        PhysState::SLEEP | PhysState::POLLING if down => {
            return change.take(true, initialize);
        }
        PhysState::DISABLED if down => {
            return change.take(true, |info| {
                info.with_port_state(PortState::DOWN)
                    .with_port_physical_state(PhysState::DISABLED)
            });
        }
        _ => return change.take(false, |info| info),
    }
    let up = |info: PortInfo| info.with_port_state(state);
    match state {
        PortState::NO_CHANGE => {}
        PortState::DOWN => change.take(true, initialize),
        PortState::ARMED => {
            let refused = change.faults.has(Defect::ArmedRefused);
            change.take(!refused && matches!(now, PortState::INITIALIZE | PortState::ARMED), up);
        }
        PortState::ACTIVE => {
            let legal = matches!(now, PortState::ARMED | PortState::ACTIVE);
            change.take_or(legal, Defect::ArmedSkipped, up);
        }
        _ => change.take(false, up),
    }
}

pub(crate) fn initialize(info: PortInfo) -> PortInfo {
    info.with_port_state(PortState::INITIALIZE)
        .with_port_physical_state(PhysState::LINK_UP)
}

/// Applies the fields in which every value is legal.
fn plain_fields(change: &mut Change<'_>, wanted: &PortInfo, profile: &Profile) {
    let mut names = vec!["LMC"];
    for (name, not_kept) in [
        ("GidPrefix", Defect::GidPrefixNotKept),
        ("MasterSMSL", Defect::MasterSmSlNotKept),
        ("VLHighLimit", Defect::VlHighLimitNotKept),
        ("SubnetTimeOut", Defect::SubnetTimeoutNotKept),
        ("LocalPhyErrors", Defect::LocalPhyErrorsNotKept),
        ("OverrunErrors", Defect::OverrunErrorsNotKept),
    ] {
        if !change.faults.has(not_kept) {
            names.push(name);
        }
    }
    if profile.has_reinit() {
        names.push("InitType");
    }
    if profile.has_trap_suppression() {
        names.push("McastPkeyTrapSuppressionEnabled");
    }
    change.info = change.info.with_fields_of(wanted, &names);
    if profile.has_reinit() && profile.choices.replies_to_init_type {
        change.info = change.info.with_init_type_reply(wanted.init_type());
    }
    if profile.measures_latency() {
        // The measured latency grows, as with a cable that warms up.
        let measured = (change.info.link_round_trip_latency() + 3) % LATENCY_BOUND;
        change.info = change.info.with_link_round_trip_latency(measured);
    }
}

/// Applies the read-only fields that a defect of the device makes writable.
fn read_only_fields(change: &mut Change<'_>, wanted: &PortInfo) {
    let writable: [(Defect, &[&str]); 8] = [
        (Defect::CapabilityMaskWritable, &["CapabilityMask"]),
        (Defect::VlCapWritable, &["VLCap"]),
        (Defect::MtuCapWritable, &["MTUCap"]),
        (Defect::RespTimeValueWritable, &["RespTimeValue"]),
        (
            Defect::VlArbitrationCapsWritable,
            &["VLArbitrationHighCap", "VLArbitrationLowCap"],
        ),
        (Defect::GuidCapWritable, &["GUIDCap"]),
        (
            Defect::LinkSupportWritable,
            &["LinkWidthSupported", "LinkSpeedSupported"],
        ),
        (Defect::DiagCodeWritable, &["DiagCode"]),
    ];
    for (defect, names) in writable {
        if change.faults.has(defect) {
            change.info = change.info.with_fields_of(wanted, names);
        }
    }
}

/// Restores the old values of the fields that a defective device does not store.
fn fields_not_kept(change: &mut Change<'_>, before: &PortInfo) {
    for (defect, name) in [
        (Defect::NeighborMtuNotKept, "NeighborMTU"),
        (Defect::OperationalVlsNotKept, "OperationalVLs"),
        (Defect::LinkWidthEnabledNotKept, "LinkWidthEnabled"),
        (Defect::LinkSpeedEnabledNotKept, "LinkSpeedEnabled"),
        (Defect::LinkDownDefaultNotKept, "LinkDownDefaultState"),
        (Defect::LinkSpeedExtEnabledNotKept, "LinkSpeedExtEnabled"),
        (Defect::LmcNotKept, "LMC"),
        (Defect::InitTypeNotKept, "InitType"),
        (Defect::TrapSuppressionNotKept, "McastPkeyTrapSuppressionEnabled"),
        (Defect::LidNotKept, "LID"),
        (Defect::MasterSmLidNotKept, "MasterSMLID"),
    ] {
        if change.faults.has(defect) {
            change.info = change.info.with_fields_of(before, &[name]);
        }
    }
}

/// Truncates fields of which a defective device stores only a part.
fn fields_cut(change: &mut Change<'_>) {
    if change.faults.has(Defect::SubnetTimeoutAbove20Cut) {
        let cut = change.info.subnet_timeout().0.min(20);
        change.info = change.info.with_subnet_timeout(SubnetTimeout(cut));
    }
    if change.faults.has(Defect::LmcLow2Bits) {
        change.info = change.info.with_lmc(change.info.lmc() & 3);
    }
}

/// Stores the code "all supported widths" or "all supported speeds" itself, as a defective device does.
fn codes_kept(change: &mut Change<'_>, wanted: &PortInfo) {
    if wanted.link_width_enabled() == LinkWidths(0xFF) && change.faults.has(Defect::AllWidthsKeptAsCode) {
        change.info = change.info.with_link_width_enabled(LinkWidths(0xFF));
    }
    if wanted.link_speed_enabled() == LinkSpeeds(0xF) && change.faults.has(Defect::AllSpeedsKeptAsCode) {
        change.info = change.info.with_link_speed_enabled(LinkSpeeds(0xF));
    }
}

/// Applies the violation counters. A written 0 clears a counter; the implementer chooses the effect of other values.
fn counters(port: &mut Port, wanted: &PortInfo, choice: CounterWrite, faults: &Faults) {
    let written = |old: u16, new: u16| match choice {
        _ if new == 0 && faults.has(Defect::ViolationsNotCleared) => old,
        _ if new == 0 => 0,
        CounterWrite::Ignored => old,
        CounterWrite::Stored => new,
        CounterWrite::Zeroed => 0,
    };
    if port.lock.violations != u16::MAX || !faults.has(Defect::ViolationsStuckAtMost) {
        port.lock.violations = written(port.lock.violations, wanted.m_key_violations());
    }
    port.info = port
        .info
        .with_p_key_violations(written(port.info.p_key_violations(), wanted.p_key_violations()))
        .with_q_key_violations(written(port.info.q_key_violations(), wanted.q_key_violations()));
}
