//! `verbatim rigs discover`: writes a rig file for the adapters of this host.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Returns a rig file with a rig for each InfiniBand port, and the number of all ports. Rigs of Ethernet ports are
/// comments, because the agent's address is unknown. `root` is `/`.
pub(super) fn discover(root: &Path) -> (String, usize) {
    let mut text = String::from(
        "# The adapters of this host, as `verbatim rigs discover` found them: docs/rig-file.md has all keys.\n\
         config_version = 1\n",
    );
    let mut ports = 0;
    for device in names(&root.join("sys/class/infiniband")) {
        let adapter = root.join("sys/class/infiniband").join(&device);
        for port in names(&adapter.join("ports")) {
            let of = |file: &str| {
                let read = fs::read_to_string(adapter.join("ports").join(&port).join(file));
                read.unwrap_or_default().trim().to_owned()
            };
            ports += 1;
            // The file contains text such as "4: ACTIVE".
            let state = of("state").rsplit(": ").next().unwrap_or_default().to_owned();
            let _ = write!(
                text,
                "\n# {device} port {port}: {}, {state}, {}\n",
                of("link_layer"),
                of("rate")
            );
            if of("link_layer") == "InfiniBand" {
                let _ = write!(
                    text,
                    "[[rig]]\nname = \"{device}-{port}\"\nkind = \"umad\"\ndevice = \"{device}\"\nport = {port}\n\
                     route = \"0,{port}\"\n"
                );
                continue;
            }
            let interface = of("gid_attrs/ndevs/0");
            let interface = if interface.is_empty() { "INTERFACE" } else { &interface };
            let _ = write!(
                text,
                "# The device's host runs verbatim-agent: write where, and an address that no host has.\n\
                 # [[rig]]\n# name = \"{device}-{port}\"\n# kind = \"packet\"\n# interface = \"{interface}\"\n\
                 # ip = \"192.0.2.9\"\n# agent = \"dut-host.example:7000\"\n"
            );
        }
    }
    (text, ports)
}

/// Returns the sorted names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use verbatim_rig::RigFile;

    use super::*;

    #[test]
    fn discovered_file_has_a_rig_for_each_port() {
        let root = tempfile::tempdir().unwrap();
        for (port, layer, interface) in [
            ("mlx5_0/ports/1", "InfiniBand", ""),
            ("mlx5_1/ports/1", "Ethernet", "enp3s0\n"),
        ] {
            let place = root.path().join("sys/class/infiniband").join(port);
            fs::create_dir_all(place.join("gid_attrs/ndevs")).unwrap();
            fs::write(place.join("link_layer"), format!("{layer}\n")).unwrap();
            fs::write(place.join("state"), "4: ACTIVE\n").unwrap();
            fs::write(place.join("rate"), "100 Gb/sec (4X EDR)\n").unwrap();
            fs::write(place.join("gid_attrs/ndevs/0"), interface).unwrap();
        }
        let (text, ports) = discover(root.path());
        assert_eq!(ports, 2);
        let file = RigFile::parse(text.as_bytes(), "rigs.toml".as_ref()).unwrap();
        assert!(
            file.find("mlx5_0-1").is_ok() && file.find("mlx5_1-1").is_err(),
            "{text}"
        );
        assert!(
            text.contains("# mlx5_0 port 1: InfiniBand, ACTIVE, 100 Gb/sec (4X EDR)\n"),
            "{text}"
        );
        let without_marks = text.replace("\n# [[rig]]", "\n[[rig]]").replace("\n# name", "\nname");
        let all = without_marks
            .replace("\n# kind", "\nkind")
            .replace("\n# i", "\ni")
            .replace("\n# agent", "\nagent");
        let all = all.replace("dut-host.example", "127.0.0.1");
        let file = RigFile::parse(all.as_bytes(), "rigs.toml".as_ref()).unwrap();
        assert!(file.find("mlx5_1-1").is_ok(), "{all}");
        assert_eq!(discover(&root.path().join("none")).1, 0);
    }
}
