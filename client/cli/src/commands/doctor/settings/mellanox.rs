//! Settings that change the transport of ConnectX adapters: the register ROCE_ACCL, firmware, ECN and CNP, devlink.
//!
//! Names and values are from NVIDIA's documentation of mlxreg, mlxconfig and MLNX_OFED. Figures are from published
//! measurements.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Device, Found, good, names, note, printable, read, unread};

/// A setting that a tool reports by name.
struct Switch {
    name: &'static str,
    /// The value with which the device conforms to the architecture.
    sound: u64,
    /// Effect of another value on the device and on verdicts.
    effect: &'static str,
}

/// Fields of ROCE_ACCL.
const ROCE_ACCL: [Switch; 4] = [
    Switch {
        name: "roce_adp_retrans_en",
        sound: 0,
        effect: "adaptive retransmission: the device retries long before the ACK timeout, and not retry_cnt times, so \
                 C9-142 and C9-143 FAIL",
    },
    Switch {
        name: "min_ack_timeout_limit_disabled",
        sound: 1,
        effect: "the ACK timeout has a minimum (536.9 ms on ConnectX-6), so C9-142 FAILs for shorter timeouts unless \
                 `dut_ack_timeout_least` of the rig names the minimum",
    },
    Switch {
        name: "adaptive_routing_forced_en",
        sound: 0,
        effect: OUT_OF_ORDER,
    },
    Switch {
        name: "selective_repeat_forced_en",
        sound: 0,
        effect: OUT_OF_ORDER,
    },
];

const OUT_OF_ORDER: &str =
    "the device places packets out of order, so tests of PSN sequence FAIL unless `dut_out_of_order` permits it";

/// Firmware settings that mlxconfig reports. A final `P` in a name is followed by the port number.
const FIRMWARE: [Switch; 4] = [
    Switch {
        name: "ROCE_CC_PRIO_MASK_P",
        sound: 0,
        effect: "congestion control: the device answers ECN marks with CNPs, some firmware also packets out of order \
                 (`cnp-cause` FAILs), and CNPs slow its requests down",
    },
    Switch {
        name: "ROCE_ADAPTIVE_ROUTING_EN",
        sound: 0,
        effect: OUT_OF_ORDER,
    },
    Switch {
        name: "RDMA_SELECTIVE_REPEAT_EN",
        sound: 0,
        effect: OUT_OF_ORDER,
    },
    Switch {
        name: "PCI_WR_ORDERING",
        sound: 0,
        effect: "relaxed ordering is forced: data of a WRITE may reach memory after its ACK, so tests that then read \
                 the memory FAIL",
    },
];

