//! Tests of keys that are set for one run.

use verbatim_device::link::{LinkChoices, LinkDefect};

use super::super::{Disturbances, RigSource};
use super::*;

/// A rig of kind `virtual` with every key, each with another value than in the built-in rig.
const EVERY_KEY: &str = r#"name = "virtual"
kind = "virtual"
m_key = 7
lid = 5
shared_subnet = true
window = 3
subnet_timeout = 18
profile = "minimal"
seed = "none"
defects = ["m-key-not-kept", "rnr-interval-halved", "link-ebp-accepted"]
link_choices = ["corrupts-and-forwards", "takes-grh-on-vl15"]
disturbance = ["loses", "late"]
busy = 3
ipv6 = true
simulated = false
dut_ack_timeout_least = 16
dut_out_of_order = true
"#;

fn given(keys: &[&str]) -> Result<RigConfig, String> {
    with(&RigFile::built_in().rigs[0], keys)
}

fn with(rig: &RigConfig, keys: &[&str]) -> Result<RigConfig, String> {
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    rig.with_keys(&keys).map_err(|error| error.to_string())
}

fn model(rig: &RigConfig) -> &VirtualConfig {
    match &rig.kind {
        RigKind::Virtual(model) => model,
        other => panic!("{other:?}"),
    }
}

#[test]
fn reads_every_virtual_key() {
    let file = parse(&rig(EVERY_KEY)).unwrap();
    let expected = VirtualConfig {
        profile: ProfileName::Minimal,
        seed: DeviceSeed::None,
        defects: vec![Defect::MKeyNotKept],
        adapter_defects: vec![RcDefect::RnrIntervalHalved],
        link_defects: vec![LinkDefect::EbpAccepted],
        link_choices: LinkChoices {
            corrupts_and_forwards: true,
            takes_grh_on_vl15: true,
            ..LinkChoices::default()
        },
        disturbance: Disturbances {
            loses: true,
            late: true,
            swaps: false,
        },
        busy: Some(3),
        infiniband: false,
        ipv6: true,
        rules_of_hardware: true,
        m_key: MKey(7),
    };
    assert_eq!(*model(&file.rigs[0]), expected);
    let info = crate::info(&file.rigs[0], core::time::Duration::ZERO);
    assert!(!info.simulated && info.frames.unwrap().ip.is_ipv6());
    let known = [("dut_ack_timeout_least", 16), ("dut_out_of_order", 1)];
    assert_eq!(info.of_device, known.map(|(name, value)| (name.to_string(), value)));
    let usual = crate::info(&RigFile::built_in().rigs[0], core::time::Duration::ZERO);
    assert!(usual.simulated && usual.frames.unwrap().ip.is_ipv4());
}

#[test]
fn keys_turn_built_in_into_the_rig() {
    let whole = parse(&rig(EVERY_KEY)).unwrap().rigs.remove(0);
    let keys = whole.keys();
    assert_eq!(keys.len(), EVERY_KEY.lines().count() - 2, "{keys:?}");
    let of_no_file = RigConfig {
        source: RigSource::default(),
        ..whole.clone()
    };
    assert_eq!(RigFile::built_in().rigs[0].with_keys(&keys), Ok(of_no_file));
    assert_eq!(whole.with_keys(&[]), Ok(whole.clone()));
    assert_eq!(RigFile::built_in().rigs[0].keys(), [] as [&str; 0]);
}

#[test]
fn given_key_replaces_only_its_own() {
    let whole = parse(&rig(EVERY_KEY)).unwrap().rigs.remove(0);
    let changed = with(&whole, &["seed = 3", "defects = []", "route = \"0,1\""]).unwrap();
    assert_eq!(changed.route, Route::Directed(vec![1]));
    let mut expected = model(&whole).clone();
    expected.seed = DeviceSeed::Is(3);
    expected.defects.clear();
    expected.adapter_defects.clear();
    expected.link_defects.clear();
    assert_eq!(*model(&changed), expected);
    assert_eq!(changed.window, 3);
}

