//! The M_Key check, the violation counter and the lease (architecture 14.2.4).
//!
//! ```text
//!                    violation, LeasePeriod != 0              LeasePeriod seconds passed
//!   lease not running ------------------------> lease running --------------------------> protect bits 0,
//!           ^                                         |                                   not running, key kept
//!           +------------- right-key SMP -------------+
//! ```

use core::time::Duration;

use verbatim_wire::values::{LeasePeriod, ProtectBits};
use verbatim_wire::{AttributeId, MKey, Mad, Method};

use crate::choices::Choices;
use crate::defect::{Defect, Faults};
use crate::profile::Profile;

/// The access of an SMP after the M_Key check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// The agent executes the request.
    Full,
    /// The agent responds to a Get without the right key. `key_shown` tells whether the response contains
    /// PortInfo:M_Key.
    Read { key_shown: bool },
    /// The agent drops the SMP.
    Refused,
    /// Wrong behaviour of a defective device.
    WrongReaction(WrongReaction),
}

/// A reaction to an SMP that only a defective device has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WrongReaction {
    /// The response to a Get contains zeros only.
    Blank,
    /// The agent responds to the Set, but does not execute it.
    AnsweredOnly,
    /// The agent executes the Set, but does not respond.
    ObeyedOnly,
    /// The agent responds with an error status.
    RefusedAloud,
}

/// The result of the check of one SMP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    pub(crate) access: Access,
    /// Whether the SMP is a violation, which raises a trap if the port sends traps.
    pub(crate) violation: bool,
}

/// The M_Key of a port, and its protection state.
#[derive(Clone, Debug)]
pub(crate) struct Lock {
    pub(crate) key: MKey,
    pub(crate) protect: ProtectBits,
    pub(crate) lease: LeasePeriod,
    pub(crate) violations: u16,
    /// The time at which the running lease expires.
    expires_at: Option<Duration>,
    /// Remaining time of a stopped lease. Only a defective device resumes it.
    left: Option<Duration>,
    /// Whether a violation was counted since the last right-key SMP. Only a defective device uses this field.
    counted: bool,
    /// Whether the port reports the protect bits, but no longer enforces them. Set only in a defective device.
    hollow: bool,
    /// The key before the last change. Only a defective device accepts it.
    former: MKey,
}

impl Lock {
    pub(crate) fn new(profile: &Profile) -> Self {
        Self {
            key: profile.m_key,
            protect: ProtectBits(profile.protect_bits.0 & 3),
            lease: profile.lease_period,
            violations: profile.m_key_violations,
            expires_at: None,
            left: None,
            counted: false,
            hollow: false,
            former: MKey(0),
        }
    }

    pub(crate) fn expires_at(&self) -> Option<Duration> {
        self.expires_at
    }

    /// Stops the lease timer on behalf of another port. Only a defective device calls this function.
    pub(crate) fn stop_lease(&mut self) {
        self.expires_at = None;
    }

    /// Checks the key of an SMP, and updates the violation counter and the lease.
    pub(crate) fn check(&mut self, now: Duration, mad: &Mad, choices: &Choices, faults: &Faults) -> Outcome {
        let method = mad.method();
        if !is_checked(method) {
            return Outcome {
                access: Access::Full,
                violation: false,
            };
        }
        if self.is_right(mad, faults) {
            self.after_right_key(now, mad, faults);
            return Outcome {
                access: self.with_right_key(method, faults),
                violation: false,
            };
        }
        let violation = method != Method::GET || self.level().drops_gets();
        if violation {
            self.count(mad, faults);
            self.start_lease(now, method, choices, faults);
        } else {
            self.after_tolerated_get(choices, faults);
        }
        Outcome {
            access: self.with_wrong_key(method, mad.attribute_id(), faults),
            violation,
        }
    }

    /// Returns whether `key` is the port's key, or the port has no key.
    pub(crate) fn opens_with(&self, key: MKey) -> bool {
        self.key == MKey(0) || self.key == key
    }

