//! A rig that the command line describes, in the style of infiniband-diags: `--umad mlx5_0:1 --route 0,1`.

use std::fmt::Write as _;

use anyhow::Context;
use verbatim_client::Address;
use verbatim_rig::RigFile;

use crate::exit::Usage;

const HEADING: &str = "A rig without a rig file";
/// Name of the rig file in messages.
const PLACE: &str = "(command line)";

/// A rig without a rig file. `--rig-key` sets further keys.
#[derive(clap::Args, Clone, Default, Debug)]
pub(crate) struct AdHoc {
    /// Test the device at the other end of this InfiniBand port of this host, such as mlx5_0:1
    #[arg(long, value_name = "DEVICE:PORT", help_heading = HEADING, conflicts_with_all = ["packets", "rig_file"])]
    umad: Option<String>,
    /// Directed route to the device; default: 0,PORT
    #[arg(long, value_name = "ROUTE", help_heading = HEADING, requires = "umad", conflicts_with = "lid")]
    route: Option<String>,
    /// The device's LID, in place of a route
    #[arg(long, value_name = "LID", help_heading = HEADING, requires = "umad")]
    lid: Option<u16>,
    /// Test through this Ethernet interface of this host, such as enp3s0, with an agent on the device's host
    #[arg(long, value_name = "INTERFACE", help_heading = HEADING)]
    #[arg(requires = "agent", requires = "ip", conflicts_with = "rig_file")]
    packets: Option<String>,
    /// Address of the agent: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDR", help_heading = HEADING, requires = "packets")]
    agent: Option<String>,
    /// An unused IP address for the tester; no host may use it
    #[arg(long, value_name = "IP", help_heading = HEADING, requires = "packets")]
    ip: Option<String>,
}

impl AdHoc {
    /// Returns the default name of the rig, from its port or interface.
    pub(super) fn name(&self) -> Option<String> {
        self.umad
            .as_ref()
            .or(self.packets.as_ref())
            .map(|place| place.replace(':', "-"))
    }

    /// Returns the given options, quoted for a shell.
    pub(super) fn words(&self) -> Vec<String> {
        let lid = self.lid.map(|lid| lid.to_string());
        let options = [
            ("--umad", &self.umad),
            ("--route", &self.route),
            ("--lid", &lid),
            ("--packets", &self.packets),
            ("--agent", &self.agent),
            ("--ip", &self.ip),
        ];
        let given = options
            .into_iter()
            .filter_map(|(option, value)| Some((option, value.as_ref()?)));
        given
            .flat_map(|(option, value)| [option.into(), verbatim_text::quoted(value)])
            .collect()
    }

    /// Returns a rig file with this rig, its name and further keys; None if the command line describes no rig.
    pub(super) fn file(&self, name: &str, keys: &[String]) -> anyhow::Result<Option<RigFile>> {
        let Some(text) = self.text(name, keys)? else {
            return Ok(None);
        };
        let here = std::env::current_dir().context("cannot read the working directory")?;
        let file = RigFile::parse(text.as_bytes(), &here.join(PLACE));
        Ok(Some(file.map_err(|error| Usage(error.to_string()))?))
    }

    fn text(&self, name: &str, keys: &[String]) -> Result<Option<String>, Usage> {
        let string = |text: &str| toml::Value::String(text.into()).to_string();
        let mut text = format!("config_version = 1\n[[rig]]\nname = {}\n", string(name));
        let mut put = |key: &str, value: String| {
            let _ = writeln!(text, "{key} = {value}");
        };
        match (&self.umad, &self.packets) {
            (Some(place), _) => {
                let (device, port) = place.split_once(':').unwrap_or((place, "1"));
                let port: u8 = port.parse().map_err(|_| {
                    Usage(format!(
                        "--umad {place}: expected an adapter and its port, such as mlx5_0:1; `verbatim rigs \
                         discover` lists them"
                    ))
                })?;
                put("kind", string("umad"));
                put("device", string(device));
                put("port", port.to_string());
                match (&self.route, self.lid) {
                    (_, Some(lid)) => put("lid", lid.to_string()),
                    (Some(route), None) => put("route", string(route)),
                    (None, None) => put("route", string(&format!("0,{port}"))),
                }
            }
            (None, Some(interface)) => {
                put("kind", string("packet"));
                put("interface", string(interface));
                self.agent.iter().for_each(|agent| put("agent", string(agent)));
                self.ip.iter().for_each(|ip| put("ip", string(ip)));
            }
            (None, None) => return Ok(None),
        }
        for key in keys {
            let _ = writeln!(text, "{key}");
        }
        Ok(Some(text))
    }

    /// Refuses these options with a daemon, because the daemon has its own rigs and holds their ports.
    pub(super) fn refuse(&self, address: &Address) -> Result<(), Usage> {
        self.words().first().map_or(Ok(()), |option| {
            Err(Usage(format!(
                "{option} cannot be used with the daemon at {}: the daemon holds the ports of its rigs; name one of \
                 its rigs (`verbatim rigs`), or work without the daemon by --server none",
                address.in_words()
            )))
        })
    }
}

#[cfg(test)]
mod tests {
    use verbatim_rig::RigKind;

    use super::*;

    fn rig(of: &AdHoc, keys: &[&str]) -> anyhow::Result<verbatim_rig::RigConfig> {
        let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        let name = of.name().unwrap();
        Ok(of.file(&name, &keys)?.unwrap().find(&name)?.clone())
    }

    #[test]
    fn umad_option_makes_a_rig_with_its_route() {
        let of = AdHoc {
            umad: Some("mlx5_0:2".into()),
            ..AdHoc::default()
        };
        let made = rig(&of, &["subnet_timeout = 18"]).unwrap();
        assert_eq!(made.name, "mlx5_0-2");
        assert_eq!(made.route, verbatim_tester::Route::Directed(vec![2]));
        assert!(matches!(&made.kind, RigKind::Umad { device, port: 2, .. } if device == "mlx5_0"));
        assert_eq!(of.words(), ["--umad", "mlx5_0:2"]);
        let wrong = AdHoc {
            umad: Some("mlx5_0:x".into()),
            ..AdHoc::default()
        };
        assert!(rig(&wrong, &[]).unwrap_err().to_string().contains("such as mlx5_0:1"));
        let unknown = rig(&of, &["colour = 1"]).unwrap_err().to_string();
        assert!(unknown.contains(PLACE) && unknown.contains("colour"), "{unknown}");
    }

    #[test]
    fn packets_option_makes_a_rig() {
        let of = AdHoc {
            packets: Some("enp3s0".into()),
            agent: Some("127.0.0.1:7000".into()),
            ip: Some("192.0.2.9".into()),
            ..AdHoc::default()
        };
        assert!(matches!(rig(&of, &[]).unwrap().kind, RigKind::Packet(_)));
    }
}
