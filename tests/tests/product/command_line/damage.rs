//! Records with one wrong byte, or without their tail. `verbatim` must not panic, must give no verdict, and must name
//! the file.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use verbatim_tests::oracle::Random;
use verbatim_tests::product::{Place, program, run};

use crate::command_line::{files, keys};

/// A few tests. Each flipped bit costs a process, whose duration grows with the record.
const FEW: &str = "c07-link-crcs c09-060-send c14-016-get-protect-2 c16-port-counters";

/// Number of damaged places in each file besides its first and last 16 bytes.
const PLACES: usize = 100;

/// Makes a signed run, and returns the files of its directory.
fn sound(place: &Place) -> Vec<(String, Vec<u8>)> {
    keys(place, "k");
    let output = run(&mut place.verbatim(&format!("run --record sound --sign k.pem {FEW}")));
    assert_eq!(output.code(), 0, "{output}");
    let files = files(&place.path("sound"));
    for name in [
        "run.json",
        "verdicts.json",
        "manifest.json",
        "manifest.sig",
        "manifest.pub",
    ] {
        assert!(files.iter().any(|(file, _)| file == name));
    }
    files
}

/// Makes a copy of the record for each worker thread.
fn copies(place: &Place, files: &[(String, Vec<u8>)]) -> Vec<std::path::PathBuf> {
    let workers = thread::available_parallelism().map_or(2, usize::from);
    (0..workers)
        .map(|worker| {
            let copy = place.path(&format!("copy-{worker}"));
            fs::create_dir(&copy).unwrap();
            for (name, content) in files {
                fs::write(copy.join(name), content).unwrap();
            }
            copy
        })
        .collect()
}

/// Checks that each command refuses a directory in which one file is damaged.
fn refused(place: &Place, directory: &Path, file: &str, damage: &str, commands: &[&str]) {
    for command in commands {
        let mut verbatim = place.command(program("verbatim"));
        match *command {
            "export" => verbatim
                .arg("export")
                .arg(directory)
                .arg("--pcapng")
                .arg(directory.with_extension("pcapng")),
            command => verbatim.arg(command).arg(directory).arg("--json"),
        };
        let output = run(&mut verbatim);
        let at = directory.join(file);
        assert_eq!(output.code(), 3, "{command}, {file}, {damage}: {output}");
        assert_eq!(output.stdout, "", "{command}, {file}, {damage}");
        assert!(
            output.stderr.contains(at.to_str().unwrap()),
            "{command}, {file}, {damage}: {output}"
        );
        assert!(
            output.stderr.contains("damaged"),
            "{command}, {file}, {damage}: {output}"
        );
        assert!(
            !output.stderr.contains("panicked"),
            "{command}, {file}, {damage}: {output}"
        );
    }
    assert!(
        !directory.with_extension("pcapng").exists(),
        "a capture of a damaged record"
    );
}

/// Damages each file in each way, one damage at a time. The commands take turns.
fn everywhere(
    commands: &[&str],
    damages: impl Fn(usize, &mut Random) -> Vec<(String, Box<dyn Fn(&[u8]) -> Vec<u8>>)> + Sync,
) {
    let place = Place::new();
    let files = sound(&place);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for directory in copies(&place, &files) {
            let (place, files, next, damages) = (&place, &files, &next, &damages);
            scope.spawn(move || {
                while let Some((name, content)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let path = directory.join(name);
                    let all = damages(content.len(), &mut Random(content.len() as u64));
                    for ((damage, apply), command) in all.into_iter().zip(commands.iter().cycle()) {
                        fs::write(&path, apply(content)).unwrap();
                        refused(place, &directory, name, &damage, &[*command]);
                    }
                    fs::write(&path, content).unwrap();
                }
            });
        }
    });
}

/// Returns the offsets of the first and last 16 bytes, and of some bytes in between.
fn places(length: usize, random: &mut Random) -> Vec<usize> {
    let mut places: Vec<usize> = (0..16.min(length)).chain(length.saturating_sub(16)..length).collect();
    places.extend((0..PLACES).map(|_| usize::try_from(random.bits() % length as u64).unwrap()));
    places.sort_unstable();
    places.dedup();
    places
}

#[test]
fn flipped_bit_names_damaged_file() {
    everywhere(&["judge", "verify"], |length, random| {
        let at = places(length, random).into_iter();
        at.map(|at| {
            let bit = 1_u8 << (random.bits() % 8);
            let flip = move |content: &[u8]| {
                let mut content = content.to_vec();
                content[at] ^= bit;
                content
            };
            (
                format!("bit {bit:#04x} of byte {at} flipped"),
                Box::new(flip) as Box<dyn Fn(&[u8]) -> Vec<u8>>,
            )
        })
        .collect()
    });
}

