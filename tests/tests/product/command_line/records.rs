//! The files of a run. They depend only on the seed, and suffice to judge the run again.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use verbatim_record::{Entry, read_file};
use verbatim_tests::product::{Output, Place, debug_verbatim, program, run};
use verbatim_wire::MKey;

use crate::command_line::{BROKEN, FEW, SHORT, WHOLE, files, records};

fn keep(place: &Place, verbatim: &Path, name: &str, more: &str) -> PathBuf {
    let mut command = place.command(verbatim);
    let output = run(command.args(format!("run --record {name} {more}").split_whitespace()));
    assert_eq!(output.code(), 0, "{output}");
    place.path(name)
}

fn differing(one: &Path, other: &Path) -> Vec<String> {
    let (one, other) = (records(one), records(other));
    assert_eq!(one.len(), other.len());
    let differ = one.into_iter().zip(other).filter(|(one, other)| one != other);
    differ.map(|((name, _), _)| name).collect()
}

#[test]
fn same_seed_gives_same_bytes() {
    let place = Place::new();
    let release = program("verbatim");
    let again = keep(&place, &release, "again", &format!("--seed 0 {SHORT}"));
    assert_eq!(differing(&WHOLE.record, &again), [] as [&str; 0]);
    let last = format!("--seed {} {FEW}", u64::MAX);
    let [one, other] = ["one", "other"].map(|name| keep(&place, &release, name, &last));
    assert_eq!(differing(&one, &other), [] as [&str; 0], "{last}");
}

#[test]
#[ignore = "builds everything a second time, without optimisation: minutes; by hand, with --ignored"]
fn debug_and_release_give_same_bytes() {
    let place = Place::new();
    let more = format!("--seed 3 {SHORT}");
    let release = keep(&place, &program("verbatim"), "release", &more);
    let debug = keep(&place, debug_verbatim(), "debug", &more);
    assert_eq!(differing(&release, &debug), [] as [&str; 0]);
}

#[test]
fn other_seed_gives_other_records() {
    let place = Place::new();
    let one = &WHOLE.record;
    let two = keep(&place, &program("verbatim"), "two", &format!("--seed 2 {SHORT}"));
    let differ = differing(one, &two);
    assert_eq!(
        differ.len(),
        records(one).len(),
        "the seed is part of every record: {differ:?}"
    );
    // The keys differ too, not only the seed.
    let keys = |directory: &Path| -> Vec<MKey> {
        let (name, _) = records(directory)
            .into_iter()
            .find(|(name, _)| name.contains("c14-016-get-protect-2"))
            .unwrap();
        let entries = read_file(&directory.join(name)).unwrap();
        entries
            .iter()
            .filter_map(|entry| match entry {
                Entry::Sent(sent) => Some(sent.mad.m_key()).filter(|key| *key != MKey(0)),
                _ => None,
            })
            .collect()
    };
    let (one, two) = (keys(one), keys(&two));
    assert!(
        one.len() > 3 && one.iter().all(|key| !two.contains(key)),
        "{one:?} {two:?}"
    );
}

#[test]
fn record_is_same_alone_and_in_company() {
    let place = Place::new();
    let alone = keep_one(&place, "alone", "c14-016-set-protect-2");
    let all = records(&WHOLE.record);
    let (_, in_company) = all
        .iter()
        .find(|(name, _)| name.ends_with("c14-016-set-protect-2.rec"))
        .unwrap();
    assert_eq!(in_company, &alone);
}

fn keep_one(place: &Place, name: &str, test: &str) -> Vec<u8> {
    let output = run(&mut place.verbatim(&format!("run {test} --record {name}")));
    assert_eq!(output.code(), 0, "{output}");
    fs::read(place.path(name).join(format!("001-{test}.rec"))).unwrap()
}

/// Returns the JSON document of a run, and asserts that judging again gave the same verdicts.
fn judged(output: &Output) -> Value {
    assert!(!output.stderr.contains("differs from that of the run"), "{output}");
    output.json()
}

#[test]
fn judge_repeats_verdicts_of_run() {
    let place = Place::new();
    place.write("rigs.toml", BROKEN);
    let broken = "run --json --rig-file rigs.toml --rig broken C14_016_Get C13_013 --record broken";
    let ran = run(&mut place.verbatim(broken));
    for (record, ran, code) in [(&WHOLE.record, &WHOLE.output, 0), (&place.path("broken"), &ran, 1)] {
        assert_eq!(ran.code(), code, "{ran}");
        let before = files(record);
        let judge = run(place.verbatim("judge --json").arg(record));
        assert_eq!((judge.code(), judge.stderr.as_str()), (code, ""), "{judge}");
        assert_eq!(judged(&judge), judged(ran));
        assert_eq!(files(record), before);
    }
}

#[test]
fn moved_record_is_judged() {
    let place = Place::new();
    let first = keep(&place, &program("verbatim"), "first", "c14-016-get-*");
    fs::rename(first, place.path("second place")).unwrap();
    let output = run(place
        .command(program("verbatim"))
        .arg("judge")
        .arg(place.path("second place")));
    assert_eq!(output.code(), 0, "{output}");
    assert_eq!(output.stdout.lines().filter(|line| line.starts_with("PASS")).count(), 4);
}

#[test]
fn refuses_nonempty_directory() {
    let place = Place::new();
    let kept = keep(&place, &program("verbatim"), "kept", "C13_013");
    fs::create_dir(place.path("other")).unwrap();
    place.write("other/notes.txt", "mine");
    for (name, directory) in [("kept", kept), ("other", place.path("other"))] {
        let before = files(&directory);
        let output = run(&mut place.verbatim(&format!("run C13_013 --record {name}")));
        assert_eq!((output.code(), output.stdout.as_str()), (2, ""), "{output}");
        assert!(
            output.stderr.contains("not empty") && output.stderr.contains("name a new directory"),
            "{output}"
        );
        assert!(output.stderr.contains(directory.to_str().unwrap()), "{output}");
        assert_eq!(files(&directory), before);
    }
    place.write("file", "mine");
    let output = run(&mut place.verbatim("run C13_013 --record file"));
    assert_eq!((output.code(), output.stdout.as_str()), (2, ""), "{output}");
    assert!(output.stderr.contains("a file has this name"), "{output}");
    fs::create_dir(place.path("empty")).unwrap();
    let output = run(&mut place.verbatim("run C13_013 --record empty"));
    assert_eq!(output.code(), 0, "an empty directory is as good as none: {output}");
}