    /// Returns whether PortInfo:M_Key is visible without the right key.
    pub(crate) fn shows_key(&self) -> bool {
        self.protect.0 == 0
    }

    /// Stores key, protect bits and lease period from a Set.
    pub(crate) fn set(&mut self, key: MKey, protect: ProtectBits, lease: LeasePeriod, faults: &Faults) {
        if !faults.has(Defect::MKeyNotKept) {
            if key != self.key {
                self.former = self.key;
            }
            self.key = key;
        }
        if !faults.has(Defect::ProtectBitsNotKept) {
            self.protect = protect;
        }
        if !faults.has(Defect::LeasePeriodNotKept) {
            if lease != self.lease {
                self.left = None;
            }
            self.lease = lease;
        }
        self.hollow = false;
    }

    /// Expires the lease if its time has elapsed.
    pub(crate) fn expire(&mut self, now: Duration, faults: &Faults) {
        if self.expires_at.is_none_or(|at| now < at) {
            return;
        }
        self.expires_at = None;
        if faults.has(Defect::LeaseExpiryKeepsProtectBits) {
            self.hollow = true;
        } else if faults.has(Defect::LeaseExpiryLowersToLevel1) {
            self.protect = ProtectBits(self.protect.0.min(1));
        } else {
            self.protect = ProtectBits(0);
        }
        if faults.has(Defect::LeaseExpiryClearsKey) {
            self.key = MKey(0);
        }
    }

    /// Returns the protection level in force.
    fn level(&self) -> ProtectBits {
        if self.hollow { ProtectBits(0) } else { self.protect }
    }

    fn is_right(&self, mad: &Mad, faults: &Faults) -> bool {
        let (ours, theirs) = (self.key.0, mad.m_key().0);
        if ours == 0 {
            let checked = match mad.method() {
                Method::GET => faults.has(Defect::ZeroKeyChecksGets),
                Method::SET => faults.has(Defect::ZeroKeyChecksSets),
                _ => faults.has(Defect::ZeroKeyChecksTrapRepress),
            };
            return theirs == 0 || !checked || !self.level().drops_gets();
        }
        let is_former = theirs != 0 && theirs == self.former.0 && mad.method() == Method::GET;
        if is_former && faults.has(Defect::FormerKeyOpensGets) {
            return true;
        }
        if faults.has(Defect::ComparesLow32Bits) {
            return ours & 0xFFFF_FFFF == theirs & 0xFFFF_FFFF;
        }
        if faults.has(Defect::ComparesHigh32Bits) {
            return ours >> 32 == theirs >> 32;
        }
        if faults.has(Defect::KeyBit17NotCompared) {
            return (ours ^ theirs) & !(1 << 17) == 0;
        }
        if faults.has(Defect::KeyBit62NotComparedOnSets) && mad.method() == Method::SET {
            return (ours ^ theirs) & !(1 << 62) == 0;
        }
        if faults.has(Defect::ComparesByteSwapped) {
            return ours == theirs.swap_bytes();
        }
        if faults.has(Defect::ZeroIsMasterKey) && theirs == 0 {
            return true;
        }
        ours == theirs
    }

    /// Handles a right-key SMP, which stops the lease timer. The next violation starts the timer again.
    fn after_right_key(&mut self, now: Duration, mad: &Mad, faults: &Faults) {
        self.counted = false;
        let keeps_running = faults.has(Defect::LeaseNotStoppedByRightKey)
            || (faults.has(Defect::LeaseNotStoppedByRightKeySet) && mad.method() == Method::SET)
            || (faults.has(Defect::LeaseNotStoppedByRightKeyGet) && mad.method() == Method::GET)
            || (faults.has(Defect::LeaseNotStoppedByTrapRepress) && mad.method() == Method::TRAP_REPRESS);
        if !keeps_running && let Some(at) = self.expires_at.take() {
            self.left = Some(at.saturating_sub(now));
        }

        if faults.has(Defect::ViolationsCountedOnRightKey) && self.key.0 != 0 {
            self.violations = self.violations.saturating_add(1);
        }
        let stranger = self.key.0 == 0 && mad.m_key().0 != 0 && self.level().drops_gets();
        if stranger && faults.has(Defect::ZeroKeyCountsViolations) {
            self.violations = self.violations.saturating_add(1);
        }
        if stranger && faults.has(Defect::ZeroKeyStartsLease) {
            self.expires_at = self.lease.duration().map(|period| now + period);
        }
    }

