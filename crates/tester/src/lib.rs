//! The environment of a test procedure.
//!
//! A [`Tester`] sends through a [`Rig`] and waits for arrivals from it. The tester records every arrival and enforces
//! every deadline. It changes the device under test only after the restore [`Journal`] has saved the old values.
//! [`run`] executes one test and restores the device, even after a stop or a panic.

mod any;
mod exchange;
mod guard;
mod journal;
mod many;
mod own_port;
pub mod peer;
mod random;
mod restore;
mod rig;
mod runner;
pub mod shadow;
mod stop;
mod test;
mod tester;

pub use guard::{Guarded, Quiet, Settable};
pub use journal::{
    Area, FileJournal, Journal, JournalError, Left, MemoryJournal, Owner as JournalOwner, Part, Pending, Unrestored,
};
pub use many::HANDLED;
pub use random::Stream;
pub use rig::{Arrival, FramePort, PortId, Rig, RigInfo, Route, Stimulus};
pub use runner::{ANOTHER_KEY, Case, Ran, recover, run};
pub use stop::{Step, Stop};
pub use test::{ACK_TIMEOUT_LEAST, Judge, KINDS, Need, OF_DEVICE, Parameter, Procedure, Test};
pub use tester::{Answer, Tester};
pub use verbatim_record::OUT_OF_ORDER;