impl Device<'_> {
    pub(super) fn of_mellanox(&self, pci: &str, ports: &[&String]) -> Vec<Found> {
        let mut found = self.roce_accl(pci);
        found.extend(self.firmware_settings(pci, ports));
        found.extend(ports.iter().filter_map(|port| self.ecn(port)));
        found.extend(self.placement(pci));
        found.extend(self.devlink(pci));
        found
    }

    fn roce_accl(&self, pci: &str) -> Vec<Found> {
        let what = self.what("ROCE_ACCL");
        let told = (self.host.tool)(&["mlxreg", "mstreg"], &["-d", pci, "--reg_name", "ROCE_ACCL", "--get"]);
        let fields = match told.map(|text| fields(&text)) {
            Ok(fields) if !fields.is_empty() => fields,
            Ok(_) => return vec![unread(&what, not_told(&ROCE_ACCL, "mlxreg shows no field"))],
            Err(why) => return vec![unread(&what, not_told(&ROCE_ACCL, &why))],
        };
        let of = |switch: &Switch| {
            let Switch { name, sound, effect } = switch;
            let what = self.what(name);
            // A separate field of the register shows whether the firmware supports the setting.
            let stem = name.strip_suffix("_en").unwrap_or(name);
            let offered = [name, stem]
                .iter()
                .find_map(|of| fields.get(&format!("{of}_field_select")));
            match fields.get(*name) {
                Some(_) if offered == Some(&0) => unread(
                    &what,
                    format!("this firmware does not show it; if it is not {sound}: {effect}"),
                ),
                Some(value) if value == sound => good(&what, value.to_string()),
                Some(value) => note(
                    &what,
                    format!(
                        "{value}: {effect}; to set it to {sound}: `mlxreg -d {pci} --yes --reg_name ROCE_ACCL --set \
                         {name}={sound}`"
                    ),
                ),
                None => unread(
                    &what,
                    format!("mlxreg does not show it; if it is not {sound}: {effect}"),
                ),
            }
        };
        ROCE_ACCL.iter().map(of).collect()
    }

    fn firmware_settings(&self, pci: &str, ports: &[&String]) -> Vec<Found> {
        let what = self.what("firmware settings");
        let told = (self.host.tool)(&["mlxconfig", "mstconfig"], &["-d", pci, "-e", "q"]);
        let settings = match told.map(|text| settings(&text)) {
            Ok(settings) if !settings.is_empty() => settings,
            Ok(_) => return vec![unread(&what, not_told(&FIRMWARE, "mlxconfig shows no setting"))],
            Err(why) => return vec![unread(&what, not_told(&FIRMWARE, &why))],
        };
        let of = |name: String, Switch { sound, effect, .. }: &Switch| match settings.get(&name) {
            // Older firmware has fewer settings.
            None => unread(
                &self.what(&name),
                format!("mlxconfig does not show it; if it is not {sound}: {effect}"),
            ),
            Some(value) if value == sound => good(&self.what(&name), value.to_string()),
            Some(value) => note(
                &self.what(&name),
                format!(
                    "{value}: {effect}; to set it to {sound}: `mlxconfig -d {pci} set {name}={sound}`, then \
                     `mlxfwreset -d {pci} reset`"
                ),
            ),
        };
        let mut found = Vec::new();
        for switch in &FIRMWARE {
            if switch.name.ends_with('P') {
                found.extend(ports.iter().map(|port| of(format!("{}{port}", switch.name), switch)));
            } else {
                found.push(of(switch.name.into(), switch));
            }
        }
        found
    }

    /// Checks ECN per priority, as MLNX_OFED's driver shows it. The kernel's own driver does not show ECN.
    fn ecn(&self, port: &str) -> Option<Found> {
        let interface = self.interface(port)?;
        let what = self.what(&format!("port {port} ECN"));
        let place = self.host.root.join("sys/class/net").join(&interface).join("ecn");
        if !place.is_dir() {
            return Some(unread(
                &what,
                format!(
                    "{} does not exist: the kernel's own driver does not show ECN; see ROCE_CC_PRIO_MASK_P{port}",
                    place.display()
                ),
            ));
        }
        let on = |point: &str| {
            let enable = place.join(point).join("enable");
            let is_on = |priority: &String| read(&enable.join(priority)).as_deref() == Some("1");
            names(&enable).into_iter().filter(is_on).collect::<Vec<_>>()
        };
        let points = [
            ("roce_np", "the device sends CNPs"),
            ("roce_rp", "CNPs slow requests down"),
        ];
        let told: Vec<String> = points
            .iter()
            .map(|(point, effect)| (on(point), point, effect))
            .filter(|(priorities, ..)| !priorities.is_empty())
            .map(|(priorities, point, effect)| {
                format!(
                    "{effect} for priorities {}; to switch this off: \
                     `echo 0 >/sys/class/net/{interface}/ecn/{point}/enable/PRIORITY`",
                    priorities.join(", ")
                )
            })
            .collect();
        Some(if told.is_empty() {
            good(&what, "off".into())
        } else {
            note(
                &what,
                format!(
                    "{}; some firmware sends CNPs without ECN marks, and `cnp-cause` FAILs",
                    told.join("; ")
                ),
            )
        })
    }

    /// Checks out-of-order placement, as MLNX_OFED's driver shows it; None if the driver does not show it.
    fn placement(&self, pci: &str) -> Option<Found> {
        let place = format!("sys/kernel/debug/mlx5/{pci}/ooo/enable");
        let what = self.what("out-of-order");
        match read(&self.host.root.join(&place))?.as_str() {
            "0" => Some(good(&what, "off".into())),
            value => Some(note(
                &what,
                format!(
                    "{}: {OUT_OF_ORDER}; to switch it off: `echo 0 >/{place}`",
                    printable(value)
                ),
            )),
        }
    }

    /// Checks the devlink parameters that can disable RoCE.
    pub(super) fn devlink(&self, pci: &str) -> Vec<Found> {
        let what = self.what("devlink");
        let place = format!("pci/{pci}");
        let told = (self.host.tool)(&["devlink"], &["-j", "dev", "param", "show", &place]);
        let parameters = match told.map(|text| parameters(&text, &place)) {
            Ok(Some(parameters)) => parameters,
            Ok(None) => {
                return vec![unread(
                    &what,
                    "devlink shows no parameters; enable_roce is unknown".into(),
                )];
            }
            Err(why) => return vec![unread(&what, format!("{why}; enable_roce is unknown"))],
        };
        let of = |(name, sound, effect): (&str, &str, &str)| {
            let Parameter { mode, value } = parameters.get(name)?;
            let what = self.what(&format!("devlink {name}"));
            Some(if value == sound {
                good(&what, printable(value))
            } else {
                let reload = if mode == "driverinit" {
                    format!(", then `devlink dev reload {place}`")
                } else {
                    String::new()
                };
                note(
                    &what,
                    format!(
                        "{}: {effect}; to set it to {sound}: `devlink dev param set {place} name {name} value {sound} \
                         cmode {}`{reload}",
                        printable(value),
                        printable(mode)
                    ),
                )
            })
        };
        // Adapters with both parameters refuse RoCE until iWARP is off.
        let wanted = [
            (
                "enable_iwarp",
                "false",
                "iWARP replaces RoCE, so tests of chapter 9 cannot run",
            ),
            ("enable_roce", "true", "RoCE is off, so tests of chapter 9 cannot run"),
        ];
        wanted.into_iter().filter_map(of).collect()
    }
}

