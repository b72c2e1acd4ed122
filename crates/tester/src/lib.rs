//! What a test procedure works with.
//!
//! A [`Tester`] sends through the one door of a [`Rig`] and waits at the other; it records everything it
//! sees, owns every deadline, and changes the device under test only behind the restore [`Journal`].
//! [`run`] executes one test and gives the device back what was its own, whatever happened.

mod any;
mod exchange;
mod guard;
mod journal;
mod many;
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
pub use random::Stream;
pub use rig::{Arrival, FramePort, PortId, Rig, RigInfo, Route, Stimulus};
pub use runner::{ANOTHER_KEY, Case, Ran, recover, run};
pub use stop::{Step, Stop};
pub use test::{ACK_TIMEOUT_LEAST, Judge, KINDS, Need, OF_DEVICE, Parameter, Procedure, Test};
pub use tester::{Answer, Tester};
pub use verbatim_record::OUT_OF_ORDER;
