//! Usage errors. Every wrong word gives exit code 2, an empty stdout, and an instruction on stderr.

use verbatim_tests::product::{Place, run};

/// Runs `verbatim`; expects exit code 2, and the words on stderr.
fn refused(place: &Place, arguments: &str, words: &[&str]) {
    let output = run(&mut place.verbatim(arguments));
    assert_eq!(output.code(), 2, "{arguments}: {output}");
    assert_eq!(output.stdout, "", "{arguments}");
    for word in words {
        assert!(
            output.stderr.contains(word),
            "{arguments}: {word:?} is not in: {}",
            output.stderr
        );
    }
    assert!(!output.stderr.contains("panicked"), "{output}");
}

#[test]
fn wrong_words_get_suggestions() {
    let place = Place::new();
    for (arguments, words) in [
        ("run no-such-test", ["\"no-such-test\"", "`verbatim tests` lists them"]),
        ("run C14-99", ["\"C14-99\"", "`verbatim tests` lists them"]),
        ("qualify nothing-*", ["\"nothing-*\"", "`verbatim tests` lists them"]),
        (
            "tests no-such-test",
            ["\"no-such-test\"", "`verbatim tests` lists them"],
        ),
        ("run --set nope=1", ["--set nope", "the parameters of these tests: "]),
        ("run C13_013 --set wait_s=1", ["--set wait_s", "of these tests: none"]),
        ("run --set wait_s", ["--set wait_s", "NAME=VALUE was expected"]),
        (
            "run C13_013 --json --ktap -",
            ["--json and --ktap - both print on stdout", "give --ktap a file"],
        ),
        (
            "run C13_013 --tap - --ktap -",
            ["needs a file", "`verbatim report` can print to stdout"],
        ),
        (
            "run --set illegal_parts=70000",
            ["--set illegal_parts=70000", "a number from 0 to "],
        ),
        (
            "run --set illegal_parts=-1",
            ["--set illegal_parts=-1", "a number from 0 to 65532 was"],
        ),
        (
            "run --set illegal_parts=0xg",
            ["--set illegal_parts=0xg", "a number from 0 to 65532 was"],
        ),
        (
            "run --rig-key seed=-1",
            ["--rig-key seed=-1: \"seed\" is -1", "expected 0 to "],
        ),
        (
            "run --rig-key sed=1",
            ["--rig-key sed=1: unknown key \"sed\"", "did you mean \"seed\"?"],
        ),
        (
            "run --rig-key profile=full",
            ["--rig-key profile=full: ", "with a TOML value, such as"],
        ),
        (
            "--server /none.socket run --rig-key seed=1",
            ["--rig-key seed=1 cannot be used with the daemon", "--server none"],
        ),
        ("run --rig bench-3", ["\"bench-3\"", "are: virtual"]),
        ("run --rig virtal", ["\"virtal\"", "\"virtual\""]),
        ("doctor --rig bench-3", ["\"bench-3\"", "are: virtual"]),
        (
            "run --rig-file none.toml",
            ["none.toml cannot be read", "correct the path"],
        ),
        ("rigs --rig-file .", [". cannot be read", "correct the path"]),
        ("run --seed x", ["'x' for '--seed <SEED>'", "--help"]),
        ("run --frobnicate", ["'--frobnicate'", "Usage: verbatim run"]),
        ("judge", ["<DIRECTORY>", "Usage: verbatim judge"]),
        ("export here", ["--pcapng <FILE>", "Usage: verbatim export"]),
        ("juge", ["'juge'", "--help"]),
        ("", ["Usage: verbatim [OPTIONS] <COMMAND>", "Commands:"]),
    ] {
        refused(&place, arguments, &words);
    }
}

#[test]
fn parameters_take_decimal_and_hex() {
    let place = Place::new();
    for arguments in [
        "run c14-024-vl-arbitration-ca --set illegal_parts=16",
        "run C14_024_09_CA --set illegal_parts=0x10",
    ] {
        let output = run(&mut place.verbatim(arguments));
        assert_eq!(output.code(), 0, "{arguments}: {output}");
    }
}

#[test]
fn rig_file_typo_names_line_and_column() {
    let place = Place::new();
    for (text, words) in [
        (
            "config_version = 1\n\n[[rig]]\nname = \"a\"\nkind = \"virtual\"\n  defect = []\n",
            ["rigs.toml:6:3: ", "\"defect\"", "\"defects\""],
        ),
        (
            "config_version = 1\n[[rig]]\nname = \"a\"\nkind = \"virtaul\"\n",
            ["rigs.toml:4:8: ", "\"virtaul\"", "\"virtual\""],
        ),
        (
            "config_version = 1\n[[rig]]\nname = \"a\"\nkind = \"virtual\"\ndefects = [\"m-key-ignored-on-gte\"]\n",
            [
                "rigs.toml:5:12: ",
                "\"m-key-ignored-on-gte\"",
                "\"m-key-ignored-on-get\"",
            ],
        ),
        (
            "config_version = 1\n[[rig]]\nname = \"a\"\nkind = \"umad\"\ndevice = \"x\"\nport = 300\nroute = \"0,1\"\n",
            ["rigs.toml:6:8: ", "\"port\" is 300", "expected 1 to 254"],
        ),
        ("config_version = 1\n[[rig]\n", ["rigs.toml:2:", "", ""]),
        ("[[rig]]\n", ["rigs.toml:1:1: ", "config_version", "config_version = 1"]),
    ] {
        place.write("rigs.toml", text);
        for command in [
            "run --rig-file rigs.toml",
            "rigs --rig-file rigs.toml",
            "doctor --rig-file rigs.toml",
        ] {
            refused(&place, command, &words);
        }
    }
}

