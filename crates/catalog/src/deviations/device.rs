//! Which device it was, as far as deviations go by it.

use serde_json::Value;

/// A version: what stands between points, as numbers.
pub type Version = [u32; 3];

/// What a device said of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device {
    /// VendorID, as the driver tells it.
    pub vendor_id: u32,
    /// Version of the kernel on its host, where that is known.
    pub kernel: Option<Version>,
    /// Whether its agent may be one for Linux verbs: it is, or does not say what it is.
    pub may_be_linux: bool,
}

impl Device {
    /// By what the DUT's host answered to Open.
    #[must_use]
    pub fn of_host(vendor_id: u32, host: &str) -> Self {
        Self {
            vendor_id,
            kernel: kernel(host),
            may_be_linux: host.contains("verbatim-agent") || !host.contains("agent"),
        }
    }

    /// By the fingerprint of a run: of a device behind an agent, or of one that told its own NodeInfo; nothing where it
    /// tells of neither.
    #[must_use]
    pub fn of_fingerprint(fingerprint: &str) -> Option<Self> {
        let known: Value = serde_json::from_str(fingerprint).ok()?;
        let device = &known["device"];
        let told = device["vendor_id"]
            .as_str()
            .or(device["node_info"]["VendorID"].as_str());
        let vendor_id = told?.strip_prefix("0x")?;
        Some(Self::of_host(
            u32::from_str_radix(vendor_id, 16).ok()?,
            device["host"].as_str().unwrap_or_default(),
        ))
    }
}

/// The version of a Linux kernel in what an agent says of its host. Debian's own goes first: its `uname -r` stays at 6.1.0 for years.
fn kernel(host: &str) -> Option<Version> {
    let mut words = host.split([' ', ',', '(', ')']);
    let behind = |word: &str| {
        let mut words = host.split([' ', ',', '(', ')']);
        words.find(|it| *it == word).and_then(|_| words.next())
    };
    words.find(|word| *word == "Linux")?;
    behind("Debian")
        .and_then(version)
        .or_else(|| behind("Linux").and_then(version))
}

/// `6.1.164-1` is 6.1.164, `6.1` is 6.1.0.
pub(super) fn version(text: &str) -> Option<Version> {
    let text = text.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    let mut numbers = text.split('.').map(str::parse::<u32>);
    let first = numbers.next()?.ok()?;
    let mut rest = || numbers.next().map_or(Some(0), Result::ok);
    Some([first, rest()?, rest()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_version_is_read_from_what_an_agent_says_of_its_host() {
        for (host, expected) in [
            ("vm Linux 6.1.0-43-amd64 x86_64, verbatim-agent 0.1.0", Some([6, 1, 0])),
            (
                "vm Linux 6.1.0-43-amd64 x86_64 (#1 SMP PREEMPT_DYNAMIC Debian 6.1.164-1 (2026-02-01)), verbatim-agent 0.1.0",
                Some([6, 1, 164]),
            ),
            (
                "Linux 6.12.9+bpo, agent of verbatim_client for Python",
                Some([6, 12, 9]),
            ),
            ("Linux 7-rc1", Some([7, 0, 0])),
            ("FreeBSD 14.1", None),
            ("Linux", None),
            ("Linux unknown", None),
            ("", None),
            ("Linux 99999999999.1", None),
        ] {
            assert_eq!(kernel(host), expected, "{host}");
        }
    }

    #[test]
    fn a_fingerprint_without_an_agent_tells_of_no_device() {
        let rxe = r#"{"tester":{},"device":{"vendor_id":"0xffffff","host":"vm Linux 6.1.0-43-amd64 x86_64"}}"#;
        let of = Device::of_fingerprint(rxe).unwrap();
        assert_eq!((of.vendor_id, of.kernel), (0xFF_FFFF, Some([6, 1, 0])));
        let qib = r#"{"tester":{},"device":{"node_info":{"VendorID":"0x001175"}}}"#;
        assert_eq!(Device::of_fingerprint(qib).unwrap().vendor_id, 0x1175);
        for other in [
            r#"{"kind":"virtual"}"#,
            r#"{"tester":{},"device":{"node_info":{}}}"#,
            r#"{"device":{"vendor_id":"ffffff"}}"#,
            "[]",
            "",
        ] {
            assert_eq!(Device::of_fingerprint(other), None, "{other}");
        }
    }
}
