use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

use verbatim_rig::RigFile;

use super::super::State;
use super::*;

/// A root directory with one device, and the output of its tools.
struct Fake {
    root: tempfile::TempDir,
    tools: BTreeMap<&'static str, &'static str>,
}

impl Fake {
    /// Returns a ConnectX with RoCE and default settings, on a host with all tools.
    fn connectx() -> Self {
        let fake = Self {
            root: tempfile::tempdir().unwrap(),
            tools: BTreeMap::from([
                ("mlxreg", ROCE_ACCL),
                ("mlxconfig", MLXCONFIG),
                ("devlink", DEVLINK),
                ("dcb", DCB),
                ("ethtool", ETHTOOL),
            ]),
        };
        let device = "sys/class/infiniband/mlx5_0";
        for (path, text) in [
            ("fw_ver", "20.43.4100\n"),
            (
                "device/uevent",
                "DRIVER=mlx5_core\nPCI_ID=15B3:101B\nPCI_SLOT_NAME=0000:08:00.0\n",
            ),
            ("device/sriov_numvfs", "0\n"),
            ("ports/1/link_layer", "Ethernet\n"),
            ("ports/1/gid_attrs/types/0", "IB/RoCE v1\n"),
            ("ports/1/gid_attrs/types/1", "RoCE v2\n"),
            ("ports/1/gid_attrs/ndevs/0", "enp8s0\n"),
            ("ports/1/gids/1", "fe80:0000:0000:0000:0000:0000:0000:0001\n"),
        ] {
            fake.put(&format!("{device}/{path}"), text.as_bytes());
        }
        fake.put(&format!("{device}/device/config"), &configuration(0x10));
        fake.put("sys/class/net/enp8s0/mtu", b"1500\n");
        for point in ["roce_np", "roce_rp"] {
            for priority in 0..8 {
                fake.put(&format!("sys/class/net/enp8s0/ecn/{point}/enable/{priority}"), b"1\n");
            }
        }
        fake
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn with<T>(&self, look: impl FnOnce(&Host<'_>) -> T) -> T {
        let tool = |names: &[&str], _: &[&str]| {
            let printed = names.iter().find_map(|name| self.tools.get(name));
            printed
                .map(|text| (*text).to_owned())
                .ok_or(format!("{} is not on the PATH", names.join(" or ")))
        };
        look(&Host {
            root: self.root.path(),
            tool: &tool,
        })
    }

    fn found(&self) -> Vec<Found> {
        self.with(of_host)
    }
}

/// Returns a PCI configuration space with these low bits in the Device Control register.
fn configuration(control: u8) -> [u8; 256] {
    let mut space = [0; 256];
    space[0x34] = 0x48;
    (space[0x48], space[0x49]) = (0x05, 0x60);
    (space[0x60], space[0x68]) = (0x10, control);
    space
}

const ROCE_ACCL: &str = "Sending access register...\n\n\
Field Name                                      | Data\n\
============================================================\n\
roce_adp_retrans_field_select                   | 0x00000001\n\
min_ack_timeout_limit_disabled_field_select     | 0x00000001\n\
adaptive_routing_forced_en_field_select         | 0x00000000\n\
selective_repeat_forced_en_field_select         | 0x00000001\n\
roce_adp_retrans_en                             | 0x00000001\n\
min_ack_timeout_limit_disabled                  | 0x00000000\n\
adaptive_routing_forced_en                      | 0x00000000\n\
selective_repeat_forced_en                      | 0x00000000\n\
============================================================\n";

const MLXCONFIG: &str = "\nDevice #1:\n----------\n\nDevice type:    ConnectX6\n\
Configurations:                              Default         Current         Next Boot\n\
        ROCE_CC_PRIO_MASK_P1                        255                  255                  255\n\
*       RDMA_SELECTIVE_REPEAT_EN                    False(0)             True(1)              False(0)\n\
        PCI_WR_ORDERING                             per_mkey(0)          per_mkey(0)          per_mkey(0)\n\
        PF_BAR2_SIZE                                Array[0..7]          Array[0..7]          Array[0..7]\n";

const DEVLINK: &str = r#"{"param":{"pci/0000:08:00.0":[
    {"name":"flow_steering_mode","type":"driver-specific","values":[{"cmode":"runtime","value":"smfs"}]},
    {"name":"enable_roce","type":"generic","values":[{"cmode":"driverinit","value":false}]}]}}"#;