#[test]
fn command_line_rig_file_overrides_env() {
    let place = Place::new();
    let file = |name: &str| format!("config_version = 1\n[[rig]]\nname = \"{name}\"\nkind = \"virtual\"\n");
    place.write("one.toml", file("one"));
    place.write("two.toml", file("two"));
    let rigs = |arguments: &str| {
        let output = run(place.verbatim(arguments).env("VERBATIM_RIG_FILE", "one.toml"));
        assert_eq!(output.code(), 0, "{output}");
        output.stdout
    };
    assert!(rigs("rigs").contains("one ") && !rigs("rigs").contains("two "));
    assert!(rigs("rigs --rig-file two.toml").contains("two "));
    assert!(rigs("rigs").contains("virtual "), "the built-in rig is always there");
}

#[test]
fn help_and_version_exit_0() {
    let place = Place::new();
    for arguments in ["--help", "--version", "run --help", "judge --help", "help export"] {
        let output = run(&mut place.verbatim(arguments));
        assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{arguments}");
        assert!(!output.stdout.is_empty());
    }
}

#[test]
fn help_shows_connection_options_where_used() {
    let place = Place::new();
    for (command, has) in [
        ("run", true),
        ("runs", true),
        ("judge", false),
        ("inspect", false),
        ("pki issue", false),
    ] {
        let help = run(&mut place.verbatim(&format!("{command} --help"))).stdout;
        let heading = help.contains("Connection to a daemon:") && help.contains("--server");
        assert_eq!(heading, has, "{command}: {help}");
    }
    // The help hides `--server` here, but the command accepts it.
    assert_eq!(run(&mut place.verbatim("--server none pki --help")).code(), 0);
    assert_eq!(run(&mut place.verbatim("judge --server none --help")).code(), 0);
}

/// Returns the shell completions of the line's last word.
fn offered(place: &Place, line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = place.verbatim("");
    command.arg("--").args(&words);
    command.env("VERBATIM_COMPLETE", "bash");
    command.env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
    let output = run(&mut command);
    assert_eq!(output.code(), 0, "{output}");
    output.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn shells_complete_commands_tests_and_rigs() {
    let place = Place::new();
    assert_eq!(offered(&place, "verbatim insp"), ["inspect"]);
    assert!(offered(&place, "verbatim run c14-015-g").contains(&"c14-015-get".into()));
    std::fs::write(
        place.path("r.toml"),
        "config_version = 1\n[[rig]]\nname = \"bench-3\"\nkind = \"virtual\"\n",
    )
    .unwrap();
    assert_eq!(offered(&place, "verbatim run --rig-file r.toml --rig b"), ["bench-3"]);
    assert_eq!(
        offered(&place, "verbatim runs show la"),
        ["latest"],
        "`latest` is offered even without a daemon"
    );
}

#[test]
fn run_names_unused_rigs_of_the_rig_file() {
    let place = Place::new();
    let rigs = "config_version = 1\n[[rig]]\nname = \"bench-3\"\nkind = \"virtual\"\n";
    std::fs::write(place.path("r.toml"), rigs).unwrap();
    let output = run(&mut place.verbatim("run --rig-file r.toml c14-024-node-info"));
    let words = "the rig is virtual; --rig selects another one of the rig file: bench-3";
    assert!(output.stderr.contains(words), "{output}");
    let output = run(&mut place.verbatim("run --rig-file r.toml --rig bench-3 c14-024-node-info"));
    assert!(!output.stderr.contains("another one"), "{output}");
}

#[test]
fn each_command_has_a_manual_page() {
    let place = Place::new();
    let page = run(&mut place.verbatim("man runs watch"));
    assert!(
        page.code() == 0 && page.stdout.contains("verbatim-runs-watch"),
        "{page}"
    );
    assert_eq!(run(&mut place.verbatim("man --dir man1")).code(), 0);
    assert!(place.path("man1/verbatim-run.1").is_file());
    let none = run(&mut place.verbatim("man rnu"));
    assert!(none.code() == 2 && none.stderr.contains("\"rnu\""), "{none}");
}

#[test]
fn completion_scripts_call_verbatim() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&mut place.verbatim(&format!("completions {shell}")));
        assert_eq!(output.code(), 0, "{output}");
        assert!(output.stdout.contains("VERBATIM_COMPLETE"), "{shell}: {output}");
    }
}
