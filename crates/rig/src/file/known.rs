//! The keys of a rig file for parameters of the DUT that hold in each test of its connections.

use verbatim_tester::{ACK_TIMEOUT_LEAST, OUT_OF_ORDER};

/// Parameters of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KnownOfDut {
    /// The code of the least local ACK timeout that it keeps to; 0: any.
    pub ack_timeout_least: u8,
    /// Whether it puts data into memory ahead of its turn.
    pub out_of_order: bool,
}

impl KnownOfDut {
    /// As parameters of tests; none of what is not known.
    #[must_use]
    pub fn parameters(self) -> Vec<(String, u64)> {
        let all = [
            (ACK_TIMEOUT_LEAST, self.ack_timeout_least.into()),
            (OUT_OF_ORDER, self.out_of_order.into()),
        ];
        let given = all.into_iter().filter(|(_, value)| *value > 0);
        given.map(|(name, value)| (name.to_string(), value)).collect()
    }
}
