//! Settings of an Ethernet port that RoCE depends on: interface, MTU, GIDs, pause frames.

use super::{Device, Found, good, names, note, printable, read, unread};

/// Bytes that RoCE headers may add to the payload of a packet. Linux subtracts this number from the interface's
/// MTU to get the limit of the RoCE MTU.
const HEADERS: u32 = 96;

impl Device<'_> {
    pub(super) fn is_ethernet(&self, port: &str) -> bool {
        read(&self.place.join("ports").join(port).join("link_layer")).as_deref() == Some("Ethernet")
    }

    /// Returns the interface of the port's first GID.
    pub(super) fn interface(&self, port: &str) -> Option<String> {
        let table = self.place.join("ports").join(port).join("gid_attrs/ndevs");
        names(&table).iter().find_map(|index| read(&table.join(index)))
    }

    pub(super) fn of_port(&self, port: &str) -> Vec<Found> {
        let mut found = vec![self.gids(port)];
        let Some(interface) = self.interface(port) else {
            let what = self.what(&format!("port {port} interface"));
            found.push(unread(
                &what,
                "the port has no GID, so its interface, MTU and pauses are unknown".into(),
            ));
            return found;
        };
        found.push(self.mtu(port, &interface));
        if self.pci.is_some() {
            found.push(self.pauses(port, &interface));
            found.push(self.priority_pauses(port, &interface));
        }
        found
    }

    fn gids(&self, port: &str) -> Found {
        let what = self.what(&format!("port {port} GIDs"));
        let place = self.place.join("ports").join(port);
        let types = place.join("gid_attrs/types");
        if !types.is_dir() {
            return unread(&what, format!("{} does not exist", types.display()));
        }
        let version_2: Vec<String> = names(&types)
            .into_iter()
            .filter(|index| read(&types.join(index)).as_deref() == Some("RoCE v2"))
            .collect();
        match version_2.as_slice() {
            [] => note(
                &what,
                format!(
                    "no GID is of RoCE v2, so tests with packets of our own making find no address: give the \
                     interface an IP address, and on ConnectX `cma_roce_mode -d {} -p {port} -m 2`",
                    self.name
                ),
            ),
            [first, ..] => {
                let gid = read(&place.join("gids").join(first)).unwrap_or_default();
                good(
                    &what,
                    format!(
                        "{} of RoCE v2, the first {} at index {first}",
                        version_2.len(),
                        printable(&gid)
                    ),
                )
            }
        }
    }

    fn mtu(&self, port: &str, interface: &str) -> Found {
        let what = self.what(&format!("port {port} MTU"));
        let place = self.host.root.join("sys/class/net").join(interface).join("mtu");
        let Some(mtu) = read(&place).and_then(|text| text.parse::<u32>().ok()) else {
            return unread(&what, format!("{} is not readable", place.display()));
        };
        let path = [4096, 2048, 1024, 512, 256]
            .into_iter()
            .find(|path| path + HEADERS <= mtu);
        match path {
            Some(4096) => good(&what, format!("{mtu} bytes on {interface}: path MTUs up to 4096")),
            Some(path) => good(
                &what,
                format!(
                    "{mtu} bytes on {interface}: path MTUs up to {path}, larger ones are not tested; for 4096 \
                     `ip link set {interface} mtu 4200`, on the tester's port too"
                ),
            ),
            None => note(
                &what,
                format!("{mtu} bytes on {interface}: too few for any path MTU; `ip link set {interface} mtu 1500`"),
            ),
        }
    }

    /// Checks pause frames of the whole link.
    fn pauses(&self, port: &str, interface: &str) -> Found {
        let what = self.what(&format!("port {port} pauses"));
        match (self.host.tool)(&["ethtool"], &["-a", interface]).map(|text| paused(&text)) {
            Ok(Some(true)) => note(
                &what,
                format!(
                    "on: a switch or the tester's port can hold back packets, so retries and responses may be late, \
                     and timer tests FAIL or stay INCONCLUSIVE; to switch pauses off: `ethtool -A {interface} autoneg \
                     off rx off tx off`"
                ),
            ),
            Ok(Some(false)) => good(&what, "off".into()),
            Ok(None) => unread(
                &what,
                "ethtool shows neither RX nor TX; if pauses are on, packets may be late".into(),
            ),
            Err(why) => unread(&what, format!("{why}; if pauses are on, packets may be late")),
        }
    }

    /// Checks pause frames per priority (PFC).
    fn priority_pauses(&self, port: &str, interface: &str) -> Found {
        let what = self.what(&format!("port {port} PFC"));
        match (self.host.tool)(&["dcb"], &["pfc", "show", "dev", interface]).map(|text| paused_priorities(&text)) {
            Ok(Some(priorities)) if priorities.is_empty() => good(&what, "off".into()),
            Ok(Some(priorities)) => note(
                &what,
                format!(
                    "on for priorities {}: packets of these priorities may be late, as with pauses of the link; to \
                     switch PFC off: `dcb pfc set dev {interface} prio-pfc all:off`",
                    priorities.join(", ")
                ),
            ),
            Ok(None) => unread(&what, "dcb shows no prio-pfc; if PFC is on, packets may be late".into()),
            Err(why) => unread(&what, format!("{why}; if PFC is on, packets may be late")),
        }
    }
}

/// Returns whether pause frames are on in either direction, from the output of `ethtool -a`; None if the output has no
/// value.
pub(super) fn paused(text: &str) -> Option<bool> {
    let mut values = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        ["RX", "TX"].contains(&name.trim()).then(|| value.trim() == "on")
    });
    let first = values.next()?;
    Some(values.fold(first, |any, on| any || on))
}

/// Returns the priorities with PFC, from the output of `dcb pfc show`; None if the output has no value.
pub(super) fn paused_priorities(text: &str) -> Option<Vec<String>> {
    let line = text.lines().find(|line| line.contains("prio-pfc"))?;
    let of = line.split_whitespace().filter_map(|word| word.split_once(':'));
    let mut is_told = false;
    let on: Vec<String> = of
        .filter(|(priority, _)| priority.parse::<u8>().is_ok())
        .inspect(|_| is_told = true)
        .filter(|(_, value)| *value == "on")
        .map(|(priority, _)| priority.to_owned())
        .collect();
    is_told.then_some(on)
}
