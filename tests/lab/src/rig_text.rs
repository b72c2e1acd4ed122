//! The rig files of the rxe labs and of the vib lab, and code that all rig files share.

use std::{net::SocketAddr, path::Path};

use crate::machine::DataSockets;

/// The path from the tester to the device under test.
#[derive(Clone, Debug)]
pub(super) enum Rig<'a> {
    /// The tester sends its own packets through the machine's data cable. The tester reaches the agent through a
    /// TCP port of this host, which QEMU forwards into the machine.
    Packet {
        sockets: &'a DataSockets,
        agent: SocketAddr,
        /// The directory that `verbatim pki init` made.
        pki: &'a Path,
        /// The log of the machine's console. The machine's kernel is the device under test.
        console: &'a Path,
        /// Whether the machine boots again after a panic: tests may crash it, and the command `reset` beside the rig
        /// file waits for the new boot.
        resets: bool,
    },
    /// The tester uses its own adapter, `rxe1`, beside the device under test in the same machine.
    Verbs { agent: &'a Path },
    /// The native adapter `vib0` of the machine. The rig `vib` is at port 1, `vib2` at port 2, and so on. With
    /// `is_shared`, a subnet manager manages the subnet. `route` is appended to the directed route `0,PORT`: empty, or
    /// further hops such as `,2`.
    Native { ports: u8, route: &'a str, is_shared: bool },
}

/// Returns the text of the rig file.
pub(super) fn rig_file(rig: &Rig<'_>) -> String {
    let start = "config_version = 1\n\n[[rig]]\n";
    match rig {
        Rig::Packet {
            sockets,
            agent,
            pki,
            console,
            resets,
        } => {
            let file = |name: &str| quoted(&pki.join(name));
            let reset = if *resets {
                "may_crash = true\nreset = [\"./reset\"]\nreset_when = \"silent\"\nreset_within = 600\n"
            } else {
                ""
            };
            format!(
                "{start}name = \"rxe\"\nkind = \"packet\"\nsocket = {{ local = {}, remote = {} }}\n\
                 mac = \"02:00:00:00:00:02\"\nip = \"10.0.0.2\"\ndut_ip = \"10.0.0.1\"\ndut_device = \"rxe0\"\n\
                 dut_console = {}\nagent = \"{agent}\"\nagent_ca = {}\nagent_cert = {}\nagent_key = {}\nagent_name = \"localhost\"\n{reset}",
                quoted(&sockets.tester),
                quoted(&sockets.machine),
                quoted(console),
                file("ca.pem"),
                file("client.pem"),
                file("client-key.pem"),
            )
        }
        Rig::Verbs { agent } => format!(
            "{start}name = \"rxe-verbs\"\nkind = \"verbs\"\ndevice = \"rxe1\"\nport = 1\ndut_device = \"rxe0\"\n\
             agent = {}\n",
            quoted(Path::new(&format!("unix:{}", agent.display())))
        ),
        Rig::Native {
            ports,
            route,
            is_shared,
        } => {
            let rig = |port: u8| {
                let number = if port == 1 { String::new() } else { port.to_string() };
                format!(
                    "[[rig]]\nname = \"vib{number}\"\nkind = \"umad\"\ndevice = \"vib0\"\nport = {port}\n\
                     route = \"0,{port}{route}\"\nwrite_counters = true\n{}",
                    if *is_shared { "shared_subnet = true\n" } else { "" }
                )
            };
            let rigs: Vec<String> = (1..=*ports).map(rig).collect();
            format!("config_version = 1\n\n{}", rigs.join("\n"))
        }
    }
}

/// Returns a path as a TOML string.
pub(super) fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_rig_names_sockets_agent_and_pki() {
        let sockets = DataSockets {
            machine: "/tmp/vm/machine".into(),
            tester: "/tmp/vm/tester".into(),
        };
        let rig = Rig::Packet {
            sockets: &sockets,
            agent: "127.0.0.1:4242".parse().unwrap(),
            pki: Path::new("/tmp/a\"b/pki"),
            console: Path::new("/tmp/console.log"),
            resets: true,
        };
        assert_eq!(
            rig_file(&rig),
            "config_version = 1\n\n[[rig]]\nname = \"rxe\"\nkind = \"packet\"\n\
             socket = { local = \"/tmp/vm/tester\", remote = \"/tmp/vm/machine\" }\n\
             mac = \"02:00:00:00:00:02\"\nip = \"10.0.0.2\"\ndut_ip = \"10.0.0.1\"\ndut_device = \"rxe0\"\n\
             dut_console = \"/tmp/console.log\"\nagent = \"127.0.0.1:4242\"\nagent_ca = \"/tmp/a\\\"b/pki/ca.pem\"\n\
             agent_cert = \"/tmp/a\\\"b/pki/client.pem\"\nagent_key = \"/tmp/a\\\"b/pki/client-key.pem\"\n\
             agent_name = \"localhost\"\nmay_crash = true\nreset = [\"./reset\"]\nreset_when = \"silent\"\nreset_within = 600\n"
        );
    }

    #[test]
    fn verbs_rig_names_adapter_and_agent() {
        let rig = Rig::Verbs {
            agent: Path::new("/run/agent.sock"),
        };
        assert_eq!(
            rig_file(&rig),
            "config_version = 1\n\n[[rig]]\nname = \"rxe-verbs\"\nkind = \"verbs\"\ndevice = \"rxe1\"\nport = 1\n\
             dut_device = \"rxe0\"\nagent = \"unix:/run/agent.sock\"\n"
        );
    }

    #[test]
    fn native_rig_marks_shared_subnet() {
        let rigs = |ports, is_shared| {
            rig_file(&Rig::Native {
                ports,
                route: "",
                is_shared,
            })
        };
        let own = rigs(1, false);
        assert_eq!(
            own,
            "config_version = 1\n\n[[rig]]\nname = \"vib\"\nkind = \"umad\"\ndevice = \"vib0\"\nport = 1\nroute = \"0,1\"\nwrite_counters = true\n"
        );
        assert_eq!(rigs(1, true), format!("{own}shared_subnet = true\n"));
        let second = "\n[[rig]]\nname = \"vib2\"\nkind = \"umad\"\ndevice = \"vib0\"\nport = 2\nroute = \"0,2\"\nwrite_counters = true\n";
        assert_eq!(rigs(2, false), own + second);
    }
}
