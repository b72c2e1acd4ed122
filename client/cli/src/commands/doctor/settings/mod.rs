//! Settings of this host's RDMA devices that affect verdicts, from sysfs, PCI configuration space and installed tools.
//! Each finding names the effect on verdicts, and how to switch the setting off. An unreadable setting is listed with
//! the reason.

mod mellanox;
mod port;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};

use verbatim_rig::file::AgentConfig;
use verbatim_rig::{RigConfig, RigKind};
use verbatim_verbs::Place;

use super::{Found, good, note, unread};

pub(super) use tools::installed;

/// Runs a tool. The first parameter is a list of tools, of which the first installed one runs. The second parameter
/// holds the tool's arguments. Returns the tool's output, or the reason why there is none.
type Tool<'a> = &'a dyn Fn(&[&str], &[&str]) -> Result<String, String>;

/// The source of settings.
pub(super) struct Host<'a> {
    /// The root directory: `/`, or the tree of a test.
    pub(super) root: &'a Path,
    /// Runs the installed tools.
    pub(super) tool: Tool<'a>,
}

/// Directory of all RDMA devices, below the root.
const DEVICES: &str = "sys/class/infiniband";

/// Checks the settings of each RDMA device of this host.
pub(super) fn of_host(host: &Host<'_>) -> Vec<Found> {
    let of = |name: &String| Device::new(host, name).settings();
    names(&host.root.join(DEVICES)).iter().flat_map(of).collect()
}

/// Checks the settings of a rig's devices on this host. If the DUT is on another host, adds a finding
/// that tells where to check the DUT's settings.
pub(super) fn of_rig(host: &Host<'_>, rig: &RigConfig) -> Vec<Found> {
    let (own, agent) = match &rig.kind {
        RigKind::Umad { device, agent, .. } => (Some(device), agent.as_deref()),
        RigKind::Verbs(of) => (Some(&of.device), Some(&of.agent)),
        RigKind::Packet(of) => (None, Some(&of.agent)),
        RigKind::Virtual(_) | RigKind::Model { .. } => return Vec::new(),
    };
    let here = names(&host.root.join(DEVICES));
    // Without a configured device name, the agent may use any device.
    let may_be_dut = |name: &String| {
        let near = agent.filter(|agent| is_near(agent));
        near.is_some_and(|agent| agent.device.as_ref().is_none_or(|device| device == name))
    };
    let wanted = here.iter().filter(|name| own == Some(*name) || may_be_dut(name));
    let mut found: Vec<Found> = wanted.flat_map(|name| Device::new(host, name).settings()).collect();
    if let Some(agent) = agent.filter(|_| !here.iter().any(may_be_dut)) {
        found.push(unread(
            &format!("{}: settings", rig.name),
            format!(
                "not read: no device of this host is known to be the DUT, whose settings can change verdicts; on the \
                 host of the agent at {}, run `verbatim doctor` there, or correct dut_device if that is this host",
                agent.address
            ),
        ));
    }
    found
}

/// Returns whether an agent may be on this host.
fn is_near(agent: &AgentConfig) -> bool {
    match &agent.address.place {
        Place::Unix(_) => true,
        Place::Tcp(address) => address.ip().to_canonical().is_loopback(),
        Place::Named { .. } => false,
    }
}

struct Device<'a> {
    host: &'a Host<'a>,
    name: &'a str,
    place: PathBuf,
    /// Driver of the PCI function; None for a software device.
    driver: Option<String>,
    /// PCI address.
    pci: Option<String>,
}

impl<'a> Device<'a> {
    fn new(host: &'a Host<'a>, name: &'a str) -> Self {
        let place = host.root.join(DEVICES).join(name);
        let told = read(&place.join("device/uevent")).unwrap_or_default();
        let of = |key: &str| {
            let value = told.lines().find_map(|line| line.strip_prefix(key));
            value.map(|value| printable(value.trim_start_matches('=')))
        };
        Self {
            driver: of("DRIVER"),
            pci: of("PCI_SLOT_NAME"),
            host,
            name,
            place,
        }
    }

