//! The properties of a device that deviations depend on.

use serde_json::Value;

/// The first three numbers of a version: `6.1.164` is `[6, 1, 164]`.
pub type Version = [u32; 3];

/// The properties that a device, its driver and its host report. `None` means not reported.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Device {
    /// VendorID, reported by NodeInfo or the driver.
    pub vendor_id: Option<u32>,
    /// DeviceID of NodeInfo, or the driver's part number. Both identify the product.
    pub device_id: Option<u32>,
    /// The kernel module of the driver.
    pub driver: Option<String>,
    /// The version of the kernel on the device's host.
    pub kernel: Option<Version>,
    /// The version of the firmware.
    pub firmware: Option<Version>,
    /// Whether the agent may use Linux verbs: it is `verbatim-agent`, or it reports no name.
    pub may_be_linux: bool,
}

impl Device {
    /// Makes a device from the response of its host to Open.
    #[must_use]
    pub fn of_host(vendor_id: u32, host: &str) -> Self {
        Self {
            vendor_id: Some(vendor_id),
            kernel: kernel(host),
            may_be_linux: host.contains("verbatim-agent") || !host.contains("agent"),
            ..Self::default()
        }
    }

    /// Makes a device from the fingerprint of a run: the agent's report, and NodeInfo if the device responds to MADs.
    #[must_use]
    pub fn of_fingerprint(fingerprint: &str) -> Self {
        let known: Value = serde_json::from_str(fingerprint).unwrap_or_default();
        let (device, node_info) = (&known["device"], &known["device"]["node_info"]);
        let by_agent = &known["tester"]["dut_host"];
        // Ignore an agent that reports another device.
        let by_agent = Some(&by_agent["device"]).filter(|_| by_agent["is_another"].is_null());
        let host = |key: &str| {
            [Some(device), by_agent]
                .into_iter()
                .flatten()
                .find_map(|of| of[key].as_str())
        };
        let part = device["vendor_part_id"]
            .as_u64()
            .and_then(|part| u32::try_from(part).ok());
        let vendor_id = device["vendor_id"].as_str().or(node_info["VendorID"].as_str());
        Self {
            vendor_id: vendor_id.and_then(hexadecimal),
            device_id: part.or_else(|| hexadecimal(node_info["DeviceID"].as_str()?)),
            driver: host("driver")
                .and_then(|driver| driver.split_whitespace().next())
                .map(str::to_owned),
            firmware: host("firmware").and_then(version),
            ..Self::of_host(0, host("host").unwrap_or_default())
        }
    }
}

/// Parses a number such as `0x0002c9`.
fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Parses the version of the Linux kernel in an agent's report on its host. Debian's package version has priority,
/// because `uname -r` stays at 6.1.0 for years.
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

/// Parses a version: `6.1.164-1` is 6.1.164, `6.1` is 6.1.0.
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
    fn parses_kernel_version_from_host_report() {
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
    fn fingerprint_combines_agent_and_node_info() {
        let rxe = r#"{"tester":{},"device":{"vendor_id":"0xffffff","host":"vm Linux 6.1.0-43-amd64 x86_64"}}"#;
        let of = Device::of_fingerprint(rxe);
        assert_eq!((of.vendor_id, of.kernel), (Some(0xFF_FFFF), Some([6, 1, 0])));
        let card = r#"{"device":{"vendor_id":"0x0002c9","vendor_part_id":4123,"driver":"mlx5_core 5.8","firmware":"20.43.4100"}}"#;
        let of = Device::of_fingerprint(card);
        assert_eq!((of.device_id, of.driver.as_deref()), (Some(4123), Some("mlx5_core")));
        assert_eq!((of.firmware, of.kernel), (Some([20, 43, 4100]), None));
        let node = |is_another: &str| {
            let host = format!(r#""dut_host":{{"device":{{"driver":"ib_qib","host":"vm Linux 6.1.0"}}{is_another}}}"#);
            let node = r#"{"VendorID":"0x001175","DeviceID":"0x7322"}"#;
            Device::of_fingerprint(&format!(r#"{{"tester":{{{host}}},"device":{{"node_info":{node}}}}}"#))
        };
        let of = node("");
        assert_eq!((of.vendor_id, of.device_id), (Some(0x1175), Some(0x7322)));
        assert_eq!((of.driver.as_deref(), of.kernel), (Some("ib_qib"), Some([6, 1, 0])));
        let of = node(r#","is_another":"it is""#);
        assert_eq!((of.driver, of.kernel, of.device_id), (None, None, Some(0x7322)));
        for other in [
            r#"{"kind":"virtual"}"#,
            r#"{"tester":{},"device":{"node_info":{}}}"#,
            r#"{"device":{"vendor_id":"ffffff"}}"#,
            "[]",
            "",
        ] {
            let of = Device::of_fingerprint(other);
            assert_eq!((of.vendor_id, of.device_id, of.kernel), (None, None, None), "{other}");
        }
    }
}
