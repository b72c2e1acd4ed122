//! Golden records. Record `TEST` is from a sound device; record `TEST@DEFECT` is from a device with that defect.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use ruzstd::decoding::StreamingDecoder;
use tar::Archive;
use verbatim_record::Entry;

/// File name suffix of an archive. The rest of the name is the test's id.
const ARCHIVE: &str = ".tar.zst";
const RECORD: &str = ".rec";

/// Returns the directory of the archives and of `verdicts.txt`.
#[must_use]
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/catalog/tests/golden")
}

/// Returns the id of the test that a record belongs to.
#[must_use]
pub fn test_of(name: &str) -> &str {
    name.split_once('@').map_or(name, |(test, _)| test)
}

/// Returns the names of all records, sorted.
///
/// # Panics
/// When an archive cannot be read, or contains a file that is not a record of its test.
#[must_use]
pub fn names() -> Vec<String> {
    let files = fs::read_dir(directory()).unwrap_or_else(|error| panic!("{}: {error}", directory().display()));
    let mut names = Vec::new();
    for file in files {
        let path = file.unwrap_or_else(|error| panic!("{error}")).path();
        let file = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let Some(test) = file.strip_suffix(ARCHIVE) else {
            assert_eq!(
                file, "verdicts.txt",
                "a golden record is kept in an archive: `cargo xtask golden`"
            );
            continue;
        };
        let records = members(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(
            records.iter().all(|name| test_of(name) == test),
            "golden/{file} has records of other tests: {records:?}"
        );
        names.extend(records);
    }
    names.sort();
    names
}

/// Returns the entries of a record.
///
/// # Panics
/// When the record does not exist or cannot be read.
#[must_use]
pub fn entries(name: &str) -> Vec<Entry> {
    let path = directory().join(format!("{}{ARCHIVE}", test_of(name)));
    let bytes = member(&path, name).unwrap_or_else(|error| panic!("golden record {name}: {}: {error}", path.display()));
    let record = PathBuf::from(format!("golden/{name}{RECORD}"));
    verbatim_record::read(&bytes, &record).unwrap_or_else(|error| panic!("{error}"))
}

fn open(path: &Path) -> io::Result<Archive<impl Read + use<>>> {
    let file = BufReader::new(File::open(path)?);
    Ok(Archive::new(StreamingDecoder::new(file).map_err(io::Error::other)?))
}

/// Returns a member's name without its suffix, or `None` if the member is not a record.
fn record_name(member: &tar::Entry<'_, impl Read>) -> io::Result<Option<String>> {
    let path = member.path()?;
    let name = path.to_str().and_then(|name| name.strip_suffix(RECORD));
    Ok(name.map(str::to_owned))
}

fn members(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for member in open(path)?.entries()? {
        let member = member?;
        let name = record_name(&member)?;
        names.push(name.ok_or_else(|| io::Error::other("a member is not a record"))?);
    }
    Ok(names)
}

fn member(path: &Path, name: &str) -> io::Result<Vec<u8>> {
    for member in open(path)?.entries()? {
        let mut member = member?;
        if record_name(&member)?.is_some_and(|found| found == name) {
            let mut bytes = Vec::new();
            member.read_to_end(&mut bytes)?;
            return Ok(bytes);
        }
    }
    Err(io::Error::other("the archive has no such record"))
}
