//! The systemd drop-in for `verbatim-worker@RIG.service`: the permissions that the worker of a rig needs.

use std::path::{Path, PathBuf};

use verbatim_rig::file::{AgentConfig, Wire};
use verbatim_rig::{RigConfig, RigKind, device_node};

/// Returns the drop-in `rig.conf` for a rig. `sys` is `/sys`, where the device nodes of a port are looked up.
///
/// # Errors
/// When the rig needs no worker, or its port doesn't exist.
pub fn drop_in(rig: &RigConfig, sys: &Path) -> Result<String, String> {
    let mut lines = vec![
        format!(
            "# What rig {} needs; printed by `verbatimd worker-unit {}`.",
            rig.name, rig.name
        ),
        "[Service]".into(),
    ];
    let mut families = vec!["AF_UNIX"];
    let mut agent = None;
    match &rig.kind {
        RigKind::Virtual(_) => {
            return Err(format!(
                "rig {} runs within the daemon and needs no worker: nothing is to be done",
                rig.name
            ));
        }
        RigKind::Model { socket } => {
            lines.push("# Only the model's socket.".into());
            lines.push(see(socket));
        }
        RigKind::Umad {
            device,
            port,
            agent: of_host,
            verbs,
        } => {
            agent = of_host.as_deref();
            let of_mads = node(sys, "infiniband_mad", device, Some(*port))?;
            lines.push(format!("DeviceAllow=/dev/infiniband/{of_mads} rw"));
            if *verbs {
                families.push("AF_NETLINK");
                let of_verbs = node(sys, "infiniband_verbs", device, None)?;
                lines.push(format!("DeviceAllow=/dev/infiniband/{of_verbs} rw"));
                lines.push("LimitMEMLOCK=512M".into());
            }
        }
        RigKind::Packet(of) => {
            agent = Some(&of.agent);
            match &of.wire {
                Wire::Interface(_) => {
                    families.extend(["AF_PACKET", "AF_NETLINK"]);
                    lines.push("# To send frames that Verbatim builds.".into());
                    lines.push("CapabilityBoundingSet=CAP_NET_RAW".into());
                    lines.push("AmbientCapabilities=CAP_NET_RAW".into());
                }
                Wire::Socket { local, remote } => {
                    if let Some(directory) = local.parent() {
                        lines.push(format!("BindPaths={}", directory.display()));
                    }
                    lines.push(see(remote));
                }
            }
        }
        RigKind::Verbs(of) => {
            agent = Some(&of.agent);
            families.push("AF_NETLINK");
            let node = node(sys, "infiniband_verbs", &of.device, None)?;
            lines.push(format!("DeviceAllow=/dev/infiniband/{node} rw"));
            lines.push("LimitMEMLOCK=512M".into());
        }
    }
    lines.extend(agent.into_iter().flat_map(files_of).map(|file| see(&file)));
    let agent = agent.map(|agent| agent.address.to_string());
    if let Some(socket) = agent.as_deref().and_then(|agent| agent.strip_prefix("unix:")) {
        lines.push(see(Path::new(socket)));
    }
    // Of all IP addresses, allow only the address of the agent.
    let address = agent
        .as_deref()
        .and_then(|agent| agent.parse::<std::net::SocketAddr>().ok());
    // Address filters don't apply to raw sockets, so IP sockets give a rig with raw sockets no further access.
    if families.contains(&"AF_PACKET") || address.is_some() {
        families.extend(["AF_INET", "AF_INET6"]);
    }
    if let Some(address) = address {
        lines.push(format!("IPAddressAllow={}", address.ip()));
    }
    lines.push(format!("RestrictAddressFamilies={}", families.join(" ")));
    for (name, value) in &rig.env {
        lines.push(format!("Environment=\"{name}={}\"", escaped(value)));
    }
    lines.push(String::new());
    Ok(lines.join("\n"))
}

/// Returns the setting that makes a hidden file or socket visible to the worker. The leading "-" allows a path
/// that does not exist yet.
fn see(path: &Path) -> String {
    format!("BindReadOnlyPaths=-{}", path.display())
}

/// Returns the certificate files for an agent.
fn files_of(agent: &AgentConfig) -> Vec<PathBuf> {
    let tls = agent.address.tls.as_ref();
    tls.map_or_else(Vec::new, |tls| {
        [&tls.files.ca, &tls.files.cert, &tls.files.key]
            .map(Clone::clone)
            .into()
    })
}

