//! What the architecture leaves to the implementer: every combination conforms.

use rand_chacha::ChaCha8Rng;
use verbatim_wire::Status;

use crate::profile::below;

/// What becomes of a Set(PortInfo) that carries LID 0 or MasterSMLID 0 where none was assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unassigned {
    /// It is obeyed.
    Obeyed,
    /// It is answered with the invalid-field status, and its other fields are applied.
    RefusedInPart,
    /// It is answered with the invalid-field status, and nothing is applied.
    Refused,
}

/// What a violation counter becomes when a value other than 0 is written, which the architecture does not define.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterWrite {
    /// It stays.
    Ignored,
    /// It takes the value.
    Stored,
    /// It becomes 0, as if 0 were written.
    Zeroed,
}

/// Choices of an implementer. The default is what a plain adapter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// A VLArbitrationTable part 2 or 4 beyond the capacity is refused; else answered with zeros.
    pub part_beyond_capacity_refused: bool,
    /// Entries of VLArbitrationTable beyond the capacity keep what was set; else they read as zeros.
    pub entries_beyond_capacity_kept: bool,
    /// A table that names VLs which are not operational is refused; else it is stored.
    pub foreign_vls_refused: bool,
    /// How an optional table that is absent is refused: as an unsupported combination of method and attribute, or else
    /// as an unsupported method.
    pub absent_attribute_as_combination: bool,
    /// A Set with an illegal field applies nothing; else it applies the legal fields.
    pub illegal_set_applies_nothing: bool,
    /// What becomes of a Set(PortInfo) of a port without LID or subnet manager.
    pub unassigned: Unassigned,
    /// An AttributeModifier that the attribute does not use must be 0; else it is ignored.
    pub unused_modifier_refused: bool,
    /// A second violation restarts a running lease timer; else the timer runs on.
    pub second_violation_restarts_lease: bool,
    /// A wrong-key Get at level 0 or 1 stops a running lease timer.
    pub tolerated_get_stops_lease: bool,
    /// A Get or Set with another base version is answered with the bad-version status; else it is discarded.
    pub bad_base_version_answered: bool,
    /// What a violation counter becomes when a value other than 0 is written.
    pub counter_write: CounterWrite,
    /// Of 16 SMPs that ask for an answer that many get the busy status, by chance: 0 none, 16 all.
    pub busy: u8,
    /// What gets the busy status is done all the same; else it is not looked at.
    pub busy_and_done: bool,
    /// The four counters of traffic in PortCounters, which are optional, are there; else they are 0.
    pub counts_traffic: bool,
    /// A Set of InitType changes InitTypeReply to the same.
    pub replies_to_init_type: bool,
    /// LinkRoundTripLatency is measured all the time; else it is not measured.
    pub measures_latency: bool,
    /// A number that no attribute of the class has is refused before the key is looked at; else the key comes first.
    pub refuses_unknown_first: bool,
    /// A port that sends no traps discards a TrapRepress, key and all; else its key counts as any other.
    pub knows_no_repress: bool,
    /// Traps wait for one another, each until the one before it is repressed; else the latest is sent alone.
    pub queues_traps: bool,
    /// A port that was given no LID shows the permissive one, 0xFFFF; else 0.
    pub shows_permissive_lid: bool,
    /// A VL of a table that is not operational is stored as VL 0; else it is stored, or refused.
    pub corrects_foreign_vls: bool,
    /// So many SMPs have room in the buffer of VL 15, each until it was served; what comes beyond is dropped. 0: all.
    pub vl15_room: u8,
    /// LinkDownDefaultState, NeighborMTU and OperationalVLs are taken over when the link goes down; else at once.
    pub link_fields_wait: bool,
    /// LinkSpeedExtEnabled 30, no extended speed, reads back as 0; else as 30.
    pub no_ext_speeds_as_0: bool,
    /// DiagCode tells how far a self-test has come that runs all the time; else it stays.
    pub tests_itself: bool,
    /// The performance agent redirects whoever asks. It is not drawn: nothing could be said of what a port counts.
    pub performance_elsewhere: bool,
    /// Something in front of the agent, a kernel say, answers SMInfo by itself. A host has that, not a device: it is not drawn.
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
    /// All drawn.
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
        // Drawn after the older ones, so that a seed stands for what it stood for.
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

    /// The status that refuses an optional attribute which is absent.
    pub(crate) fn absent_attribute(&self) -> Status {
        if self.absent_attribute_as_combination {
            Status::METHOD_ATTRIBUTE_UNSUPPORTED
        } else {
            Status::METHOD_UNSUPPORTED
        }
    }
}