const DCB: &str = "pfc-cap 8 macsec-bypass off delay 0 \nprio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off \n";

const ETHTOOL: &str = "Pause parameters for enp8s0:\nAutonegotiate:\toff\nRX:\t\toff\nTX:\t\ton\n\n";

fn of<'a>(found: &'a [Found], what: &str) -> &'a Found {
    let of_it = found.iter().find(|found| found.what == format!("mlx5_0: {what}"));
    of_it.unwrap_or_else(|| {
        panic!(
            "{what} is not among {:?}",
            found.iter().map(|it| &it.what).collect::<Vec<_>>()
        )
    })
}

#[test]
fn default_connectx_has_effects_and_remedies() {
    let found = Fake::connectx().found();
    for (what, state, words) in [
        ("firmware", State::Ok, "20.43.4100"),
        ("SR-IOV", State::Ok, "no virtual function"),
        (
            "relaxed ordering",
            State::Note,
            "setpci -s 0000:08:00.0 CAP_EXP+8.w=0:10",
        ),
        ("port 1 GIDs", State::Ok, "at index 1"),
        ("port 1 MTU", State::Ok, "up to 1024"),
        ("port 1 pauses", State::Note, "ethtool -A enp8s0"),
        ("port 1 PFC", State::Note, "priorities 3:"),
        ("port 1 ECN", State::Note, "0, 1, 2, 3, 4, 5, 6, 7"),
        ("roce_adp_retrans_en", State::Note, "--set roce_adp_retrans_en=0"),
        ("min_ack_timeout_limit_disabled", State::Note, "536.9 ms"),
        ("adaptive_routing_forced_en", State::Unread, "does not show it"),
        ("selective_repeat_forced_en", State::Ok, "0"),
        ("ROCE_CC_PRIO_MASK_P1", State::Note, "`cnp-cause`"),
        ("ROCE_ADAPTIVE_ROUTING_EN", State::Unread, "does not show it"),
        (
            "RDMA_SELECTIVE_REPEAT_EN",
            State::Note,
            "set RDMA_SELECTIVE_REPEAT_EN=0",
        ),
        ("PCI_WR_ORDERING", State::Ok, "0"),
        ("devlink enable_roce", State::Note, "name enable_roce value true"),
    ] {
        let one = of(&found, what);
        assert!(
            one.state == state && one.words.contains(words),
            "{what}: {:?} {}",
            one.state,
            one.words
        );
    }
    assert_eq!(found.len(), 17);
    assert!(
        found.iter().all(|one| one.usable),
        "a setting is no reason to refuse a rig"
    );
}

#[test]
fn unreadable_settings_have_reasons() {
    let mut fake = Fake::connectx();
    fake.tools.clear();
    let device = fake.root.path().join("sys/class/infiniband/mlx5_0");
    for file in ["fw_ver", "device/config"] {
        fs::remove_file(device.join(file)).unwrap();
    }
    fs::remove_dir_all(fake.root.path().join("sys/class/net/enp8s0")).unwrap();
    let found = fake.found();
    for (what, words) in [
        ("firmware", "fw_ver"),
        ("relaxed ordering", "takes root"),
        ("port 1 MTU", "sys/class/net/enp8s0/mtu"),
        ("port 1 pauses", "ethtool is not on the PATH"),
        ("port 1 PFC", "dcb is not on the PATH"),
        ("port 1 ECN", "ROCE_CC_PRIO_MASK_P1"),
        (
            "ROCE_ACCL",
            "mlxreg or mstreg is not on the PATH; not known: roce_adp_retrans_en",
        ),
        ("firmware settings", "mstflint"),
        ("devlink", "enable_roce"),
    ] {
        let one = of(&found, what);
        assert!(
            one.state == State::Unread && one.words.contains(words),
            "{what}: {}",
            one.words
        );
    }
}

