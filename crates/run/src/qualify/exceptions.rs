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
        reason: "a host's driver may refuse a request, too, and that is no fault of its device",
        set: ("own_verbs", 1),
    },
    Exception {
        defect: "trap-never-sent",
        reason: "traps go to the subnet manager's LID: whether that is the tester's port, only the operator knows",
        set: ("traps_come_here", 1),
    },
    Exception {
        defect: "trap-key-low-32-bits",
        reason: "a trap that names no key of the test may be somebody else's where traps are not known to come here",
        set: ("traps_come_here", 1),
    },
    Exception {
        defect: "trap-of-repress-missing",
        reason: "that no trap comes is a fault only where traps are known to come here",
        set: ("traps_come_here", 1),
    },
    Exception {
        defect: "traps-end-with-repress",
        reason: "that no trap comes is a fault only where traps are known to come here",
        set: ("traps_come_here", 1),
    },
    Exception {
        defect: "violations-stuck-at-most",
        reason: "it takes as many violations as the counter can count",
        set: ("violations", 65_540),
    },
    Exception {
        defect: "violations-wrap",
        reason: "the counter has to be driven beyond 65535, one violation after the other: on a port that waits 6.4 s for \
            silence that is days",
        set: ("violations", 65_540),
    },
    Exception {
        defect: "zero-lease-expires-after-65536-seconds",
        reason: "it takes a wait of 18 hours",
        set: ("wait_s", 65_537),
    },
    Exception {
        defect: "lease-counts-low-12-bits",
        reason: "it takes a lease of more than 4095 s, twice",
        set: ("longest_s", 4660),
    },
    Exception {
        defect: "lease-ends-at-32767",
        reason: "it takes leases of up to 18 hours",
        set: ("longest_s", 65_535),
    },
    Exception {
        defect: "timeout-codes-begin-at-12",
        reason: "codes below 12 are shorter than many hosts and paths are late",
        set: ("timeout_code", 8),
    },
    Exception {
        defect: "timeout-codes-end-at-19",
        reason: "a code above 19 makes each wait longer than 2 s, up to 17 s: that is long for every run",
        set: ("timeout_code", 22),
    },
    Exception {
        defect: "neighbor-mtu-not-kept",
        reason: "a port may take NeighborMTU over only when its link goes down: whether it does, the link has to go \
            down to show",
        set: ("link_down", 1),
    },
    Exception {
        defect: "operational-vls-not-kept",
        reason: "a port may take OperationalVLs over only when its link goes down: whether it does, the link has to \
            go down to show",
        set: ("link_down", 1),
    },
    Exception {
        defect: "link-down-default-not-kept",
        reason: "a port may take LinkDownDefaultState over only when its link goes down: whether it does, the link \
            has to go down to show",
        set: ("link_down", 1),
    },
    Exception {
        defect: "lease-runs-fast",
        reason: "a second before the end of a lease of 300 s a timer that is fast by a thousandth has not run out; of 4660 s \
            it has",
        set: ("longest_s", 4660),
    },
];