    /// Handles a wrong-key Get at level 0 or 1, which is not a violation.
    fn after_tolerated_get(&mut self, choices: &Choices, faults: &Faults) {
        if choices.tolerated_get_stops_lease {
            self.expires_at = None;
        }
        let counted = match self.level().0 {
            0 => faults.has(Defect::ViolationsCountedAtLevel0),
            _ => faults.has(Defect::ViolationsCountedAtLevel1),
        };
        if counted {
            self.violations = self.violations.saturating_add(1);
        }
    }

    fn count(&mut self, mad: &Mad, faults: &Faults) {
        let missed = match mad.method() {
            _ if mad.attribute_id() == AttributeId::P_KEY_TABLE && faults.has(Defect::ViolationsNotCountedOnPKeys) => {
                true
            }
            Method::SET if mad.attribute_id() == AttributeId::GUID_INFO => {
                faults.has(Defect::ViolationsNotCountedOnSetOfGuids) || faults.has(Defect::ViolationsNotCountedOnSet)
            }
            Method::GET => {
                faults.has(Defect::ViolationsNotCountedOnGet)
                    || faults.has(Defect::Level3TakenAsLevel0) && self.level().0 == 3
            }
            Method::SET => faults.has(Defect::ViolationsNotCountedOnSet),
            _ => faults.has(Defect::ViolationsNotCountedOnTrapRepress),
        };
        if missed
            || faults.has(Defect::ViolationsNotCounted)
            || (faults.has(Defect::ViolationsCountedOnce) && self.counted)
        {
            return;
        }
        self.counted = true;
        if faults.has(Defect::ViolationsSaturateAt255) && self.violations >= 255 {
            return;
        }
        if faults.has(Defect::ViolationsWrap) && self.violations == u16::MAX {
            self.violations = 0;
            return;
        }
        let step = if faults.has(Defect::ViolationsCountedTwice) {
            2
        } else {
            1
        };
        self.violations = self.violations.saturating_add(step);
    }

    /// Starts the lease timer after a violation, unless the lease never expires.
    fn start_lease(&mut self, now: Duration, method: Method, choices: &Choices, faults: &Faults) {
        if faults.has(Defect::LeaseNotStarted)
            || faults.has(Defect::LeaseNeverExpires)
            || (faults.has(Defect::LeaseStartedOnlyBySets) && method != Method::SET)
            || (faults.has(Defect::LeaseNotStartedByTrapRepress) && method == Method::TRAP_REPRESS)
            || (faults.has(Defect::LeaseStartedOnlyByGets) && method != Method::GET)
        {
            return;
        }
        if self.expires_at.is_some() && !choices.second_violation_restarts_lease {
            return;
        }
        if let Some(period) = self.period(faults) {
            self.expires_at = Some(now + period);
        }
    }