#[test]
fn unknown_output_is_unread_and_not_printed() {
    let mut fake = Fake::connectx();
    let junk = "\u{1b}[31m| 0xzz\nname | value\n RX RY\nprio-pfc\nX Y(\n{\"param\":[]}";
    fake.tools.values_mut().for_each(|printed| *printed = junk);
    let found = fake.found();
    for what in [
        "port 1 pauses",
        "port 1 PFC",
        "ROCE_ACCL",
        "firmware settings",
        "devlink",
    ] {
        assert_eq!(of(&found, what).state, State::Unread, "{what}");
    }
    assert!(found.iter().all(|one| !one.words.contains('\u{1b}')));
}

#[test]
fn reports_virtual_functions() {
    let fake = Fake::connectx();
    fake.put("sys/class/infiniband/mlx5_0/device/sriov_numvfs", b"4\n");
    assert!(
        of(&fake.found(), "SR-IOV")
            .words
            .starts_with("virtual functions in use: 4")
    );
    symlink("/", fake.root.path().join("sys/class/infiniband/mlx5_0/device/physfn")).unwrap();
    let found = fake.found();
    let one = of(&found, "SR-IOV");
    assert!(
        one.state == State::Note && one.words.contains("refuses SMPs"),
        "{}",
        one.words
    );
}

#[test]
fn finds_pci_express_capability() {
    assert_eq!(relaxed_ordering(&configuration(0x10)), Some(true));
    assert_eq!(relaxed_ordering(&configuration(0xEF)), Some(false));
    assert_eq!(relaxed_ordering(&configuration(0x10)[..64]), None, "without root");
    let mut circle = configuration(0x10);
    (circle[0x60], circle[0x61]) = (0x01, 0x48);
    assert_eq!(relaxed_ordering(&circle), None);
    assert_eq!(relaxed_ordering(&[]), None);
}

#[test]
fn infiniband_port_has_no_roce_settings() {
    let fake = Fake::connectx();
    fake.put("sys/class/infiniband/mlx5_0/ports/1/link_layer", b"InfiniBand\n");
    let found = fake.found();
    let told: Vec<&str> = found.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(told, ["mlx5_0: firmware", "mlx5_0: SR-IOV", "mlx5_0: relaxed ordering"]);
}

#[test]
fn software_device_has_only_port_settings() {
    let fake = Fake::connectx();
    let device = fake.root.path().join("sys/class/infiniband/mlx5_0");
    fs::remove_dir_all(device.join("device")).unwrap();
    fake.put("sys/class/infiniband/mlx5_0/parent", b"enp8s0\n");
    let found = fake.found();
    let told: Vec<&str> = found.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(told, ["mlx5_0: firmware", "mlx5_0: port 1 GIDs", "mlx5_0: port 1 MTU"]);
    assert!(of(&found, "firmware").words.contains("software on enp8s0"));
}

#[test]
fn remote_dut_is_checked_on_its_own_host() {
    let fake = Fake::connectx();
    let rig = |agent: &str, device: &str| {
        let text = format!(
            "config_version = 1\n[[rig]]\nname = \"p\"\nkind = \"packet\"\nip = \"192.0.2.2\"\nmac = \"02:00:00:00:00:02\"\nsocket \
             = {{ local = \"t\", remote = \"m\" }}\nagent = \"{agent}\"\ndut_device = \"{device}\"\nagent_ca = \"a\"\nagent_cert = \
             \"c\"\nagent_key = \"k\"\n"
        );
        RigFile::parse(text.as_bytes(), "rigs.toml".as_ref())
            .unwrap()
            .rigs
            .remove(0)
    };
    let mut near = rig("127.0.0.1:7000", "mlx5_0");
    let told = |rig: &RigConfig| fake.with(|host| of_rig(host, rig)).len();
    assert_eq!(told(&near), 17);
    if let RigKind::Packet(of) = &mut near.kind {
        of.agent.device = None;
    }
    assert_eq!(told(&near), 17, "any device may be the DUT");
    for (agent, device) in [("192.0.2.1:7000", "mlx5_0"), ("127.0.0.1:7000", "rxe0")] {
        let far = fake.with(|host| of_rig(host, &rig(agent, device)));
        assert!(
            far.len() == 1 && far[0].state == State::Unread,
            "{agent}: {}",
            far.len()
        );
        assert!(far[0].words.contains(agent) && far[0].words.contains("`verbatim doctor` there"));
    }
    assert!(fake.with(|host| of_rig(host, &RigFile::built_in().rigs[0])).is_empty());
}
