//! The commands, one per file.

pub(crate) mod completions;
pub(crate) mod coverage;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod inspect;
pub(crate) mod judge;
pub(crate) mod known;
pub(crate) mod leases;
pub(crate) mod man;
pub(crate) mod pki;
pub(crate) mod qualify;
pub(crate) mod report;
pub(crate) mod rigs;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod sign;
pub(crate) mod statements;
pub(crate) mod tests;
pub(crate) mod trend;
pub(crate) mod verify;