    /// Returns the duration of the lease, or `None` if it never expires.
    fn period(&self, faults: &Faults) -> Option<Duration> {
        let Some(period) = self.lease.duration() else {
            return if faults.has(Defect::ZeroLeaseExpiresAtOnce) {
                Some(Duration::ZERO)
            } else if faults.has(Defect::ZeroLeaseExpiresAfter60Seconds) {
                Some(Duration::from_secs(60))
            } else if faults.has(Defect::ZeroLeaseExpiresAfter65536Seconds) {
                Some(Duration::from_secs(65536))
            } else {
                None
            };
        };
        if faults.has(Defect::LeaseExpiresEarly) {
            return Some(period / 2);
        }
        if faults.has(Defect::LeaseExpiresLate) {
            return Some(period * 2);
        }
        let seconds = |most: u64, mask: u64| Some(Duration::from_secs((period.as_secs() & mask).min(most)));
        if faults.has(Defect::LeaseCountsLow8Bits) {
            return seconds(u64::MAX, 0xFF);
        }
        if faults.has(Defect::LeaseCountsLow12Bits) {
            return seconds(u64::MAX, 0xFFF);
        }
        if faults.has(Defect::LeaseEndsAt32767) {
            return seconds(0x7FFF, u64::MAX);
        }
        if faults.has(Defect::LeaseRunsFast) {
            return Some(period - period / 1000);
        }
        if faults.has(Defect::LeaseExpiresTwoSecondsEarly) {
            return Some(period.saturating_sub(Duration::from_secs(2)));
        }
        if faults.has(Defect::LeaseExpiresTwoSecondsLate) {
            return Some(period + Duration::from_secs(2));
        }
        if faults.has(Defect::LeaseNotReloaded) {
            return Some(self.left.unwrap_or(period));
        }
        Some(period)
    }

    fn with_right_key(&self, method: Method, faults: &Faults) -> Access {
        if self.key.0 == 0 {
            return Access::Full;
        }
        match (method, self.level().0) {
            (Method::GET, 1) if faults.has(Defect::RightKeyHiddenAtLevel1) => Access::Read { key_shown: false },
            (Method::GET, 2) if faults.has(Defect::RightKeyGetDroppedAtLevel2) => Access::Refused,
            (Method::GET, 3) if faults.has(Defect::RightKeyGetDroppedAtLevel3) => Access::Refused,
            (Method::SET, 0) if faults.has(Defect::RightKeySetDroppedAtLevel0) => Access::Refused,
            (Method::SET, 1) if faults.has(Defect::RightKeySetIgnoredAtLevel1) => {
                Access::WrongReaction(WrongReaction::AnsweredOnly)
            }
            (Method::SET, 2) if faults.has(Defect::RightKeySetDroppedAtLevel2) => Access::Refused,
            (Method::SET, 2) if faults.has(Defect::RightKeySetRefusedAtLevel2) => {
                Access::WrongReaction(WrongReaction::RefusedAloud)
            }
            (Method::SET, 3) if faults.has(Defect::RightKeySetDroppedAtLevel3) => Access::Refused,
            _ => Access::Full,
        }
    }

    fn with_wrong_key(&self, method: Method, attribute: AttributeId, faults: &Faults) -> Access {
        match method {
            Method::GET => self.get_with_wrong_key(attribute, faults),
            Method::SET => self.set_with_wrong_key(attribute, faults),
            _ => Access::Refused,
        }
    }

