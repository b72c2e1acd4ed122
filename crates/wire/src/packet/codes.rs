//! Values of packet headers: newtypes that print their meaning.

use core::fmt;

use crate::value::{hex, named, newtype};

named!(
    /// LRH:LNH: the type of the header after the LRH.
    Lnh(u8, 4) { 0 RAW "raw", 1 IPV6 "raw IPv6", 2 IBA_LOCAL "IBA local", 3 IBA_GLOBAL "IBA global" }
);
newtype!(
    /// A queue pair number: 0 receives subnet management packets, 1 general management packets, 0xFFFFFF is a multicast
    /// group.
    Qpn(u32)
);

impl Qpn {
    /// QP0: subnet management packets.
    pub const SMI: Self = Self(0);
    /// QP1: general management packets.
    pub const GSI: Self = Self(1);
    /// All members of a multicast group.
    pub const MULTICAST: Self = Self(0xFF_FFFF);
}

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)?;
        match *self {
            Self::SMI => f.write_str(" (SMI)"),
            Self::GSI => f.write_str(" (GSI)"),
            Self::MULTICAST => f.write_str(" (multicast)"),
            _ => Ok(()),
        }
    }
}

hex!(
    /// A queue key. The Q_Key of QP1 is a constant. Bit 31 marks a privileged key.
    QKey(u32), 10
);

impl QKey {
    /// The Q_Key of QP1.
    pub const GSI: Self = Self(0x8001_0000);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lnh_and_qpn_print_in_words() {
        assert_eq!(Lnh(3).to_string(), "IBA global");
        assert_eq!(Qpn(1).to_string(), "0x000001 (GSI)");
    }
}
