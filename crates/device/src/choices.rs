//! What the architecture leaves to the implementer: every combination conforms.

use rand_chacha::ChaCha8Rng;
use verbatim_wire::Status;

use crate::profile::below;

/// Choices of an implementer. The default is what a plain adapter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// A VLArbitrationTable part 2 or 4 beyond the capacity is refused; else answered with zeros.
    pub part_beyond_capacity_refused: bool,
    /// Entries of VLArbitrationTable beyond the capacity keep what was set; else they read as zeros.
    pub entries_beyond_capacity_kept: bool,
    /// A VLArbitrationTable that names VLs which are not operational is refused; else it is stored.
    pub foreign_vls_refused: bool,
    /// How an optional table that is absent is refused: as an unsupported combination of method and attribute, or else
    /// as an unsupported method.
    pub absent_attribute_as_combination: bool,
    /// A Set with an illegal field applies nothing; else it applies the legal fields.
    pub illegal_set_applies_nothing: bool,
    /// A Set that carries LID 0 or MasterSMLID 0, where none was assigned, is answered with the invalid-field status;
    /// the other fields are applied in any case.
    pub unassigned_lid_refused: bool,
    /// An AttributeModifier that the attribute does not use must be 0; else it is ignored.
    pub unused_modifier_refused: bool,
    /// A second violation restarts a running lease timer; else the timer runs on.
    pub second_violation_restarts_lease: bool,
    /// A wrong-key Get at level 0 or 1 stops a running lease timer.
    pub tolerated_get_stops_lease: bool,
    /// A Get or Set with another base version is answered with the bad-version status; else it is discarded.
    pub bad_base_version_answered: bool,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            part_beyond_capacity_refused: true,
            entries_beyond_capacity_kept: false,
            foreign_vls_refused: false,
            absent_attribute_as_combination: true,
            illegal_set_applies_nothing: false,
            unassigned_lid_refused: false,
            unused_modifier_refused: false,
            second_violation_restarts_lease: false,
            tolerated_get_stops_lease: false,
            bad_base_version_answered: false,
        }
    }
}

impl Choices {
    /// All drawn.
    pub(crate) fn drawn(rng: &mut ChaCha8Rng) -> Self {
        let mut coin = || below(rng, 2) == 1;
        Self {
            part_beyond_capacity_refused: coin(),
            entries_beyond_capacity_kept: coin(),
            foreign_vls_refused: coin(),
            absent_attribute_as_combination: coin(),
            illegal_set_applies_nothing: coin(),
            unassigned_lid_refused: coin(),
            unused_modifier_refused: coin(),
            second_violation_restarts_lease: coin(),
            tolerated_get_stops_lease: coin(),
            bad_base_version_answered: coin(),
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
