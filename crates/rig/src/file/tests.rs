mod given;
mod peers;

use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use verbatim_catalog::Register;
use verbatim_device::Defect;
use verbatim_device::rc::RcDefect;
use verbatim_tester::{Need, Route};
use verbatim_wire::{Lid, MKey, SubnetTimeout};

use super::{
    BUILT_IN, Consoles, DeviceSeed, KnownOfDut, ProfileName, ResetConfig, RigConfig, RigFile, RigFileError, RigKind,
    Slowness, VirtualConfig,
};

const WHOLE: &str = r#"config_version = 1

[[rig]]
name = "bench-3"
kind = "umad"
device = "mlx5_0"
port = 2
route = "0,2,17"
m_key = "0xFEDCBA9876543210"
shared_subnet = true
window = 64
subnet_timeout = 18
[rig.env]
LD_BIND_NOW = "1"

[[rig]]
name = "model"
kind = "model"
socket = "run/model"
lid = 5
m_key = 7

[[rig]]
name = "broken"
kind = "virtual"
profile = "one-data-vl"
seed = 7
defects = ["m-key-not-kept", "rnr-interval-halved", "answers-late"]
"#;

fn parse(text: &str) -> Result<RigFile, RigFileError> {
    RigFile::parse(text.as_bytes(), Path::new("/etc/x/rigs.toml"))
}

/// Returns a file with one rig, whose keys begin in line 3.
fn rig(lines: &str) -> String {
    format!("config_version = 1\n[[rig]]\n{lines}")
}