#[test]
fn device_takes_seed_of_run_by_default() {
    let seed = |keys: &[&str]| model(&given(keys).unwrap().in_run(5)).varied_by();
    assert_eq!(seed(&[]), Some(5));
    assert_eq!(seed(&["seed=7"]), Some(7));
    assert_eq!(seed(&["seed=\"none\""]), None);
}

#[test]
fn names_the_invalid_key() {
    for (keys, named, words) in [
        (&["ipv6=true", "seed=-1"][..], "seed=-1: ", "expected 0 to"),
        (
            &["sed=1", "ipv6=true"],
            "sed=1: ",
            "unknown key \"sed\"; did you mean \"seed\"?",
        ),
        (&["profile=\"ful\""], "profile=\"ful\": ", "did you mean \"full\"?"),
        (&["ipv6=true", "ipv6=false"], "ipv6=false: ", "duplicate key"),
        (
            &["device=\"d\""],
            "device=\"d\": ",
            "is a key of rigs of kind \"umad\" or \"verbs\"",
        ),
        (
            &["ipv6=true", "profile=full"],
            "profile=full: ",
            "expected KEY=VALUE with a TOML value",
        ),
        (&["seed"], "seed: ", "expected KEY=VALUE"),
        (&[""], ": ", "expected KEY=VALUE"),
        (&["[rig]"], "[rig]: ", "expected KEY=VALUE"),
        (&["[[rig]]\nname=\"b\""], "[[rig]]", "expected KEY=VALUE"),
        (&["seed=1\nipv6=true"], "seed=1\n", "expected KEY=VALUE"),
        (&["kind=\"umad\""], "kind=\"umad\": ", "choose another rig with --rig"),
    ] {
        let error = given(keys).unwrap_err();
        assert!(error.starts_with(named) && error.contains(words), "{keys:?}: {error}");
    }
    let umad = parse(WHOLE).unwrap().rigs.remove(0);
    let keyed = with(&umad, &["m_key=\"0x1234\"", "subnet_timeout=9", "assign_lid=5"]).unwrap();
    assert_eq!((keyed.m_key.0, keyed.assign_lid.map(|lid| lid.0)), (0x1234, Some(5)));
    assert_eq!(
        (&keyed.kind, &keyed.route, keyed.window),
        (&umad.kind, &umad.route, umad.window)
    );
    let wrong = with(&umad, &["m_key=\"x\""]).unwrap_err();
    assert!(wrong.starts_with("m_key=\"x\": "), "{wrong}");
    let error = with(&umad, &["m_key=\"0x1\"", "window=1"]).unwrap_err();
    assert!(
        error.contains("only rigs of kind \"virtual\"") && error.contains("\"bench-3\" is of kind \"umad\""),
        "{error}"
    );
}

/// Returns the TOML blocks of a text. `mark` is the comment mark at the start of its lines.
fn blocks(text: &str, mark: &str) -> Vec<String> {
    let lines = text
        .lines()
        .map(|line| line.strip_prefix(mark).unwrap_or(line).trim_start_matches(' '));
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in lines {
        match &mut block {
            None if line == "```toml" => block = Some(String::new()),
            None => {}
            Some(_) if line == "```" => blocks.extend(block.take()),
            Some(block) => *block += &format!("{line}\n"),
        }
    }
    blocks
}

#[test]
fn documented_examples_parse() {
    let documented = blocks(include_str!("../../../../../docs/rig-file.md"), "");
    let head = blocks(include_str!("../../file.rs"), "//!");
    assert!(documented.len() >= 4 && head.len() == 1);
    for block in head.iter().chain(&documented) {
        let text = if block.contains("config_version") {
            block.clone()
        } else {
            format!("config_version = 1\n{block}")
        };
        let file = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(file.rigs.len() > 1);
    }
    for (name, text) in [("the head", &head), ("rig-file.md", &documented)] {
        for key in ["link_choices", "disturbance", "ipv6", "simulated"] {
            assert!(text.iter().any(|block| block.contains(key)), "{key} is not in {name}");
        }
    }
}
