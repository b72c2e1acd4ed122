//! Defects that the usual parameters for hardware do not show, each with a parameter that shows it.

/// A defect that a test catches on hardware only with a parameter other than the usual one. Qualification with the
/// rules of hardware tries the usual parameters and the other one. If the usual parameters catch the defect, the
/// exception is stale; if the other parameter does not catch it, the defect has survived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exception {
    /// Name of the defect.
    pub defect: &'static str,
    /// The reason why the usual parameters do not show the defect.
    pub reason: &'static str,
    /// Name and value of the parameter that shows the defect.
    pub set: (&'static str, u64),
}

impl Exception {
    /// Returns the parameter in the form of `--set`.
    #[must_use]
    pub fn set(&self) -> String {
        format!("{}={}", self.set.0, self.set.1)
    }
}

/// All exceptions.
pub const EXCEPTIONS: &[Exception] = &[
    Exception {
        defect: "send-queue-one-short",
        reason: "a host's driver may also refuse a request, which is no fault of the device",
        set: ("own_verbs", 1),
    },
    Exception {
        defect: "trap-never-sent",
        reason: "traps go to the subnet manager's LID, and only the operator knows whether the tester's port has it",
        set: ("traps_come_here", 1),
    },
    Exception {
        defect: "trap-key-low-32-bits",
        reason: "a trap without a key of the test may have another cause, unless traps are known to reach the tester",
        set: ("traps_come_here", 1),
    },
    Exception {
        defect: "trap-of-repress-missing",
        reason: "a missing trap is a fault only if traps are known to reach the tester",
        set: ("traps_come_here", 1),
    },
    Exception {
        defect: "traps-end-with-repress",
        reason: "a missing trap is a fault only if traps are known to reach the tester",
        set: ("traps_come_here", 1),
    },
    Exception {
        defect: "violations-stuck-at-most",
        reason: "the test must cause as many violations as the counter can count",
        set: ("violations", 65_540),
    },
    Exception {
        defect: "violations-wrap",
        reason: "the test must drive the counter beyond 65535, one violation at a time: with waits of 6.4 s for \
            silence this takes days",
        set: ("violations", 65_540),
    },
    Exception {
        defect: "zero-lease-expires-after-65536-seconds",
        reason: "the test must wait for 18 hours",
        set: ("wait_s", 65_537),
    },
    Exception {
        defect: "lease-counts-low-12-bits",
        reason: "the test needs two leases of more than 4095 s",
        set: ("longest_s", 4660),
    },
    Exception {
        defect: "lease-ends-at-32767",
        reason: "the test needs leases of up to 18 hours",
        set: ("longest_s", 65_535),
    },
    Exception {
        defect: "timeout-codes-begin-at-12",
        reason: "the timeouts of codes below 12 are shorter than the delays of many hosts and paths",
        set: ("timeout_code", 8),
    },
    Exception {
        defect: "timeout-codes-end-at-19",
        reason: "a code above 19 makes each wait longer than 2 s, up to 17 s: too long for every run",
        set: ("timeout_code", 22),
    },
    Exception {
        defect: "neighbor-mtu-not-kept",
        reason: "a port may apply NeighborMTU only when its link goes down, so the test must take the link down",
        set: ("link_down", 1),
    },
    Exception {
        defect: "operational-vls-not-kept",
        reason: "a port may apply OperationalVLs only when its link goes down, so the test must take the link down",
        set: ("link_down", 1),
    },
    Exception {
        defect: "link-down-default-not-kept",
        reason: "a port may apply LinkDownDefaultState only when its link goes down, so the test must take the link \
            down",
        set: ("link_down", 1),
    },
    Exception {
        defect: "lease-runs-fast",
        reason: "a timer that is 0.1 % fast has not expired 1 s before the end of a lease of 300 s; with 4660 s it has",
        set: ("longest_s", 4660),
    },
];
