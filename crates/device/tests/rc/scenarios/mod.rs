//! Conversations with one adapter, each about one subject; what the adapter shows in them is its log.

mod requests;
mod responses;

pub use requests::*;
pub use responses::*;

use verbatim_wire::{AckTimeout, Mtu, Psn};

use crate::adapters::Setup;

/// The ACK timeout is off, so that nothing but an RNR NAK makes the adapter send again.
fn patient() -> Setup {
    Setup {
        timeout: AckTimeout::OFF,
        mtu: Mtu::B256,
        psn: [Psn(0x1_FFFE), Psn(7)],
        rnr_retry: 2,
        ..Setup::default()
    }
}