/// Returns the device node of a port, such as `umad0` of `/sys/class/infiniband_mad`.
fn node(sys: &Path, class: &str, device: &str, port: Option<u8>) -> Result<String, String> {
    device_node(sys, class, device, port).ok_or_else(|| {
        let port = port.map_or_else(String::new, |port| format!(" port {port}"));
        format!(
            "{} has no node of {device}{port}; load the module of the adapter and ib_umad or ib_uverbs, or mend the rig file, \
             then print this again",
            sys.join("class").join(class).display()
        )
    })
}

/// Escapes a value for quotes in a unit file.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use verbatim_rig::RigFile;

    fn of(rig: &str) -> Result<String, String> {
        let sys = tempfile::tempdir().unwrap();
        for (node, device, port) in [
            ("umad0", "mlx5_0", "1"),
            ("issm0", "mlx5_0", "1"),
            ("umad1", "mlx5_0", "2"),
        ] {
            let place = sys.path().join("class/infiniband_mad").join(node);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("ibdev"), format!("{device}\n")).unwrap();
            fs::write(place.join("port"), format!("{port}\n")).unwrap();
        }
        let text = format!("config_version = 1\n\n[[rig]]\nname = \"r\"\n{rig}");
        let file = RigFile::parse(text.as_bytes(), "rigs.toml".as_ref()).unwrap();
        drop_in(file.find("r").unwrap(), sys.path())
    }

    #[test]
    fn umad_rig_gets_only_its_node() {
        let text = of("kind = \"umad\"\ndevice = \"mlx5_0\"\nport = 2\nroute = \"0,2\"\n").unwrap();
        assert!(text.contains("DeviceAllow=/dev/infiniband/umad1 rw\n"), "{text}");
        assert!(!text.contains("CAP_") && !text.contains("AF_INET"), "{text}");
        let agent = "agent = \"10.1.2.3:7000\"\nagent_ca = \"/e/ca.pem\"\nagent_cert = \"/e/c.pem\"\nagent_key = \"/e/k.pem\"\n";
        let text = of(&format!(
            "kind = \"umad\"\ndevice = \"mlx5_0\"\nport = 2\nroute = \"0,2\"\n{agent}"
        ))
        .unwrap();
        for line in [
            "IPAddressAllow=10.1.2.3",
            "BindReadOnlyPaths=-/e/k.pem",
            "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
        let error = of("kind = \"umad\"\ndevice = \"mlx5_0\"\nport = 3\nroute = \"0,3\"\n").unwrap_err();
        assert!(error.contains("mlx5_0 port 3"), "{error}");
    }

    #[test]
    fn only_raw_frame_rigs_get_raw_sockets() {
        let packet = "kind = \"packet\"\nip = \"10.0.0.2\"\nagent = \"127.0.0.1:7000\"\n";
        let text = of(&format!("{packet}interface = \"eth1\"\n")).unwrap();
        assert!(text.contains("AmbientCapabilities=CAP_NET_RAW\n"), "{text}");
        assert!(
            text.contains("IPAddressAllow=127.0.0.1\n") && text.contains("AF_PACKET"),
            "{text}"
        );
        let wire = "socket = { local = \"/run/v/t\", remote = \"/run/v/m\" }\nmac = \"02:00:00:00:00:02\"\n";
        let text = of(&format!("{packet}{wire}")).unwrap();
        assert!(!text.contains("CAP_") && !text.contains("AF_PACKET"), "{text}");
        assert!(
            text.contains("BindPaths=/run/v\nBindReadOnlyPaths=-/run/v/m\n"),
            "{text}"
        );
        let model = of("kind = \"model\"\nsocket = \"/run/v/m\"\n").unwrap();
        assert!(
            model.ends_with("BindReadOnlyPaths=-/run/v/m\nRestrictAddressFamilies=AF_UNIX\n"),
            "{model}"
        );
        let agent = "kind = \"packet\"\nip = \"10.0.0.2\"\nagent = \"unix:/run/a/s\"\ninterface = \"eth1\"\n";
        assert!(of(agent).unwrap().contains("BindReadOnlyPaths=-/run/a/s\n"));
        assert!(of("kind = \"virtual\"\n").unwrap_err().contains("needs no worker"));
    }

    #[test]
    fn escapes_quotes_and_specifiers() {
        assert_eq!(escaped("a\"b\\c%h"), "a\\\"b\\\\c%%h");
    }
}
