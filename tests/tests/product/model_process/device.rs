//! The model as a process. The tests read its PortInfo without the product's client.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use verbatim_rig::model::datagram::{Message, decode, encode};
use verbatim_tests::product::{Place, Running, program};
use verbatim_wire::{AttributeId, Layout, MKey, Mad, Method, PortInfo};

/// A test that sets M_Key and protect bits, and sends three requests that must stay unanswered.
pub(crate) const LOCKS: &str = "c14-016-set-protect-2";
/// A test that changes nothing on the device.
pub(crate) const PLAIN: &str = "c13-013-resp-time-value";

fn model(place: &Place, key: MKey) -> Running {
    let mut command = place.command(program("verbatimd"));
    command.args(["model", "--listen", "model.socket", "--found-m-key", &key.to_string()]);
    if key != MKey(0) {
        command.args(["--found-protect-bits", "1"]);
    }
    let model = Running::start(&mut command);
    model.says("listening on ");
    model
}

/// A model for one test.
pub(crate) struct Device {
    pub(crate) place: Place,
    pub(crate) model: Running,
    key: MKey,
}

impl Device {
    pub(crate) fn start(key: MKey) -> Self {
        let place = Place::new();
        let model = model(&place, key);
        let device = Self { place, model, key };
        device.rig_file(&device.socket());
        device
    }

    /// Kills the model, calls `meanwhile`, and starts an equal model at the same socket.
    pub(crate) fn restart_model(&mut self, meanwhile: impl FnOnce()) {
        self.model.signal(Signal::SIGKILL);
        self.model.wait_until_gone();
        meanwhile();
        self.model = model(&self.place, self.key);
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.place.path("model.socket")
    }

    /// Writes a rig file for the model behind this socket.
    pub(crate) fn rig_file(&self, socket: &Path) {
        let (socket, key) = (socket.display(), self.key);
        let rig = format!("[[rig]]\nname = \"model\"\nkind = \"model\"\nsocket = \"{socket}\"\nm_key = \"{key}\"\n");
        self.place.write("rigs.toml", format!("config_version = 1\n\n{rig}"));
    }

    pub(crate) fn verbatim(&self, arguments: &str) -> Command {
        self.place
            .verbatim(&format!("{arguments} --rig-file rigs.toml --rig model"))
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.place.path("state/journals/model/model.journal.json")
    }

    /// Returns the device's PortInfo, read with the original key. Returns `None` if the device's key has changed.
    pub(crate) fn port_info(&self) -> Option<PortInfo> {
        let own = self.place.path("reader.socket");
        let socket = UnixDatagram::bind(&own).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
        let get = Mad::directed(Method::GET, AttributeId::PORT_INFO, 0, &[1]);
        let get = get.with_m_key(self.key).with_transaction_id(0x7E57_0001);
        socket.send_to(&encode(&Message::Mad(get)), self.socket()).unwrap();
        let mut buffer = [0; 512];
        let answer = loop {
            let Ok(length) = socket.recv(&mut buffer) else {
                break None;
            };
            match decode(&buffer[..length]).unwrap() {
                Message::Mad(mad)
                    if mad.method() == Method::GET_RESP && mad.transaction_id() == get.transaction_id() =>
                {
                    break Some(mad);
                }
                // Ignore traps, and responses to a killed tester.
                _ => {}
            }
        };
        std::fs::remove_file(own).unwrap();
        Some(answer?.attribute())
    }

    /// Checks that each field of PortInfo is as before, except the violation counters, which a restore cannot undo.
    pub(crate) fn is_as_before(&self, before: &PortInfo, when: &str) {
        let now = self
            .port_info()
            .unwrap_or_else(|| panic!("{when}: locked with another key"));
        let differences: Vec<_> = before
            .differences(&now)
            .into_iter()
            .map(|one| format!("{one:?}"))
            .collect();
        let changed: Vec<_> = differences.iter().filter(|one| !one.contains("Violations")).collect();
        assert!(changed.is_empty(), "{when}: {changed:?}");
        assert_eq!(now.m_key(), self.key, "{when}");
    }
}