    fn get_with_wrong_key(&self, attribute: AttributeId, faults: &Faults) -> Access {
        if faults.has(Defect::MKeyIgnoredOnGet) {
            return Access::Full;
        }
        match self.level().0 {
            0 if attribute == AttributeId::GUID_INFO && faults.has(Defect::GuidInfoHiddenAtLevel0) => {
                Access::WrongReaction(WrongReaction::Blank)
            }
            1 if attribute == AttributeId::P_KEY_TABLE && faults.has(Defect::PKeyTableDroppedAtLevel1) => {
                Access::Refused
            }
            2 | 3 if attribute == AttributeId::LED_INFO && faults.has(Defect::LedInfoShownToAll) => {
                Access::Read { key_shown: false }
            }
            2 | 3 if attribute == AttributeId::SM_INFO && faults.has(Defect::SmInfoShownToAll) => {
                Access::WrongReaction(WrongReaction::Blank)
            }
            2 | 3 if attribute == AttributeId::NODE_DESCRIPTION && faults.has(Defect::NodeDescriptionShownToAll) => {
                Access::Read { key_shown: false }
            }
            3 if attribute == AttributeId::SL_TO_VL && faults.has(Defect::SlToVlShownAtLevel3) => {
                Access::Read { key_shown: false }
            }
            0 if faults.has(Defect::GetDroppedAtLevel0) => Access::Refused,
            0 => Access::Read {
                key_shown: !faults.has(Defect::KeyHiddenAtLevel0),
            },
            1 if faults.has(Defect::GetDroppedAtLevel1) => Access::Refused,
            1 if faults.has(Defect::EverythingHiddenAtLevel1) => Access::WrongReaction(WrongReaction::Blank),
            1 => Access::Read {
                key_shown: faults.has(Defect::KeyShownAtLevel1),
            },
            2 if faults.has(Defect::GetAnsweredAtLevel2) => Access::Read { key_shown: false },
            3 if faults.has(Defect::GetAnsweredAtLevel3) => Access::Read { key_shown: false },
            3 if faults.has(Defect::Level3TakenAsLevel0) => Access::Read { key_shown: true },
            _ if faults.has(Defect::WrongKeyGetRefusedAloud) => Access::WrongReaction(WrongReaction::RefusedAloud),
            _ if faults.has(Defect::MKeyIgnoredOutsidePortInfo) && attribute != AttributeId::PORT_INFO => {
                Access::Read { key_shown: false }
            }
            _ => Access::Refused,
        }
    }

    fn set_with_wrong_key(&self, attribute: AttributeId, faults: &Faults) -> Access {
        match (attribute, self.level().0) {
            (AttributeId::P_KEY_TABLE, _) if faults.has(Defect::WrongKeySetOfPKeysObeyed) => return Access::Full,
            (AttributeId::GUID_INFO, _) if faults.has(Defect::WrongKeySetOfGuidsObeyed) => {
                return Access::WrongReaction(WrongReaction::ObeyedOnly);
            }
            (AttributeId::SL_TO_VL, 0) if faults.has(Defect::WrongKeySetOfSlToVlObeyed) => return Access::Full,
            (AttributeId::VL_ARBITRATION, 1) if faults.has(Defect::WrongKeySetOfArbitrationObeyed) => {
                return Access::WrongReaction(WrongReaction::ObeyedOnly);
            }
            (AttributeId::LED_INFO, _) if faults.has(Defect::WrongKeySetOfLedInfoObeyed) => {
                return Access::WrongReaction(WrongReaction::ObeyedOnly);
            }
            (AttributeId::NODE_INFO, _) if faults.has(Defect::WrongKeySetOfNodeInfoRefusedAloud) => {
                return Access::WrongReaction(WrongReaction::RefusedAloud);
            }
            _ => {}
        }
        let obeyed = match self.level().0 {
            0 => Defect::WrongKeySetObeyedAtLevel0,
            1 => Defect::WrongKeySetObeyedAtLevel1,
            2 => Defect::WrongKeySetObeyedAtLevel2,
            _ => Defect::WrongKeySetObeyedAtLevel3,
        };
        if faults.has(obeyed) {
            Access::Full
        } else if faults.has(Defect::WrongKeySetAnswered) {
            Access::WrongReaction(WrongReaction::AnsweredOnly)
        } else if faults.has(Defect::WrongKeySetRefusedAloud) {
            Access::WrongReaction(WrongReaction::RefusedAloud)
        } else if faults.has(Defect::WrongKeySetObeyedSilently) {
            Access::WrongReaction(WrongReaction::ObeyedOnly)
        } else {
            Access::Refused
        }
    }
}

/// Returns whether the agent checks the M_Key of an SMP with this method.
fn is_checked(method: Method) -> bool {
    matches!(method, Method::GET | Method::SET | Method::TRAP_REPRESS)
}
