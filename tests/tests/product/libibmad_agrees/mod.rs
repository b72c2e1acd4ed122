//! libibmad reads our bytes, and we read libibmad's bytes.
//!
//! The oracle `tests/c/ibmad_fields.c`, a C program over libibmad's field table, decodes our bytes and encodes our
//! values. The values are random, reserved bits included. `names.rs` lists, with reasons, the fields that only one side
//! knows, and the fields that libibmad gets wrong.

mod names;

use std::process::{Command, Stdio};

use names::{Ours, SUBJECTS, Subject, THEIRS_ALONE};
use verbatim_lab::c_programs::{CProgramError, build_c_programs};
use verbatim_tests::oracle::{Random, hex, skipped};
use verbatim_wire::{Field, get_bits, set_bits};

const ROUNDS: usize = 64;

/// Returns the oracle's responses, one per line. Returns `None` if the oracle cannot be built here.
fn oracle(questions: &[String]) -> Option<String> {
    let directory = match build_c_programs() {
        Ok(directory) => directory,
        Err(error @ (CProgramError::NoCompiler { .. } | CProgramError::Missing { .. })) => {
            skipped("the libibmad oracle", &error.to_string());
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let input = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(input.path(), questions.join("\n") + "\n").unwrap();
    let output = Command::new(directory.join("ibmad_fields"))
        .stdin(Stdio::from(std::fs::File::open(input.path()).unwrap()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let answers = String::from_utf8(output.stdout).unwrap();
    let error = answers.lines().find(|line| line.starts_with("error"));
    assert_eq!(error, None);
    Some(answers)
}

/// Returns the offsets of the object's bits that a field of libibmad covers.
fn bits_of(subject: &Subject, ours: Ours) -> Vec<usize> {
    let Some(name) = ours.field() else {
        return (0..subject.size * 8).collect();
    };
    let field = field(subject, name);
    let element = |index: usize| {
        let from = field.offset + index * field.stride;
        from..from + field.width
    };
    match ours {
        Ours::Element(_, index) => element(index).collect(),
        Ours::Bits(_, skip, width) => element(0).skip(skip).take(width).collect(),
        _ => (0..field.count).flat_map(element).collect(),
    }
}

fn field(subject: &Subject, name: &str) -> &'static Field {
    let found = subject.fields.iter().find(|field| field.name == name);
    found.unwrap_or_else(|| panic!("{} has no field {name}", subject.object))
}

/// Returns our value in the oracle's notation: a number for up to 64 bits, otherwise bytes.
fn value(subject: &Subject, ours: Ours, object: &[u8]) -> String {
    let bits = bits_of(subject, ours);
    let mut packed = vec![0; bits.len().div_ceil(8)];
    let before = packed.len() * 8 - bits.len();
    for (at, &bit) in bits.iter().enumerate() {
        set_bits(&mut packed, before + at, 1, get_bits(object, bit, 1));
    }
    if bits.len() <= 64 {
        let number = packed.iter().fold(0, |n, &byte| n << 8 | u64::from(byte));
        format!("{number:#x}")
    } else {
        hex(&packed)
    }
}

/// Returns random samples of all subjects, in the order of [`SUBJECTS`].
fn samples() -> Vec<(&'static Subject, Vec<u8>)> {
    let mut random = Random(0x1B3A_D000);
    SUBJECTS
        .iter()
        .flat_map(|subject| [subject; ROUNDS])
        .map(|subject| (subject, random.bytes(subject.size)))
        .collect()
}

#[test]
fn libibmad_reads_our_values() {
    let samples = samples();
    // The oracle accepts at most 64 bytes of an attribute. An attribute of 192 bytes has only reserved bits after
    // byte 48.
    let room = |subject: &Subject| match subject.attribute {
        "mad" => 256,
        _ => subject.size.min(64),
    };
    let questions: Vec<String> = samples
        .iter()
        .map(|(subject, bytes)| {
            let shown = &bytes[..bytes.len().min(room(subject))];
            format!("D {} {}", subject.attribute, hex(shown))
        })
        .collect();
    let Some(answers) = oracle(&questions) else {
        return;
    };
    let answers: Vec<&str> = answers.trim_end().split("\n\n").collect();
    assert_eq!(answers.len(), samples.len());
    for ((subject, bytes), answer) in samples.iter().zip(answers) {
        for &(theirs, ours) in subject.pairs {
            let line = answer.lines().find(|line| line.split(' ').next() == Some(theirs));
            let shown = line.and_then(|line| line.rsplit('=').next());
            assert_eq!(
                shown,
                Some(value(subject, ours, bytes).as_str()),
                "{} {theirs} {ours:?}",
                subject.object
            );
        }
        for theirs in answer.lines().filter_map(|line| line.split(' ').next()) {
            let known = SUBJECTS
                .iter()
                .filter(|other| other.attribute == subject.attribute)
                .any(|other| other.pairs.iter().any(|(name, _)| *name == theirs));
            assert!(
                known || THEIRS_ALONE.iter().any(|(name, _)| *name == theirs),
                "nobody compares {theirs} of {}",
                subject.attribute
            );
        }
    }
}

#[test]
fn we_read_libibmads_values() {
    let samples = samples();
    let questions: Vec<String> = samples
        .iter()
        .map(|(subject, bytes)| {
            let values: Vec<String> = subject
                .pairs
                .iter()
                .map(|&(theirs, ours)| format!("{theirs}={}", value(subject, ours, bytes)))
                .collect();
            format!("E {} {}", subject.attribute, values.join(" "))
        })
        .collect();
    let Some(answers) = oracle(&questions) else {
        return;
    };
    let answers: Vec<&str> = answers.lines().collect();
    assert_eq!(answers.len(), samples.len());
    for ((subject, bytes), answer) in samples.iter().zip(answers) {
        // libibmad must set the bits of the values in its question, and no other bits.
        let mut wanted = vec![0; subject.size];
        for bit in subject.pairs.iter().flat_map(|&(_, ours)| bits_of(subject, ours)) {
            set_bits(&mut wanted, bit, 1, get_bits(bytes, bit, 1));
        }
        let given = answer.trim_end_matches('0');
        let wanted = hex(&wanted);
        assert_eq!(given, wanted.trim_end_matches('0'), "{}", subject.object);
    }
}

#[test]
fn every_field_is_compared_or_listed() {
    for subject in SUBJECTS {
        let mut compared = vec![false; subject.size * 8];
        for bit in subject.pairs.iter().flat_map(|&(_, ours)| bits_of(subject, ours)) {
            assert!(!compared[bit], "{}: bit {bit} is named twice", subject.object);
            compared[bit] = true;
        }
        for one in subject.fields {
            let bits = bits_of(subject, Ours::Field(one.name));
            let all = bits.iter().all(|&bit| compared[bit]);
            let none = !bits.iter().any(|&bit| compared[bit]);
            let alone = subject.ours_alone.iter().any(|(name, _)| *name == one.name)
                || one.style == verbatim_wire::Style::Reserved;
            assert!(all || (alone && none), "{} {}", subject.object, one.name);
        }
        for (name, _) in subject.ours_alone {
            let _ = field(subject, name);
        }
    }
}