#[test]
fn truncation_names_damaged_file() {
    everywhere(&["judge", "verify"], |length, random| {
        let kept = places(length, random).into_iter().step_by(3).chain([length - 1]);
        kept.map(|kept| {
            let cut = move |content: &[u8]| content[..kept].to_vec();
            (
                format!("cut to {kept} bytes"),
                Box::new(cut) as Box<dyn Fn(&[u8]) -> Vec<u8>>,
            )
        })
        .collect()
    });
}

#[test]
fn damaged_record_is_not_exported() {
    everywhere(&["judge", "verify", "export"], |length, _| {
        let flip = move |content: &[u8]| {
            let mut content = content.to_vec();
            content[length / 2] ^= 1;
            content
        };
        let lengthen = |content: &[u8]| [content, b"\n"].concat();
        vec![
            ("a bit flipped".into(), Box::new(flip) as Box<dyn Fn(&[u8]) -> Vec<u8>>),
            ("a byte appended".into(), Box::new(lengthen)),
        ]
    });
}

#[test]
fn missing_or_swapped_file_is_named() {
    let place = Place::new();
    let files = sound(&place);
    let judge = || run(&mut place.verbatim("judge sound --json"));
    // Without its signature the bundle is sound but unsigned; only `verify` reports the lack.
    for (name, content) in files.iter().filter(|(name, _)| name != "manifest.sig") {
        let path = place.path("sound").join(name);
        fs::remove_file(&path).unwrap();
        let output = judge();
        assert_eq!((output.code(), output.stdout.as_str()), (3, ""), "{name}: {output}");
        assert!(output.stderr.contains(name.as_str()), "{name}: {output}");
        fs::write(&path, content).unwrap();
    }
    // Swap two records: each record is sound, but the run is not.
    let [first, second] = ["001-", "002-"].map(|start| files.iter().find(|(name, _)| name.starts_with(start)).unwrap());
    fs::write(place.path("sound").join(&first.0), &second.1).unwrap();
    fs::write(place.path("sound").join(&second.0), &first.1).unwrap();
    let output = judge();
    assert_eq!((output.code(), output.stdout.as_str()), (3, ""), "{output}");
    assert!(output.stderr.contains(&first.0), "{output}");
}

#[test]
fn rejects_paths_without_record() {
    let place = Place::new();
    fs::create_dir(place.path("empty")).unwrap();
    place.write("file", "text");
    for (name, words) in [
        ("empty", "is not a bundle"),
        ("nowhere", "No such file"),
        ("file", "Not a directory"),
    ] {
        let output = run(&mut place.verbatim(&format!("judge {name}")));
        assert_eq!((output.code(), output.stdout.as_str()), (3, ""), "{output}");
        assert!(
            output.stderr.contains(words) && output.stderr.contains(name),
            "{output}"
        );
        assert!(
            output
                .stderr
                .contains("name the directory that `verbatim run --record` left"),
            "{output}"
        );
        assert_eq!(output.stderr.matches(words).count(), 1, "said once: {output}");
    }
}

#[test]
fn verify_checks_hash_and_extra_files() {
    let place = Place::new();
    sound(&place);
    let verify = |more: &str| run(&mut place.verbatim(&format!("verify sound {more}")));
    let whole = verify("--json");
    assert_eq!(whole.code(), 0, "{whole}");
    let document = whole.json();
    assert_eq!(document["differs"].as_array().map(Vec::len), Some(0), "{whole}");
    let hash = document["manifest_sha256"].as_str().unwrap().to_owned();
    assert_eq!(verify(&format!("--sha256 {}", hash.to_uppercase())).code(), 0);
    let other = verify(&format!("--sha256 {}", "0".repeat(64)));
    assert_eq!(other.code(), 3, "{other}");
    assert!(other.stderr.contains(&hash), "{other}");
    assert_eq!(verify("--sha256 12").code(), 2);
    fs::write(place.path("sound/note.txt"), "me too").unwrap();
    let added = verify("");
    assert_eq!(added.code(), 3, "{added}");
    assert!(added.stderr.contains("note.txt"), "{added}");
}

#[test]
fn verify_detects_forged_verdicts() {
    let place = Place::new();
    sound(&place);
    // Like a forger, alter a verdict and make a new manifest.
    let verdicts = fs::read_to_string(place.path("sound/verdicts.json")).unwrap();
    fs::write(
        place.path("sound/verdicts.json"),
        verdicts.replacen("\"PASS\"", "\"FAIL\"", 1),
    )
    .unwrap();
    fs::remove_file(place.path("sound/manifest.json")).unwrap();
    verbatim_record::BundleWriter::resume(&place.path("sound"), 99)
        .unwrap()
        .seal()
        .unwrap();
    let forged = run(&mut place.verbatim("verify sound"));
    assert_eq!(forged.code(), 1, "{forged}");
    assert!(forged.stdout.contains("was FAIL, is PASS"), "{forged}");
}