/// Lists the settings that are unknown without the tool.
fn not_told(switches: &[Switch], why: &str) -> String {
    let names: Vec<&str> = switches
        .iter()
        .map(|switch| switch.name.trim_end_matches("_P"))
        .collect();
    format!(
        "{why}; not known: {}, which decide verdicts on timers, CNPs and order (Debian: `apt-get install mstflint`)",
        names.join(", ")
    )
}

/// Parses the fields of a register in the output of mlxreg: `name | 0x00000001`.
pub(super) fn fields(text: &str) -> BTreeMap<String, u64> {
    let of = |line: &str| {
        let (name, value) = line.split_once('|')?;
        let value = value.trim().strip_prefix("0x")?;
        Some((name.trim().to_owned(), u64::from_str_radix(value, 16).ok()?))
    };
    text.lines().filter_map(of).collect()
}

/// Parses the current settings in the output of `mlxconfig -e q`: `name  default  current  next boot`, with values like
/// `True(1)` or `255`.
pub(super) fn settings(text: &str) -> BTreeMap<String, u64> {
    let number = |word: &str| {
        let inner = word.rsplit_once('(').and_then(|(_, inner)| inner.strip_suffix(')'));
        inner.unwrap_or(word).parse::<u64>().ok()
    };
    let of = |line: &str| {
        let mut words = line.split_whitespace().filter(|word| *word != "*");
        let name = words.next()?;
        let values: Option<Vec<u64>> = words.map(number).collect();
        match values?.as_slice() {
            [only] => Some((name.to_owned(), *only)),
            [_, current, _] => Some((name.to_owned(), *current)),
            _ => None,
        }
    };
    text.lines().filter_map(of).collect()
}

/// A devlink parameter: its configuration mode, such as `runtime`, and its value in this mode.
#[derive(Debug, PartialEq)]
pub(super) struct Parameter {
    pub(super) mode: String,
    pub(super) value: String,
}

/// Parses the parameters of a device in the output of `devlink -j dev param show`. Returns the first value of each.
pub(super) fn parameters(text: &str, device: &str) -> Option<BTreeMap<String, Parameter>> {
    let told: Value = serde_json::from_str(text).ok()?;
    let of = |parameter: &Value| {
        let first = parameter["values"].get(0)?;
        let value = first.get("value")?;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mode = first["cmode"].as_str().unwrap_or("driverinit").to_owned();
        Some((parameter["name"].as_str()?.to_owned(), Parameter { mode, value }))
    };
    Some(told["param"][device].as_array()?.iter().filter_map(of).collect())
}
