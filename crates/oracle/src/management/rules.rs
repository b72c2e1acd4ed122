//! The rules, each with what it demands.

use crate::Rule;

/// A rule of this oracle.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = ($words:literal, $statement:literal, $says:literal);)*) => {
        $( $(#[$doc])* pub(super) static $name: Rule = Rule { name: $words, statement: $statement, says: $says }; )*
        /// All of them.
        pub static ALL: &[&Rule] = &[$(&$name),*];
    };
}

rules! {
    /// Wrong keys.
    DROPPED = ("m-key-drops", "C14-16", "a wrong-key Get at levels 2 and 3, and any other wrong-key SMP, gets no answer");
    /// Right keys, and Gets that need none.
    ANSWERED = ("m-key-passes", "C14-16", "a right-key SMP is answered, and so is a wrong-key Get at levels 0 and 1");
    /// Level 1.
    HIDDEN = ("m-key-hidden", "C14-16", "at level 1 a wrong key is shown M_Key 0");
    /// What a wrong-key Get shows.
    SHOWN = ("m-key-shows", "C14-16", "what is shown to a wrong key, the M_Key apart, is what is shown to the right one");
    /// Wrong-key Sets.
    NOT_OBEYED = ("m-key-obeyed", "C14-16", "a wrong-key Set changes nothing");
    /// Illegal values.
    ILLEGAL = ("illegal-kept", "C13-24", "a value that is refused is not kept");
    /// Status codes.
    STATUS = ("status", "C13-24", "what can be done is answered with 0x0000, what cannot with the status of its reason");
    /// All other fields.
    KEPT = ("kept", "C14-24", "a field that can be Set holds what was Set last, and nothing else changes it");
    /// What is shown.
    LEGAL = ("legal", "C14-24", "an attribute shows what it may hold, and 0 in what a capability mask says is not there");
    /// Read-only fields.
    READ_ONLY = ("read-only", "C14-27", "no Set changes a read-only field");
    /// Expiry.
    EXPIRED = ("lease-expires", "C14-20", "a lease period after a violation the protect bits are 0, the key is kept");
    /// A timer that does not run.
    STOPPED = ("lease-stops", "C14-19", "a right-key SMP stops the lease timer");
    /// Lease period 0.
    ENDLESS = ("lease-endless", "C14-21", "with lease period 0 the protect bits stay");
    /// M_KeyViolations.
    COUNTED = ("violations", "C14-29", "M_KeyViolations grows by one with each violation, and with nothing else");
    /// Headers.
    HEADER = ("header", "13.4.2 MAD header", "a response repeats the request's TransactionID, class, attribute, modifier and route");
    /// Responses.
    ONCE = ("once", "13.4.2 MAD header", "a request is answered once");
    /// What is no request.
    NO_REQUEST = ("no-request", "13.4.2 MAD header", "a response is not answered, and nothing is answered that was not asked");
    /// Directed routes.
    RETURN_PATH = ("return-path", "13.4.2 MAD header", "at the end of a directed route the port writes its number into the return path, and sends the response back by it");
    /// Traps.
    TRAP = ("trap", "14.2.5.1 traps", "a trap 256 tells of an SMP that came, as it came");
}
