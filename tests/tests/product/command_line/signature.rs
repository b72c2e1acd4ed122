//! Bundles signed with openssl's keys. openssl and `verbatim` must agree about valid and invalid signatures.

use std::fs;

use verbatim_record::BundleWriter;
use verbatim_tests::product::{Output, Place, run};

use crate::command_line::{files, keys};

fn verbatim(place: &Place, arguments: &str) -> Output {
    run(&mut place.verbatim(arguments))
}

/// Returns whether openssl accepts the signature in `kept`.
fn openssl_takes(place: &Place, public: &str) -> bool {
    let command =
        format!("pkeyutl -verify -rawin -pubin -inkey {public} -sigfile kept/manifest.sig -in kept/manifest.json");
    run(place.command("openssl").args(command.split_whitespace())).code() == 0
}

/// Runs one test with its record in `kept`.
fn kept(place: &Place, more: &str) {
    let output = verbatim(place, &format!("run c14-024-node-type --record kept {more}"));
    assert_eq!(output.code(), 0, "{output}");
}

#[test]
fn openssl_verifies_our_signature() {
    let place = Place::new();
    keys(&place, "mine");
    kept(&place, "");
    let unsigned = verbatim(&place, "verify kept --json");
    assert!(unsigned.json()["signed_by"].is_null(), "{unsigned}");
    assert!(verbatim(&place, "verify kept").stdout.contains("signed   no"));
    assert_eq!(verbatim(&place, "verify kept --key mine.pub").code(), 3, "not signed");

    let signed = verbatim(&place, "sign kept --key mine.pem");
    assert_eq!(signed.code(), 0, "{signed}");
    assert!(openssl_takes(&place, "mine.pub"));
    assert!(openssl_takes(&place, "kept/manifest.pub"));
    assert_eq!(
        fs::read(place.path("mine.pub")).unwrap(),
        fs::read(place.path("kept/manifest.pub")).unwrap()
    );
    let id = verbatim(&place, "verify kept --json --key mine.pub").json()["signed_by"]
        .as_str()
        .unwrap()
        .to_owned();
    let der = "openssl pkey -pubin -in mine.pub -outform DER | sha256sum";
    let theirs = run(place.command("sh").args(["-c", der]));
    assert_eq!(theirs.stdout.split(' ').next(), Some(id.as_str()), "{theirs}");
    assert!(signed.stdout.contains(&id), "{signed}");
    // A signed record can be judged like any other.
    assert_eq!(verbatim(&place, "judge kept").code(), 0);
}

#[test]
fn openssl_signature_is_accepted() {
    let place = Place::new();
    keys(&place, "mine");
    kept(&place, "");
    let sign = "pkeyutl -sign -rawin -inkey mine.pem -in kept/manifest.json -out kept/manifest.sig";
    assert_eq!(run(place.command("openssl").args(sign.split(' '))).code(), 0);
    fs::copy(place.path("mine.pub"), place.path("kept/manifest.pub")).unwrap();
    let output = verbatim(&place, "verify kept --key mine.pub");
    assert_eq!(output.code(), 0, "{output}");
}

#[test]
fn forged_signed_record_is_refused() {
    let place = Place::new();
    keys(&place, "mine");
    keys(&place, "other");
    kept(&place, "--sign mine.pem");
    let [signature, public] =
        ["kept/manifest.sig", "kept/manifest.pub"].map(|name| fs::read(place.path(name)).unwrap());

    // Like a forger, alter a file and make a new manifest, but keep the old signature.
    let verdicts = fs::read_to_string(place.path("kept/verdicts.json")).unwrap();
    fs::write(place.path("kept/verdicts.json"), format!("{verdicts}\n")).unwrap();
    BundleWriter::resume(&place.path("kept"), 99).unwrap().seal().unwrap();
    fs::write(place.path("kept/manifest.sig"), signature).unwrap();
    fs::write(place.path("kept/manifest.pub"), public).unwrap();
    for command in ["judge kept", "verify kept", "verify kept --key mine.pub", "report kept"] {
        let output = verbatim(&place, command);
        assert_eq!((output.code(), output.stdout.as_str()), (3, ""), "{command}: {output}");
        assert!(output.stderr.contains("manifest.sig is damaged"), "{output}");
    }
    assert!(!openssl_takes(&place, "mine.pub"), "openssl refuses it, too");

    // With a signature of the forger's key, the bundle is whole, but the key is wrong.
    assert_eq!(verbatim(&place, "sign kept --key other.pem --force").code(), 0);
    let whole = verbatim(&place, "verify kept");
    assert!(
        whole.stdout.contains("--key PUBLIC.pem checks whose key it is"),
        "{whole}"
    );
    let output = verbatim(&place, "verify kept --key mine.pub");
    assert_eq!((output.code(), output.stdout.as_str()), (3, ""), "{output}");
    assert!(output.stderr.contains("is not signed as demanded"), "{output}");
}

