//! Parameters of the DUT that the rig file sets for each test of its connections.

use verbatim_tester::{ACK_TIMEOUT_LEAST, OUT_OF_ORDER};

/// Parameters of the DUT.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KnownOfDut {
    /// Code of the shortest local ACK timeout that the device honors; 0 for no limit.
    pub ack_timeout_least: u8,
    /// Whether the device may write data to memory out of order.
    pub out_of_order: bool,
}

impl KnownOfDut {
    /// Returns the parameters that are set, as names and values of test parameters.
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
