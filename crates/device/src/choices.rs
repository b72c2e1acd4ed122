//! Choices that the architecture leaves to the implementer. Every combination conforms.

use rand_chacha::ChaCha8Rng;
use verbatim_wire::Status;

use crate::profile::below;

/// The effect of a Set(PortInfo) that repeats an unassigned LID (0 or permissive) or an unassigned MasterSMLID (0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unassigned {
    /// The port applies the Set.
    Obeyed,
    /// The port responds with the invalid-field status and applies the other fields.
    RefusedInPart,
    /// The port responds with the invalid-field status and applies no field.
    Refused,
}

/// The effect of writing a value other than 0 to a violation counter. The architecture does not define this effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterWrite {
    /// The counter keeps its value.
    Ignored,
    /// The counter takes the written value.
    Stored,
    /// The counter becomes 0.
    Zeroed,
}

/// Choices of an implementer. The default describes a plain adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Whether the port refuses a part of VLArbitrationTable that is beyond the capacity of the table. Otherwise the
    /// response contains zeros.
    pub part_beyond_capacity_refused: bool,
    /// Whether entries of VLArbitrationTable beyond the capacity keep the written value. Otherwise they read as zeros.
    pub entries_beyond_capacity_kept: bool,
    /// Whether the port refuses a table that contains a VL that is not operational. Otherwise
    /// `corrects_foreign_vls` decides.
    pub foreign_vls_refused: bool,
    /// Whether the port refuses an absent optional table as an unsupported combination of method and attribute.
    /// Otherwise the port refuses it as an unsupported method.
    pub absent_attribute_as_combination: bool,
    /// Whether a Set with an illegal field applies no field. Otherwise the port applies the legal fields.
    pub illegal_set_applies_nothing: bool,
    /// The effect of a Set(PortInfo) that repeats an unassigned LID or MasterSMLID.
    pub unassigned: Unassigned,
    /// Whether the port refuses a nonzero AttributeModifier if the attribute does not use the modifier. Otherwise
    /// the port ignores the modifier.
    pub unused_modifier_refused: bool,
    /// Whether a second violation restarts a running lease timer. Otherwise the timer continues.
    pub second_violation_restarts_lease: bool,
    /// Whether a wrong-key Get at level 0 or 1 stops a running lease timer.
    pub tolerated_get_stops_lease: bool,
    /// Whether the port responds to a Get or Set of another base version with the bad-version status. Otherwise the
    /// port discards the request.
    pub bad_base_version_answered: bool,
    /// The effect of writing a value other than 0 to a violation counter.
    pub counter_write: CounterWrite,
    /// Average number of Busy responses per 16 Gets and Sets, chosen at random: 0 none, 16 all.
    pub busy: u8,
    /// Whether the device executes a request that gets a Busy response. Otherwise the device does not execute it.
    pub busy_and_done: bool,
    /// Whether PortCounters has the four optional traffic counters. Otherwise they are 0.
    pub counts_traffic: bool,
    /// Whether a Set of InitType sets InitTypeReply to the same value.
    pub replies_to_init_type: bool,
    /// Whether the port measures LinkRoundTripLatency.
    pub measures_latency: bool,
    /// Whether the port refuses an unknown AttributeID before the M_Key check. Otherwise the M_Key check comes first.
    pub refuses_unknown_first: bool,
    /// Whether a port that sends no traps discards a TrapRepress without an M_Key check. Otherwise the port checks
    /// the M_Key.
    pub knows_no_repress: bool,
    /// Whether each trap waits until the preceding one is repressed. Otherwise the port sends only the latest trap.
    pub queues_traps: bool,
    /// Whether a port without an assigned LID reports the permissive LID, 0xFFFF. Otherwise it reports 0.
    pub shows_permissive_lid: bool,
    /// Whether the port stores VL 0 in place of a VL that is not operational. Otherwise the port stores this VL.
    /// Without effect if `foreign_vls_refused` is set.
    pub corrects_foreign_vls: bool,
    /// Capacity of the buffer of VL 15 in SMPs. The port drops SMPs that arrive while the buffer is full. 0: no limit.
    pub vl15_room: u8,
    /// Whether LinkDownDefaultState, NeighborMTU and OperationalVLs take effect only when the link goes down. Otherwise
    /// they take effect at once.
    pub link_fields_wait: bool,
    /// Whether LinkSpeedExtEnabled 30 (no extended speed) reads back as 0. Otherwise it reads back as 30.
    pub no_ext_speeds_as_0: bool,
    /// Whether DiagCode reports the progress of a self-test that never ends. Otherwise DiagCode is constant.
    pub tests_itself: bool,
    /// Whether the performance agent redirects all requests. [`Profile::vary`](crate::Profile::vary) never draws this
    /// choice, because a test then learns nothing about the port's counters.
    pub performance_elsewhere: bool,
    /// Whether a program in front of the agent, such as a kernel, responds to SMInfo. This is a property of a host, not
    /// of a device, so [`Profile::vary`](crate::Profile::vary) never draws this choice.
    pub sm_info_by_host: bool,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            part_beyond_capacity_refused: true,
            entries_beyond_capacity_kept: false,
            foreign_vls_refused: false,
            absent_attribute_as_combination: true,
            illegal_set_applies_nothing: false,
            unassigned: Unassigned::Obeyed,
            unused_modifier_refused: false,
            second_violation_restarts_lease: false,
            tolerated_get_stops_lease: false,
            bad_base_version_answered: false,
            counter_write: CounterWrite::Ignored,
            busy: 0,
            busy_and_done: false,
            counts_traffic: true,
            replies_to_init_type: false,
            measures_latency: false,
            refuses_unknown_first: false,
            knows_no_repress: false,
            queues_traps: false,
            shows_permissive_lid: false,
            corrects_foreign_vls: false,
            vl15_room: 0,
            link_fields_wait: false,
            no_ext_speeds_as_0: false,
            tests_itself: false,
            performance_elsewhere: false,
            sm_info_by_host: false,
        }
    }
}

impl Choices {
    /// Draws most choices from `rng`.
    pub(crate) fn drawn(rng: &mut ChaCha8Rng) -> Self {
        let mut coin = || below(rng, 2) == 1;
        let choices = Self {
            part_beyond_capacity_refused: coin(),
            entries_beyond_capacity_kept: coin(),
            foreign_vls_refused: coin(),
            absent_attribute_as_combination: coin(),
            illegal_set_applies_nothing: coin(),
            unassigned: if coin() {
                Unassigned::RefusedInPart
            } else {
                Unassigned::Obeyed
            },
            unused_modifier_refused: coin(),
            second_violation_restarts_lease: coin(),
            tolerated_get_stops_lease: coin(),
            bad_base_version_answered: coin(),
            ..Self::default()
        };
        // Newer choices are drawn last, so that the older choices of a seed stay the same.
        let refused_whole = choices.unassigned == Unassigned::RefusedInPart && coin();
        Self {
            unassigned: if refused_whole {
                Unassigned::Refused
            } else {
                choices.unassigned
            },
            counter_write: [CounterWrite::Ignored, CounterWrite::Stored, CounterWrite::Zeroed][below(rng, 3) as usize],
            busy: if below(rng, 4) == 0 { 2 } else { 0 },
            busy_and_done: below(rng, 2) == 1,
            ..choices
        }
    }

    /// Returns the status for an absent optional attribute.
    pub(crate) fn absent_attribute(&self) -> Status {
        if self.absent_attribute_as_combination {
            Status::METHOD_ATTRIBUTE_UNSUPPORTED
        } else {
            Status::METHOD_UNSUPPORTED
        }
    }
}
