//! The greeting that the two sides exchange first: "LID:QPN:PSN:GID", all hexadecimal, with a NUL.

use anyhow::Context;
use verbatim_device::rc::Gid;

/// Bytes of a greeting, including its NUL.
pub(crate) const LENGTH: usize = 52;

/// One side's end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) lid: u16,
    pub(crate) qpn: u32,
    pub(crate) psn: u32,
    pub(crate) gid: Gid,
}

impl Greeting {
    pub(crate) fn line(&self) -> Vec<u8> {
        let gid = u128::from_be_bytes(self.gid.0);
        let line = format!("{:04x}:{:06x}:{:06x}:{gid:032x}\0", self.lid, self.qpn, self.psn);
        line.into_bytes()
    }

    /// Parses the other side's greeting.
    pub(crate) fn read(line: &[u8; LENGTH]) -> anyhow::Result<Self> {
        let read = || {
            let text = std::str::from_utf8(line.strip_suffix(b"\0")?).ok()?;
            let mut words = text.split(':');
            let mut word = |digits: usize| {
                words
                    .next()
                    .filter(|word| word.len() == digits && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
            };
            let greeting = Self {
                lid: u16::from_str_radix(word(4)?, 16).ok()?,
                qpn: u32::from_str_radix(word(6)?, 16).ok()?,
                psn: u32::from_str_radix(word(6)?, 16).ok()?,
                gid: Gid(u128::from_str_radix(word(32)?, 16).ok()?.to_be_bytes()),
            };
            words.next().is_none().then_some(greeting)
        };
        read().with_context(|| {
            format!(
                "\"LID:QPN:PSN:GID\" with 4, 6, 6 and 32 hexadecimal digits and a NUL was expected, seen {:?}; is the \
                 other side ibv_rc_pingpong?",
                String::from_utf8_lossy(line)
            )
        })
    }
}
