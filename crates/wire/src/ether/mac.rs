//! MAC addresses, and IPv4 addresses as values of fields.

use core::fmt;
use core::net::Ipv4Addr;
use core::str::FromStr;

use crate::value::Value;

/// An Ethernet address. Its first byte comes first on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// The broadcast address.
    pub const BROADCAST: Self = Self([0xFF; 6]);

    /// Returns whether this is a group address.
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl Value for MacAddress {
    fn from_bits(bits: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = bits.to_be_bytes();
        Self([a, b, c, d, e, f])
    }
    fn to_bits(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let glue = if at == 0 { "" } else { ":" };
            write!(f, "{glue}{byte:02x}")?;
        }
        Ok(())
    }
}

/// The error for a text that is not a MAC address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected a MAC address such as 02:00:00:00:00:01, six pairs of hexadecimal digits with colons, not {0:?}")]
pub struct NotAMacAddress(pub String);

impl FromStr for MacAddress {
    type Err = NotAMacAddress;

    /// Parses `02:00:00:00:00:01` or `02-00-00-00-00-01`.
    fn from_str(text: &str) -> Result<Self, NotAMacAddress> {
        let refused = || NotAMacAddress(text.to_string());
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut address = Self::default();
        let mut pairs = text.split(separator);
        for byte in &mut address.0 {
            let pair = pairs.next().ok_or_else(refused)?;
            if pair.len() != 2 || !pair.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(refused());
            }
            *byte = u8::from_str_radix(pair, 16).map_err(|_| refused())?;
        }
        match pairs.next() {
            None => Ok(address),
            Some(_) => Err(refused()),
        }
    }
}

impl Value for Ipv4Addr {
    #[allow(clippy::cast_possible_truncation)] // the field has 32 bits
    fn from_bits(bits: u64) -> Self {
        Self::from(bits as u32)
    }
    fn to_bits(self) -> u64 {
        u32::from(self).into()
    }
}