#[test]
fn incomplete_signature_is_refused() {
    let place = Place::new();
    keys(&place, "mine");
    kept(&place, "--sign mine.pem");
    for (gone, words) in [
        (
            "kept/manifest.sig",
            "has files that the manifest does not list: manifest.pub",
        ),
        ("kept/manifest.pub", "kept/manifest.pub is damaged"),
    ] {
        let content = fs::read(place.path(gone)).unwrap();
        fs::remove_file(place.path(gone)).unwrap();
        let output = verbatim(&place, "verify kept");
        assert_eq!((output.code(), output.stdout.as_str()), (3, ""), "{output}");
        assert!(output.stderr.contains(words), "{output}");
        fs::write(place.path(gone), content).unwrap();
    }
    assert_eq!(verbatim(&place, "verify kept").code(), 0);
}

#[test]
fn unusable_key_is_refused_before_run() {
    let place = Place::new();
    keys(&place, "mine");
    let openssl = |arguments: &str| run(place.command("openssl").args(arguments.split(' ')));
    openssl("genpkey -algorithm x25519 -out x.pem");
    openssl("genpkey -algorithm ed25519 -aes256 -pass pass:secret -out locked.pem");
    place.write("text.pem", "no key");
    for (key, seen) in [
        ("mine.pub", "seen PUBLIC KEY"),
        ("x.pem", "of another kind"),
        ("locked.pem", "seen ENCRYPTED PRIVATE KEY"),
        ("text.pem", "seen no PEM"),
        ("nowhere.pem", "No such file"),
    ] {
        let output = verbatim(&place, &format!("run c14-024-node-type --record kept --sign {key}"));
        assert_eq!((output.code(), output.stdout.as_str()), (2, ""), "{key}: {output}");
        assert!(output.stderr.contains(key) && output.stderr.contains(seen), "{output}");
        assert!(!place.path("kept").exists(), "nothing was run");
    }
    let output = verbatim(&place, "run c14-024-node-type --sign mine.pem");
    assert_eq!(output.code(), 2, "there is nothing to sign without --record: {output}");
    kept(&place, "--sign mine.pem");
    let before = files(&place.path("kept"));
    let output = verbatim(&place, "sign kept --key mine.pem");
    assert_eq!(output.code(), 2, "{output}");
    assert!(output.stderr.contains("is signed already, by key"), "{output}");
    assert_eq!(
        verbatim(&place, "verify kept --key mine.pem").code(),
        2,
        "a private key"
    );
    assert_eq!(files(&place.path("kept")), before);
    assert_eq!(
        verbatim(&place, "run c14-024-node-type --repeat 2 --record many --sign mine.pem").code(),
        0
    );
    for one in ["many/1", "many/2"] {
        let output = verbatim(&place, &format!("verify {one} --key mine.pub"));
        assert_eq!(output.code(), 0, "{output}");
    }
}

/// Text that would be read as a line of `verify`, and commands for a terminal.
const HOSTILE: &str =
    "x\nsigned   by key 00, as demanded\r\u{1b}[2K\u{9b}2K\u{202e}; touch pwned\n| `a` | PASS | | |\n<b>";

#[test]
fn hostile_bundle_forges_no_line() {
    let place = Place::new();
    kept(&place, "");
    let record = place.path("kept");
    // A bundle whose maker chose the words, and sealed them.
    let altered = |name: &str, alter: &dyn Fn(&mut serde_json::Value)| {
        let path = record.join(name);
        let mut document = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        alter(&mut document);
        fs::write(path, document.to_string()).unwrap();
    };
    altered("run.json", &|run| {
        for name in ["id", "rig", "host", "catalogue", "fingerprint", "rig_options"] {
            run[name] = HOSTILE.into();
        }
    });
    altered("verdicts.json", &|verdicts| {
        verdicts[0]["test"] = HOSTILE.into();
        verdicts[0]["passed"][0]["seen"] = HOSTILE.into();
    });
    BundleWriter::resume(&record, 1).unwrap().seal().unwrap();
    for (arguments, code) in [
        ("verify kept", 1),
        ("judge kept", 0),
        ("report kept", 0),
        ("report kept --tap -", 0),
        ("report kept --junit -", 0),
        ("report kept --html -", 0),
        ("explain kept c14-024-node-type", 0),
        ("verify kept --json", 1),
        ("judge kept --json", 0),
    ] {
        let output = verbatim(&place, arguments);
        assert_eq!(output.code(), code, "{output}");
        for text in [&output.stdout, &output.stderr] {
            assert!(
                !text.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\r']),
                "{arguments}: {text:?}"
            );
            // HTML has no lines.
            let forged = ["\nsigned   by", "\n| `a`", "\n<b>"]
                .iter()
                .any(|line| text.contains(line));
            assert!(!forged || arguments.contains("--html"), "{arguments}: {text}");
        }
        assert!(
            !arguments.contains("--html") || !output.stdout.contains("<b>"),
            "{output}"
        );
        assert!(!output.stdout.contains("verbatim run x"), "{output}");
    }
    let verified = verbatim(&place, "verify kept");
    assert!(verified.stdout.contains("\nsigned   no\n"), "{verified}");
    let json = verbatim(&place, "judge kept --json").json();
    assert_eq!(json["run"]["host"], HOSTILE, "the value of JSON stays");
}