#[track_caller]
fn fails(text: &str, at: (usize, usize), words: &[&str]) {
    let error = parse(text).unwrap_err();
    let RigFileError::Wrong { line, column, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!((*line, *column), at, "{error}");
    let said = error.to_string();
    assert!(
        said.starts_with(&format!("/etc/x/rigs.toml:{}:{}: ", at.0, at.1)),
        "{said}"
    );
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

#[test]
fn reads_every_kind_and_adds_built_in() {
    let file = parse(WHOLE).unwrap();
    let umad = file.find("bench-3").unwrap();
    assert_eq!(
        *umad,
        RigConfig {
            name: "bench-3".into(),
            kind: RigKind::Umad {
                device: "mlx5_0".into(),
                port: 2,
                agent: None,
                verbs: false,
            },
            route: Route::Directed(vec![2, 17]),
            m_key: MKey(0xFEDC_BA98_7654_3210),
            shared_subnet: true,
            window: 64,
            subnet_timeout: Some(SubnetTimeout(18)),
            assign_lid: None,
            write_counters: false,
            may_crash: false,
            labels: Vec::new(),
            env: [("LD_BIND_NOW".to_string(), "1".to_string())].into(),
            slow: Slowness::default(),
            reset: None,
            consoles: Consoles::default(),
            deviation_files: Vec::new(),
            deviations: Register::default(),
            known: KnownOfDut::default(),
            source: umad.source.clone(),
        }
    );
    let model = file.find("model").unwrap();
    let socket = PathBuf::from("/etc/x/run/model");
    assert_eq!(model.kind, RigKind::Model { socket });
    assert_eq!(
        (&model.route, model.m_key, model.window),
        (&Route::Lid(Lid(5)), MKey(7), 16)
    );
    let broken = file.find("broken").unwrap();
    assert_eq!(
        broken.kind,
        RigKind::Virtual(VirtualConfig {
            profile: ProfileName::OneDataVl,
            seed: DeviceSeed::Is(7),
            defects: vec![Defect::MKeyNotKept, Defect::AnswersLate],
            adapter_defects: vec![RcDefect::RnrIntervalHalved],
            ..VirtualConfig::default()
        })
    );
    assert_eq!(broken.route, Route::Directed(vec![1]));
    assert_eq!(file.rigs.last().unwrap().name, BUILT_IN);
}

#[test]
fn rig_named_virtual_replaces_built_in() {
    let file = parse(&rig("name = \"virtual\"\nkind = \"virtual\"\nprofile = \"minimal\"\n")).unwrap();
    assert_eq!(file.rigs.len(), 1);
    assert!(matches!(&file.rigs[0].kind, RigKind::Virtual(config) if config.profile == ProfileName::Minimal));
}

#[test]
fn misspelt_key_names_place_and_nearest() {
    fails(
        &rig("name = \"a\"\nkind = \"umad\"\n  devcie = \"x\"\n"),
        (5, 3),
        &["unknown key \"devcie\"", "did you mean \"device\"?"],
    );
    fails("config_version = 1\n[[rigs]]\n", (2, 3), &["did you mean \"rig\"?"]);
    let table = "config_version = 1\n[rig.a]\nkind = \"umad\"\n";
    fails(table, (2, 2), &["each rig begins with [[rig]], and its name is a key"]);
    fails(
        &rig("name = \"ä\"\nkind = \"umad\"\ntimeout_milliseconds = 1"),
        (5, 1),
        &["unknown key", "expected one of \"name\", \"kind\""],
    );
}

#[test]
fn checks_version_first() {
    fails("", (1, 1), &["config_version = 1"]);
    fails(
        "config_version = 2\nnew = 1\n",
        (1, 18),
        &["config_version is 2, this program knows 1"],
    );
    fails("config_version = \"1\"\n", (1, 18), &["string", "integer"]);
}

#[test]
fn broken_toml_names_its_place() {
    fails("config_version = 1\n[[rig]\n", (2, 7), &["unclosed array table", "`]`"]);
    fails(&rig("name = \"a\"\nname = \"b\"\n"), (4, 1), &["duplicate key"]);
    let error = RigFile::parse(b"config_version = 1\n# \xFF\n", Path::new("f")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "f:2:3: byte 0xff is not UTF-8; a rig file is UTF-8 text"
    );
}

#[test]
fn missing_key_points_at_its_rig() {
    fails(&rig("kind = \"virtual\"\n"), (2, 1), &["missing key `name`"]);
    fails(&rig("name = \"a\"\n"), (2, 1), &["missing key `kind`"]);
    let umad = "name = \"a\"\nkind = \"umad\"\nroute = \"0,1\"\n";
    fails(&rig(umad), (2, 1), &["missing key \"device\""]);
    fails(
        &rig(&format!("{umad}device = \"d\"\n")),
        (2, 1),
        &["missing key \"port\""],
    );
    fails(
        &rig("name = \"a\"\nkind = \"model\"\n"),
        (2, 1),
        &["missing key \"socket\""],
    );
    fails(
        &rig("name = \"a\"\nkind = \"umad\"\ndevice = \"d\"\nport = 1\n"),
        (2, 1),
        &["neither \"route\" nor \"lid\"", "route = \"0,1\""],
    );
}

#[test]
fn refuses_keys_of_other_kinds() {
    for (kind, line, owner) in [
        ("virtual", "device = \"d\"", "\"umad\" or \"verbs\""),
        ("model", "port = 1", "\"umad\" or \"verbs\""),
        ("virtual", "env = { A = \"1\" }", "\"umad\""),
        ("umad", "socket = \"s\"", "\"model\" or \"packet\""),
        ("umad", "profile = \"full\"", "\"virtual\""),
        ("model", "seed = 1", "\"virtual\""),
        ("model", "defects = []", "\"virtual\""),
        ("model", "link_choices = []", "\"virtual\""),
        ("umad", "simulated = true", "\"virtual\""),
        ("packet", "ipv6 = true", "\"virtual\""),
        (
            "umad",
            "dut_ack_timeout_least = 16",
            "\"virtual\" or \"packet\" or \"verbs\"",
        ),
    ] {
        let text = rig(&format!("name = \"a\"\nkind = \"{kind}\"\n{line}\n"));
        let column = line.find("= ").unwrap() + 3;
        let owner = format!("is a key of rigs of kind {owner}, and this one is \"{kind}\"");
        fails(&text, (5, column), &[&owner]);
    }
}

#[test]
fn out_of_range_value_names_the_range() {
    let umad = "name = \"a\"\nkind = \"umad\"\ndevice = \"d\"\nlid = 1\n";
    fails(
        &rig(&format!("{umad}port = 0\n")),
        (7, 8),
        &["\"port\" is 0; expected 1 to 254"],
    );
    for (line, expected) in [
        ("window = 65", "expected 1 to 64"),
        ("window = 0", "expected 1 to 64"),
        ("subnet_timeout = 21", "expected 0 to 20"),
        ("m_key = -1", "expected 64 bits"),
        ("m_key = \"0x10000000000000000\"", "expected 64 bits"),
        ("m_key = \"secret\"", "\"secret\""),
        ("m_key = 1.5", "an integer, or a string such as \"0x1234\""),
        ("seed = -7", "expected 0 to"),
        ("seed = \"nome\"", "expected a number, or \"none\""),
        (
            "link_choices = [\"takes-grh-on-vl-15\"]",
            "did you mean \"takes-grh-on-vl15\"?",
        ),
        ("disturbance = [\"swap\"]", "did you mean \"swaps\"?"),
        ("ipv6 = 6", "boolean"),
        ("simulated = \"no\"", "boolean"),
        ("lid = 0", "expected 1 to 49151"),
        ("lid = 49152", "expected 1 to 49151"),
        ("assign_lid = 0", "expected 1 to 49151"),
        ("busy = 17", "expected 0 to 16"),
        ("dut_ack_timeout_least = 32", "expected 0 to 31"),
        ("profile = \"ful\"", "did you mean \"full\"?"),
        ("defects = [\"m-key-not-kep\"]", "did you mean \"m-key-not-kept\"?"),
        ("defects = \"all\"", "sequence"),
        ("shared_subnet = 1", "boolean"),
    ] {
        let text = rig(&format!("name = \"a\"\nkind = \"virtual\"\n{line}\n"));
        let column = line.find("= ").unwrap() + 3 + usize::from(line.contains("= ["));
        fails(&text, (5, column), &[expected]);
    }
}

#[test]
fn refuses_invalid_name_or_kind() {
    for name in ["", "a b", "../x", ".hidden", "-x", "a/b", &"x".repeat(65)] {
        fails(
            &rig(&format!("name = \"{name}\"\nkind = \"virtual\"\n")),
            (3, 8),
            &["is not a valid rig name"],
        );
    }
    fails(
        &rig("name = \"a\"\nkind = \"unad\"\n"),
        (4, 8),
        &["did you mean \"umad\"?"],
    );
}

#[test]
fn refuses_route_that_leaves_by_other_port() {
    let text = rig("name = \"a\"\nkind = \"umad\"\ndevice = \"d\"\nport = 2\nroute = \"0,1\"\n");
    fails(&text, (7, 9), &["leaves by port 1, and `port` is 2"]);
    assert!(parse(&text.replace("0,1", "0,2")).is_ok());
}

#[test]
fn refuses_duplicate_rig_names() {
    let text = format!("{WHOLE}[[rig]]\nkind = \"virtual\"\nname = \"model\"\n");
    let line = WHOLE.lines().count() + 3;
    fails(&text, (line, 8), &["two rigs are called \"model\""]);
}

#[test]
fn refuses_invalid_route_with_reason() {
    for (route, reason) in [
        ("0", "ends at the tester's own port"),
        ("1", "does not begin with 0"),
        ("", "is not a list of port numbers"),
        ("0,1,", "is not a list of port numbers"),
        ("0,256", "is not a list of port numbers"),
        ("0,0", "which no adapter or switch has"),
        ("0,255", "which no adapter or switch has"),
        (&("0".to_owned() + &",1".repeat(64)), "more than 63 hops"),
    ] {
        let text = rig(&format!(
            "name = \"a\"\nkind = \"umad\"\ndevice = \"d\"\nport = 1\nroute = \"{route}\"\n"
        ));
        fails(&text, (7, 9), &[reason]);
    }
    let two_hops = "name = \"a\"\nkind = \"virtual\"\nroute = \"0,1,2\"\n";
    fails(&rig(two_hops), (5, 9), &["does not end at the model"]);
    let both = "name = \"a\"\nkind = \"virtual\"\nroute = \"0,1\"\nlid = 3\n";
    fails(&rig(both), (6, 7), &["both set"]);
}

#[test]
fn assign_lid_excludes_lid_and_shared_subnet() {
    let assigned = "name = \"a\"\nkind = \"model\"\nsocket = \"s\"\nassign_lid = 5\n";
    let read = parse(&rig(assigned)).unwrap().rigs.remove(0);
    assert_eq!(read.assign_lid, Some(Lid(5)));
    let lid = format!("{assigned}lid = 3\n");
    fails(&rig(&lid), (6, 14), &["keep one of them"]);
    let shared = format!("{assigned}shared_subnet = true\n");
    fails(&rig(&shared), (6, 14), &["assigns the LIDs"]);
}

#[test]
fn crashes_hosts_only_if_allowed() {
    let packet = "name = \"a\"\nkind = \"packet\"\ninterface = \"e\"\nip = \"10.0.0.2\"\ndut_ip = \"10.0.0.1\"\nagent = \"unix:/a\"\n";
    let offers = |text: &str| crate::info(&parse(&rig(text)).unwrap().rigs.remove(0), Duration::ZERO).offers;
    assert!(!offers(packet).contains(&Need::Crash));
    assert!(offers(&format!("{packet}may_crash = true\n")).contains(&Need::Crash));
    let model = "name = \"a\"\nkind = \"model\"\nsocket = \"s\"\nmay_crash = true\n";
    fails(&rig(model), (6, 13), &["\"packet\""]);
}

#[test]
fn writes_counters_only_if_allowed() {
    let model = "name = \"a\"\nkind = \"model\"\nsocket = \"s\"\n";
    let offers = |text: &str| crate::info(&parse(&rig(text)).unwrap().rigs.remove(0), Duration::ZERO).offers;
    assert!(!offers(model).contains(&Need::Counters));
    assert!(offers(&format!("{model}write_counters = true\n")).contains(&Need::Counters));
    assert!(!offers(&format!("{model}write_counters = false\n")).contains(&Need::Counters));
    // A virtual device exists only during the run, so its counters need no restore.
    let its_own = "name = \"a\"\nkind = \"virtual\"\n";
    assert!(offers(its_own).contains(&Need::Counters));
    let needless = format!("{its_own}write_counters = true\n");
    fails(&rig(&needless), (5, 18), &["\"umad\" or \"model\""]);
    fails(&rig(&format!("{model}write_counters = 1\n")), (6, 18), &["boolean"]);
}

#[test]
fn refuses_invalid_environment() {
    let umad = "name = \"a\"\nkind = \"umad\"\ndevice = \"d\"\nport = 1\nlid = 1\n[rig.env]\n";
    fails(&rig(&format!("{umad}\"A=B\" = \"x\"\n")), (9, 9), &["\"A=B\""]);
    fails(&rig(&format!("{umad}A = 1\n")), (9, 5), &["string"]);
}

#[test]
fn searches_explicit_variable_system_built_in() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = directory.path().join(name);
        let text = rig(&format!("name = \"{name}\"\nkind = \"virtual\"\n"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let (explicit, variable, system) = (file("explicit"), file("variable"), file("system"));
    let absent = directory.path().join("absent");
    let named = |explicit: Option<&Path>, variable: Option<&Path>, system: &Path| {
        let file = RigFile::search(explicit, variable.map(Into::into), system).unwrap();
        file.rigs[0].name.clone()
    };
    assert_eq!(named(Some(&explicit), Some(&variable), &system), "explicit");
    assert_eq!(named(None, Some(&variable), &system), "variable");
    assert_eq!(named(None, Some(Path::new("")), &system), "system");
    assert_eq!(named(None, None, &absent), BUILT_IN);
    let error = RigFile::search(None, Some(absent.clone().into()), &system).unwrap_err();
    assert!(
        matches!(&error, RigFileError::Read { path, .. } if *path == absent),
        "{error}"
    );
}

#[test]
fn unknown_rig_lists_existing_ones() {
    let error = parse(WHOLE).unwrap().find("bench3").unwrap_err().to_string();
    assert!(error.contains("did you mean \"bench-3\"?"), "{error}");
    assert!(
        error.contains("/etc/x/rigs.toml are: bench-3, model, broken, virtual"),
        "{error}"
    );
    let error = RigFile::built_in().find("absent").unwrap_err().to_string();
    assert!(
        error.contains("no rig file") && error.contains("VERBATIM_RIG_FILE"),
        "{error}"
    );
}

#[test]
fn m_key_of_virtual_rig_reaches_its_device() {
    let file = parse(&rig("name = \"a\"\nkind = \"virtual\"\nm_key = \"0x1_0000\"\n")).unwrap();
    let RigKind::Virtual(config) = &file.rigs[0].kind else {
        panic!("not virtual");
    };
    assert_eq!(
        (file.rigs[0].m_key, config.profile().m_key),
        (MKey(0x10000), MKey(0x10000))
    );
}

proptest! {
    #[test]
    fn any_bytes_parse_or_fail_with_place(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = RigFile::parse(&bytes, Path::new("f"));
    }

    /// Covers typing errors in a valid file.
    #[test]
    fn altered_file_parses_or_fails_with_place(
        at in 0..WHOLE.len(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let mut bytes = WHOLE.as_bytes().to_vec();
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        if let Err(RigFileError::Wrong { line, column, .. }) = RigFile::parse(&bytes, Path::new("f")) {
            prop_assert!((1..=WHOLE.lines().count() + 2).contains(&line) && column >= 1);
        }
    }

    #[test]
    fn any_text_is_safe_as_a_value(text in "\\PC{0,40}") {
        let keys = [
            "name", "kind", "m_key", "route", "device", "socket", "profile", "port", "interface", "mac", "ip", "dut_ip",
            "gid_index", "agent", "agent_ca", "dut_device",
        ];
        for key in keys {
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = parse(&rig(&format!("{key} = \"{quoted}\"\n")));
            for kind in ["virtual", "packet", "verbs"] {
                let _ = parse(&rig(&format!("name = \"a\"\nkind = \"{kind}\"\n{key} = \"{quoted}\"\n")));
                let _ = parse(&rig(&format!("name = \"a\"\nkind = \"{kind}\"\n{key} = {text}\n")));
            }
        }
    }
}

#[test]
fn defect_of_another_model_is_not_unknown() {
    let error = super::defect("rnr-interval-halved").unwrap_err();
    assert!(
        error.contains("kind virtual") && !error.contains("did you mean"),
        "{error}"
    );
    let error = super::defect("m-key-not-kep").unwrap_err();
    assert!(error.contains("did you mean \"m-key-not-kept\"?"), "{error}");
}

#[test]
fn refuses_env_if_others_may_write_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rigs.toml");
    let with = "config_version = 1\n[[rig]]\nname = \"a\"\nkind = \"umad\"\ndevice = \"d\"\nport = 1\nroute = \"0,1\"\n\
                [rig.env]\nLD_PRELOAD = \"/a.so\"\n";
    let read = |text: &str, mode| {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        RigFile::read(&path)
    };
    for mode in [0o620, 0o602, 0o666] {
        let error = read(with, mode).unwrap_err().to_string();
        assert!(error.contains("chmod go-w") && error.contains("rig \"a\""), "{error}");
    }
    assert!(read(with, 0o644).is_ok());
    assert!(read("config_version = 1\n", 0o666).is_ok());
}

#[test]
fn reads_slowness_and_reset() {
    let keys = "name = \"a\"\nkind = \"packet\"\nsocket = { local = \"t\", remote = \"m\" }\n\
                mac = \"02:00:00:00:00:02\"\nip = \"10.0.0.2\"\nagent = \"unix:a\"\n";
    let with = |more: &str| rig(&format!("{keys}{more}"));
    let file = parse(&with(
        "time_scale = 10000\ntime_scale_least = 2000\nagent_within = 600\nsend_within = 30\n\
         reset = [\"./power\", \"cycle\"]\nreset_within = 5\n",
    ))
    .unwrap();
    let seconds = core::time::Duration::from_secs;
    let read = &file.rigs[0];
    assert_eq!(
        read.slow,
        Slowness {
            scale: 10_000,
            scale_least: Some(2000),
            agent_within: Some(seconds(600)),
            send_within: Some(seconds(30)),
        }
    );
    assert_eq!(
        read.reset,
        Some(ResetConfig {
            command: vec!["./power".into(), "cycle".into()],
            directory: "/etc/x".into(),
            within: seconds(5),
            only_when_silent: false,
        })
    );
    fails(
        &with("time_scale = 0\n"),
        (9, 14),
        &["\"time_scale\" is 0; expected 1 to 1000000"],
    );
    fails(
        &with("time_scale_least = 2\n"),
        (9, 20),
        &["is more than \"time_scale\" 1"],
    );
    let silent = |when: &str| with(&format!("reset = [\"./power\"]\nreset_when = \"{when}\"\n"));
    let read = parse(&silent("silent")).unwrap().rigs.remove(0);
    assert!(read.reset.unwrap().only_when_silent);
    fails(&silent("never"), (10, 14), &["\"always\" or \"silent\""]);
    fails(&with("reset_when = \"silent\"\n"), (9, 14), &["\"reset\" is not set"]);
    fails(&with("reset = []\n"), (9, 9), &["\"reset\" is no command"]);
    fails(&with("reset_within = 3\n"), (9, 16), &["\"reset\" is not set"]);
    fails(
        &rig("name = \"a\"\nkind = \"virtual\"\nreset = [\"a\"]\n"),
        (5, 9),
        &["\"reset\" is a key of rigs of kind"],
    );
}

#[test]
fn refuses_reset_if_others_control_file_or_directory() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("d");
    std::fs::create_dir(&directory).unwrap();
    let path = directory.join("rigs.toml");
    let text = rig("name = \"a\"\nkind = \"model\"\nsocket = \"m\"\nreset = [\"./r\"]\n");
    std::fs::write(&path, text).unwrap();
    let set_mode = |of: &std::path::Path, mode| {
        std::fs::set_permissions(of, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let refused = |of: &std::path::Path, words: &str| {
        let error = RigFile::read(&path).unwrap_err().to_string();
        assert!(
            error.starts_with(&of.display().to_string())
                && error.contains(words)
                && error.contains("`reset` of rig \"a\"")
                && error.contains("run any program as this user"),
            "{error}"
        );
    };
    for (of, mode, restored) in [
        (&directory, 0o777, 0o755),
        (&directory, 0o770, 0o755),
        (&path, 0o620, 0o644),
        (&path, 0o602, 0o644),
    ] {
        set_mode(of, mode);
        refused(of, "so other users may write it");
        set_mode(of, restored);
    }
    set_mode(&directory, 0o1777);
    assert!(RigFile::read(&path).is_ok());
    set_mode(&directory, 0o755);
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    for of in [&path, &directory] {
        chown(of, Some(65_534), None).unwrap();
        refused(of, "belongs to user 65534");
        chown(of, Some(0), None).unwrap();
    }
    assert!(RigFile::read(&path).is_ok());
}

#[test]
fn reads_deviation_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rigs.toml");
    let rigs = "config_version = 1\n[[rig]]\nname = \"core\"\nkind = \"virtual\"\ndeviations = [\"my.toml\"]\n";
    std::fs::write(&path, rigs).unwrap();
    let read = |mine: &str| {
        std::fs::write(directory.path().join("my.toml"), mine).unwrap();
        RigFile::read(&path)
    };
    let error = RigFile::read(&path).unwrap_err().to_string();
    assert!(
        error.contains("my.toml cannot be read") && error.contains("rig \"core\""),
        "{error}"
    );
    let error = read("family = \"core\"\nfamly = 1\n").unwrap_err().to_string();
    assert!(error.contains("my.toml:2: unknown key \"famly\""), "{error}");
    let entry = "family = \"core\"\n[[deviation]]\nid = \"x\"\nstatement = \"C14-24\"\ntests = [\"c14-*\"]\n\
                 findings = [\"M_Key\"]\nreason = \"It is.\"\nsource = \"lab\"\nexpires = \"2027-12-31\"\n";
    let file = read(entry).unwrap();
    let rig = file.find("core").unwrap();
    assert_ne!(rig.deviations, Register::default());
    // `with_keys` keeps the deviations.
    assert_eq!(rig.with_keys(&["busy=2".into()]).unwrap().deviations, rig.deviations);
    // `parse` reads no other file: a restore must not depend on the files of deviations.
    assert_eq!(
        parse(rigs).unwrap().find("core").unwrap().deviations,
        Register::default()
    );
}

#[test]
fn pair_is_found_and_not_listed() {
    let file = RigFile::built_in();
    assert!(file.find("virtual-ib").is_err(), "a daemon does not have it");
    let pair = file.find_any("virtual-ib").unwrap();
    assert!(file.rigs.iter().all(|rig| rig.name != pair.name));
    let offers = pair.offers();
    assert!(offers.contains(&Need::NativePair) && !offers.contains(&Need::Packets));
    let own = parse(&rig("name = \"virtual-ib\"\nkind = \"virtual\"\n")).unwrap();
    assert!(own.find("virtual-ib").unwrap().offers().contains(&Need::Packets));
}

#[test]
fn verbs_of_a_umad_rig_need_an_agent() {
    let umad = "name = \"a\"\nkind = \"umad\"\ndevice = \"x\"\nport = 1\nroute = \"0,1\"\nverbs = true\n";
    let error = parse(&rig(umad)).unwrap_err().to_string();
    assert!(error.contains("needs the agent on the DUT's host"), "{error}");
    let file = parse(&rig(&format!("{umad}agent = \"unix:/run/a\"\n"))).unwrap();
    assert!(file.rigs[0].offers().contains(&Need::NativePair));
}