    fn settings(&self) -> Vec<Found> {
        let mut found = vec![self.firmware()];
        if let Some(pci) = &self.pci {
            found.push(self.sr_iov(pci));
            found.push(self.relaxed_ordering(pci));
        }
        let ports = names(&self.place.join("ports"));
        let ethernet: Vec<&String> = ports.iter().filter(|port| self.is_ethernet(port)).collect();
        found.extend(ethernet.iter().flat_map(|port| self.of_port(port)));
        match (&self.pci, self.driver.as_deref()) {
            _ if ethernet.is_empty() => {}
            (Some(pci), Some("mlx5_core")) => found.extend(self.of_mellanox(pci, &ethernet)),
            (Some(pci), driver) => {
                found.extend(self.devlink(pci));
                found.push(unread(
                    &self.what("timers, CNPs, order"),
                    format!(
                        "verbatim cannot read adaptive retransmission, the minimum of the ACK timeout, congestion \
                         control and out-of-order placement from the driver {}; see its documentation",
                        driver.unwrap_or("of this device")
                    ),
                ));
            }
            (None, _) => {}
        }
        found
    }

    fn what(&self, setting: &str) -> String {
        format!("{}: {setting}", self.name)
    }

    fn firmware(&self) -> Found {
        let what = self.what("firmware");
        let driver = self.driver.as_deref().unwrap_or("unknown");
        let version = read(&self.place.join("fw_ver")).map(|text| printable(&text));
        match (version, &self.pci, read(&self.place.join("parent"))) {
            (_, None, Some(interface)) => good(
                &what,
                format!(
                    "software on {}: known deviations depend on the kernel's version",
                    printable(&interface)
                ),
            ),
            (Some(version), _, _) if !version.is_empty() => good(
                &what,
                format!("{version}, driver {driver}: known deviations depend on this version"),
            ),
            _ => unread(
                &what,
                format!(
                    "{DEVICES}/{}/fw_ver has no version: known deviations of this device do not apply",
                    self.name
                ),
            ),
        }
    }

    fn sr_iov(&self, pci: &str) -> Found {
        let what = self.what("SR-IOV");
        let function = self.place.join("device");
        if function.join("physfn").exists() {
            return note(
                &what,
                format!(
                    "{pci} is a virtual function, which refuses SMPs: tests of chapters 13 and 14 give no verdict, \
                     and the counters are those of the whole port; test the physical function"
                ),
            );
        }
        match read(&function.join("sriov_numvfs")).as_deref() {
            None => good(&what, format!("{pci} is a physical function without virtual functions")),
            Some("0") => good(
                &what,
                format!("{pci} is a physical function; no virtual function is in use"),
            ),
            Some(count) => note(
                &what,
                format!(
                    "virtual functions in use: {}; the port's counters include their packets, so tests of counters \
                     FAIL if they send; to switch virtual functions off: \
                     `echo 0 >/sys/bus/pci/devices/{pci}/sriov_numvfs`",
                    printable(count)
                ),
            ),
        }
    }

    fn relaxed_ordering(&self, pci: &str) -> Found {
        let what = self.what("relaxed ordering");
        let config = fs::read(self.place.join("device/config")).unwrap_or_default();
        match relaxed_ordering(&config) {
            Some(false) => good(&what, "off".into()),
            Some(true) => note(
                &what,
                format!(
                    "on: data of a WRITE may reach memory after its ACK, so tests that then read the memory FAIL; to \
                     switch relaxed ordering off: `setpci -s {pci} CAP_EXP+8.w=0:10`"
                ),
            ),
            None => unread(
                &what,
                format!(
                    "cannot read the PCI Express capability of {pci}, which takes root; if relaxed ordering is on, \
                     data of a WRITE may reach memory after its ACK"
                ),
            ),
        }
    }
}

/// Returns bit 4 (Enable Relaxed Ordering) of the Device Control register, from a PCI configuration space. None if
/// the device has no PCI Express capability.
fn relaxed_ordering(config: &[u8]) -> Option<bool> {
    const PCI_EXPRESS: u8 = 0x10;
    let mut at = usize::from(*config.get(0x34)? & 0xFC);
    // The capability list has at most 48 entries. The limit also ends the search in a list with a loop.
    for _ in 0..48 {
        if at < 0x40 {
            return None;
        }
        if *config.get(at)? == PCI_EXPRESS {
            return Some(config.get(at + 8)? & 0x10 != 0);
        }
        at = usize::from(*config.get(at + 1)? & 0xFC);
    }
    None
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Returns the names in a directory, with numbers sorted by value.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_by_key(|name| (name.parse().unwrap_or(u32::MAX), name.clone()));
    names
}

/// Removes control characters from foreign text, and cuts it to 64 characters.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests;
