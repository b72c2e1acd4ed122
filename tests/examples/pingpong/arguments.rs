//! The command line.

use std::net::IpAddr;
use std::str::FromStr;

use anyhow::{Context, bail};
use verbatim_wire::Mtu;

const USAGE: &str = "usage: pingpong --interface NAME --ip ADDRESS [--ip ADDRESS] [--gid-index N] [--size BYTES] \
                     [--mtu 256|512|1024|2048|4096] [--iterations N] [--port N] [HOST]";
/// Longest message in bytes. Both sides keep a few messages in memory.
const LARGEST: u32 = 1 << 20;

/// Arguments of the command line. The defaults are those of `ibv_rc_pingpong`.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) interface: String,
    pub(crate) ips: Vec<IpAddr>,
    pub(crate) gid_index: u32,
    /// Bytes of a message.
    pub(crate) size: u32,
    /// Path MTU in bytes.
    pub(crate) mtu: u32,
    pub(crate) iterations: u32,
    pub(crate) port: u16,
    /// Host of the server, or `None` if this program is the server.
    pub(crate) host: Option<String>,
}

impl Arguments {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut parsed = Self {
            interface: String::new(),
            ips: Vec::new(),
            gid_index: 0,
            size: 4096,
            mtu: 1024,
            iterations: 1000,
            port: 18515,
            host: None,
        };
        let mut words = words;
        while let Some(word) = words.next() {
            if !word.starts_with('-') && parsed.host.is_none() {
                parsed.host = Some(word);
                continue;
            }
            let mut value = || words.next().with_context(|| format!("{word} needs a value; {USAGE}"));
            match word.as_str() {
                "--interface" => parsed.interface = value()?,
                "--ip" => parsed.ips.push(number(&word, &value()?)?),
                "--gid-index" => parsed.gid_index = number(&word, &value()?)?,
                "--size" => parsed.size = number(&word, &value()?)?,
                "--mtu" => parsed.mtu = number(&word, &value()?)?,
                "--iterations" => parsed.iterations = number(&word, &value()?)?,
                "--port" => parsed.port = number(&word, &value()?)?,
                _ => bail!("{word:?} is not known; {USAGE}"),
            }
        }
        parsed.check()?;
        Ok(parsed)
    }

    fn check(&self) -> anyhow::Result<()> {
        if self.interface.is_empty() || self.ips.is_empty() {
            bail!("an interface and an IP address are needed; {USAGE}");
        }
        if self.gid_index as usize >= self.ips.len() {
            bail!(
                "--gid-index {}: there are {} --ip; {USAGE}",
                self.gid_index,
                self.ips.len()
            );
        }
        if !(1..=LARGEST).contains(&self.size) {
            bail!("--size {}: expected 1 to {LARGEST} bytes", self.size);
        }
        if self.mtu_code() == Mtu(0) {
            bail!("--mtu {}: expected 256, 512, 1024, 2048 or 4096", self.mtu);
        }
        if self.iterations == 0 {
            bail!("--iterations 0: expected at least one");
        }
        Ok(())
    }

    /// Returns the code of the path MTU, or 0 if it has no code.
    pub(crate) fn mtu_code(&self) -> Mtu {
        match self.mtu {
            256 => Mtu::B256,
            512 => Mtu::B512,
            1024 => Mtu::B1024,
            2048 => Mtu::B2048,
            4096 => Mtu::B4096,
            _ => Mtu(0),
        }
    }
}

fn number<T: FromStr>(name: &str, text: &str) -> anyhow::Result<T> {
    text.parse()
        .ok()
        .with_context(|| format!("{name} {text:?} cannot be read; {USAGE}"))
}
