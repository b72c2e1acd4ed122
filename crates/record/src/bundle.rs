//! The directory of a finished run: `run.json`, one record per test, `verdicts.json`, and a manifest with the hash of
//! every file.

mod packed;
mod signed;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use digest::Digest;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use prost::bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::entry::Entry;
use crate::file::{self, RecordError};

pub use signed::Signed;

/// The manifest's file name.
const MANIFEST: &str = "manifest.json";

const UNFINISHED: &str = ".manifest.json.part";

/// The file with the signature over the manifest, if the bundle is signed. It holds raw bytes, so that other programs
/// can verify them.
const SIGNATURE: &str = "manifest.sig";

/// The file with the public key of the signature.
const PUBLIC_KEY: &str = "manifest.pub";

/// The most bytes of a signature or a public key.
const LARGEST_SIGNATURE: u64 = 4096;

/// The most bytes of a manifest. A manifest of [`MOST_FILES`] files is smaller.
const LARGEST_MANIFEST: u64 = 8 << 20;

/// The most files of a bundle. A run has one record for each test.
pub const MOST_FILES: usize = 10_000;

/// The most bytes of a document, such as `verdicts.json`. A run of all tests writes 2 MiB. In memory, a document takes
/// several times its size.
const LARGEST_DOCUMENT: u64 = 64 << 20;

/// The most bytes of all files of a bundle.
pub const LARGEST_BUNDLE: u64 = 16 << 30;

/// The documents that are kept in memory. Other files that are no records are only checked.
const DOCUMENTS: [&str; 2] = ["run.json", "verdicts.json"];

/// The list of a bundle's files with their sizes and hashes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The schema's name, "verbatim.record.v1".
    pub schema: String,
    /// The bundle's other files, sorted by name.
    pub files: Vec<ManifestFile>,
    /// SHA-256 of the manifest with this field empty.
    pub sha256: String,
}

/// One file of a bundle.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestFile {
    /// The file's name in the bundle's directory.
    pub name: String,
    /// The file's size in bytes.
    pub bytes: u64,
    /// The file's SHA-256 in hexadecimal.
    pub sha256: String,
}

/// The reason why a bundle cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The directory or one of its files cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The path of the directory or file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The directory is not a bundle.
    #[error("{path} is not a bundle: {what}; name the directory that `verbatim run --record` left")]
    NoRecord {
        /// The directory.
        path: PathBuf,
        /// The name of the missing part.
        what: String,
    },
    /// A new bundle's directory is a file, or is not empty.
    #[error("{path}: {found}; a bundle is never written over: name a new directory")]
    Taken {
        /// The directory.
        path: PathBuf,
        /// A description of the existing content.
        found: &'static str,
    },
    /// The manifest has changed since it was written.
    #[error("{path} is damaged: {what}; restore the directory from a copy or run again")]
    Manifest {
        /// The path of the manifest.
        path: PathBuf,
        /// The defect.
        what: String,
    },
    /// A file differs from the manifest.
    #[error("{path} is damaged: expected {expected}, found {found}; restore it from a copy or run again")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The size and hash in the manifest.
        expected: String,
        /// The actual size and hash.
        found: String,
    },
    /// A record cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// The number of bytes that one read takes.
const AT_ONCE: usize = 64 << 10;

fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Reads a file to its end. Passes its parts to `each`, in order. Returns the number of bytes and their hash.
fn hashed(mut file: impl Read, mut each: impl FnMut(&[u8])) -> std::io::Result<(u64, String)> {
    let (mut digest, mut length) = (Sha256::new(), 0);
    let mut part = vec![0; AT_ONCE];
    loop {
        match file.read(&mut part)? {
            0 => return Ok((length, hex(&digest.finalize()))),
            read => {
                digest.update(&part[..read]);
                length += read as u64;
                each(&part[..read]);
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> BundleError + '_ {
    move |source| BundleError::Io {
        path: path.into(),
        source,
    }
}

/// Returns whether the name denotes a file directly in the bundle's directory.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

/// Opens a regular file and returns it with its size in bytes. Returns `None` for anything else, such as a link or a
/// directory, because the read of a pipe or device might never end.
fn open_file(path: &Path) -> Result<Option<(File, u64)>, BundleError> {
    let opened = File::options()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path);
    let file = match opened {
        Ok(file) => file,
        // `ELOOP`: a link. `ENXIO`: a socket.
        Err(error)
            if [Errno::ELOOP, Errno::ENXIO]
                .map(|of| Some(of as i32))
                .contains(&error.raw_os_error()) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(io(path)(error)),
    };
    let metadata = file.metadata().map_err(io(path))?;
    Ok(metadata.is_file().then_some((file, metadata.len())))
}

/// Reads at most `bytes + 1` bytes. The extra byte shows whether the file has grown since `bytes` was read as its size.
fn read_up_to(path: &Path, file: impl Read, bytes: u64) -> Result<Vec<u8>, BundleError> {
    let mut read = Vec::new();
    file.take(bytes.saturating_add(1))
        .read_to_end(&mut read)
        .map_err(io(path))?;
    Ok(read)
}

fn names(directory: &Path) -> Result<Vec<String>, BundleError> {
    let files = std::fs::read_dir(directory).map_err(io(directory))?;
    // The manifest does not list these files.
    let most = MOST_FILES + [MANIFEST, UNFINISHED, SIGNATURE, PUBLIC_KEY].len();
    let names: Vec<String> = files
        .take(most + 1)
        .map(|file| Ok(file.map_err(io(directory))?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_, BundleError>>()?;
    if names.len() > most {
        return Err(BundleError::NoRecord {
            path: directory.into(),
            what: format!("it has more than {most} files"),
        });
    }
    Ok(names)
}

impl Manifest {
    fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a manifest is plain data");
        text.push('\n');
        text
    }

    fn sealed(files: Vec<ManifestFile>) -> Self {
        let mut manifest = Self {
            schema: "verbatim.record.v1".into(),
            files,
            sha256: String::new(),
        };
        manifest.sha256 = hash(manifest.to_json().as_bytes());
        manifest
    }

    /// Reads a manifest and checks it against its own hash. Its bytes must equal those that this version writes.
    fn open(path: &Path) -> Result<Self, BundleError> {
        let damaged = |what: String| BundleError::Manifest {
            path: path.into(),
            what,
        };
        let Some((file, bytes)) = open_file(path)? else {
            return Err(damaged("it is no plain file".into()));
        };
        if bytes > LARGEST_MANIFEST {
            let expected = format!("expected at most {LARGEST_MANIFEST}");
            return Err(damaged(format!("it has {bytes} bytes; {expected}")));
        }
        let text = read_up_to(path, file, bytes)?;
        let manifest: Self = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        manifest.refuse_sizes().map_err(damaged)?;
        if let Some(file) = manifest.files.iter().find(|file| !is_plain(&file.name)) {
            let expected = "expected names of files within the bundle";
            return Err(damaged(format!("it names {:?}; {expected}", file.name)));
        }
        let mut names = BTreeSet::new();
        if let Some(file) = manifest.files.iter().find(|file| !names.insert(&file.name)) {
            return Err(damaged(format!(
                "it names {:?} twice; expected each file once",
                file.name
            )));
        }
        if Self::sealed(manifest.files.clone()).to_json().as_bytes() != text {
            return Err(damaged("its bytes do not match its own hash".into()));
        }
        Ok(manifest)
    }

    /// Refuses numbers and sizes that no run makes, before any of the files is read.
    fn refuse_sizes(&self) -> Result<(), String> {
        if self.files.len() > MOST_FILES {
            return Err(format!(
                "it lists {} files; expected at most {MOST_FILES}",
                self.files.len()
            ));
        }
        let mut all: u64 = 0;
        for ManifestFile { name, bytes, .. } in &self.files {
            all = all.saturating_add(*bytes);
            let most = if name.ends_with(".rec") {
                file::LARGEST_RECORD
            } else if DOCUMENTS.contains(&name.as_str()) {
                LARGEST_DOCUMENT
            } else {
                LARGEST_BUNDLE
            };
            if *bytes > most {
                return Err(format!("it lists {name:?} with {bytes} bytes; expected at most {most}"));
            }
        }
        if all > LARGEST_BUNDLE {
            return Err(format!("its files have {all} bytes; expected at most {LARGEST_BUNDLE}"));
        }
        Ok(())
    }
}

/// Returns the file name of a test's record; `place` is the number of tests before it.
#[must_use]
pub fn record_name(place: usize, test: &str) -> String {
    format!("{:03}-{test}.rec", place + 1)
}

/// A bundle that is being written.
#[derive(Debug)]
pub struct BundleWriter {
    directory: PathBuf,
    records: u32,
}

impl BundleWriter {
    /// Creates a bundle in a directory that is absent or empty.
    ///
    /// # Errors
    /// Returns an error when the directory cannot be created, or is not empty.
    pub fn create(directory: &Path) -> Result<Self, BundleError> {
        let taken = |found| BundleError::Taken {
            path: directory.into(),
            found,
        };
        std::fs::create_dir_all(directory).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => taken("a file has this name"),
            _ => io(directory)(error),
        })?;
        let mut entries = std::fs::read_dir(directory).map_err(io(directory))?;
        if entries.next().is_some() {
            return Err(taken("the directory is not empty"));
        }
        Ok(Self {
            directory: directory.into(),
            records: 0,
        })
    }

    /// Resumes a bundle whose writer died after `done` complete records. Removes later records, the manifest and the
    /// signature.
    ///
    /// # Errors
    /// Returns an error when the directory cannot be read, or a file cannot be removed.
    pub fn resume(directory: &Path, done: u32) -> Result<Self, BundleError> {
        packed::unpack(directory, &names(directory)?)?;
        for name in names(directory)? {
            let record = name.strip_suffix(".rec").and_then(|name| name.split('-').next());
            let beyond = record.is_some_and(|number| number.parse().is_ok_and(|number: u32| number > done));
            if beyond || [MANIFEST, UNFINISHED, packed::UNFINISHED, SIGNATURE, PUBLIC_KEY].contains(&name.as_str()) {
                let path = directory.join(name);
                std::fs::remove_file(&path).map_err(io(&path))?;
            }
        }
        Ok(Self {
            directory: directory.into(),
            records: 0,
        })
    }

    /// Returns the bundle's directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Creates the file of the next test's record.
    ///
    /// # Errors
    /// Returns an error when the file cannot be created.
    pub fn record(&mut self, test: &str) -> Result<file::FileSink, BundleError> {
        let path = self.next(test);
        file::FileSink::create(&path).map_err(io(&path))
    }

    /// Reads the next test's record, which exists already. A resumed run calls this instead of
    /// [`BundleWriter::record`].
    ///
    /// # Errors
    /// Returns an error when the record is absent or incomplete.
    pub fn recorded(&mut self, test: &str) -> Result<Vec<Entry>, BundleError> {
        Ok(file::read_file(&self.next(test))?)
    }

    fn next(&mut self, test: &str) -> PathBuf {
        self.records += 1;
        self.directory.join(record_name(self.records as usize - 1, test))
    }

    /// Writes a file that is not a record.
    ///
    /// # Errors
    /// Returns an error when the file cannot be written, or is larger than a reader accepts.
    pub fn write(&self, name: &str, text: &str) -> Result<(), BundleError> {
        let path = self.directory.join(name);
        if text.len() as u64 > LARGEST_DOCUMENT {
            let what = format!(
                "{} bytes, expected at most {LARGEST_DOCUMENT}; select fewer tests",
                text.len()
            );
            return Err(io(&path)(std::io::Error::new(ErrorKind::FileTooLarge, what)));
        }
        std::fs::write(&path, text).map_err(io(&path))
    }

    /// Writes the manifest, which completes the bundle. Returns the bundle's directory.
    ///
    /// # Errors
    /// Returns an error when a file cannot be read back, or the manifest cannot be written.
    pub fn seal(self) -> Result<PathBuf, BundleError> {
        let mut names = names(&self.directory)?;
        names.sort();
        let mut files = Vec::new();
        for name in names {
            let path = self.directory.join(&name);
            let mut file = File::open(&path).map_err(io(&path))?;
            // The file must be on disk before the run reports its end: a power failure must not lose the evidence of a
            // verdict.
            file.sync_all().map_err(io(&path))?;
            let (bytes, sha256) = hashed(&mut file, |_| {}).map_err(io(&path))?;
            files.push(ManifestFile { name, bytes, sha256 });
        }
        let path = self.directory.join(MANIFEST);
        let part = self.directory.join(UNFINISHED);
        let write = || {
            let mut file = File::create(&part)?;
            file.write_all(Manifest::sealed(files).to_json().as_bytes())?;
            file.sync_all()
        };
        write().map_err(io(&part))?;
        std::fs::rename(&part, &path).map_err(io(&path))?;
        File::open(&self.directory)
            .and_then(|directory| directory.sync_all())
            .map_err(io(&self.directory))?;
        Ok(self.directory)
    }
}

/// An opened bundle. The files other than records are checked and in memory. A record is checked when it is read,
/// because a run's records may exceed the memory.
#[derive(Debug)]
pub struct Bundle {
    directory: PathBuf,
    sha256: String,
    manifest: String,
    signed: Option<Signed>,
    files: Vec<StoredFile>,
}

/// A file that the manifest lists.
#[derive(Debug)]
struct StoredFile {
    listed: ManifestFile,
    /// The bytes of a document; empty for other files.
    bytes: Vec<u8>,
}

impl StoredFile {
    fn is_record(&self) -> bool {
        self.listed.name.ends_with(".rec")
    }
}

/// A bundle's record that has not been read yet.
#[derive(Clone, Debug)]
pub struct StoredRecord<'a> {
    path: PathBuf,
    listed: &'a ManifestFile,
}

impl StoredRecord<'_> {
    /// Returns the size of the record's file in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.listed.bytes
    }

    /// Returns the record's file name in the manifest.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.listed.name
    }

    /// Opens the record to read its bytes, which are not checked against the manifest. The reader decompresses a
    /// compressed record, and returns no more bytes than the manifest lists.
    ///
    /// # Errors
    /// Returns an error when the file cannot be opened.
    pub fn open(&self) -> Result<impl Read + Send + use<>, BundleError> {
        Ok(open_listed(&self.path, self.listed)?.take(self.listed.bytes))
    }

    /// Reads the record's bytes and checks them against the manifest.
    ///
    /// # Errors
    /// Returns an error when the bytes differ from the manifest.
    pub fn bytes(&self) -> Result<Bytes, BundleError> {
        Ok(checked_bytes(&self.path, self.listed)?.into())
    }

    /// Reads the record's entries, without `End`.
    ///
    /// # Errors
    /// Returns an error when the record is damaged.
    pub fn read(&self) -> Result<Vec<Entry>, BundleError> {
        self.entries(&self.bytes()?)
    }

    /// Parses this record's bytes as entries.
    ///
    /// # Errors
    /// Returns an error when the bytes are not a complete record.
    pub fn entries(&self, bytes: &Bytes) -> Result<Vec<Entry>, BundleError> {
        Ok(file::read_shared(bytes, &self.path)?)
    }
}

/// Opens a file that the manifest lists. The reader decompresses a compressed record.
fn open_listed(path: &Path, listed: &ManifestFile) -> Result<Box<dyn Read + Send>, BundleError> {
    let wrong = |found: String| BundleError::File {
        path: path.into(),
        expected: format!("a plain file of {} bytes", listed.bytes),
        found,
    };
    let packed = packed::packed(path);
    let is_packed = !path.exists() && packed.exists();
    let Some((file, bytes)) = open_file(if is_packed { &packed } else { path })? else {
        return Err(wrong("a link, a pipe, a device or a directory".into()));
    };
    if is_packed {
        if packed::is_suspicious(bytes, listed.bytes) {
            return Err(wrong(format!(
                "{bytes} compressed bytes, of which each would give more than {}",
                packed::MOST_RATIO
            )));
        }
        return packed::reader(file).map_err(io(&packed));
    }
    // Compare the size before reading: the file may be of any size.
    if bytes != listed.bytes {
        return Err(wrong(format!("{bytes} bytes")));
    }
    Ok(Box::new(file))
}

/// Reads a file, and checks its bytes against the manifest's entry. Passes the parts of the file to `each`, in order.
/// Use the parts only if this function succeeds.
fn checked(path: &Path, listed: &ManifestFile, each: impl FnMut(&[u8])) -> Result<(), BundleError> {
    // One more byte than the manifest lists shows whether the file has grown.
    let file = open_listed(path, listed)?.take(listed.bytes.saturating_add(1));
    let (length, found) = hashed(file, each).map_err(io(path))?;
    if found != listed.sha256 || length != listed.bytes {
        return Err(BundleError::File {
            path: path.into(),
            expected: format!("{} bytes, SHA-256 {}", listed.bytes, listed.sha256),
            found: format!("{length} bytes, SHA-256 {found}"),
        });
    }
    Ok(())
}

/// Reads a file into memory, and checks it against the manifest's entry.
fn checked_bytes(path: &Path, listed: &ManifestFile) -> Result<Vec<u8>, BundleError> {
    let mut bytes = Vec::new();
    checked(path, listed, |part| bytes.extend_from_slice(part))?;
    Ok(bytes)
}

impl Bundle {
    /// Opens a bundle and checks every byte against the manifest.
    ///
    /// # Errors
    /// Returns an error when a file is missing, damaged or cut off.
    pub fn open(directory: &Path) -> Result<Self, BundleError> {
        let bundle = Self::open_unread(directory)?;
        for record in bundle.each_record() {
            checked(&record.path, record.listed, |_| {})?;
        }
        Ok(bundle)
    }

    /// Opens a bundle and checks all files but its records. Each record is checked when it is read.
    ///
    /// # Errors
    /// Returns an error when a file other than a record is missing, damaged or cut off.
    pub fn open_unread(directory: &Path) -> Result<Self, BundleError> {
        let path = directory.join(MANIFEST);
        let none = |what: String| BundleError::NoRecord {
            path: directory.into(),
            what,
        };
        std::fs::read_dir(directory).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => none(error.to_string()),
            _ => io(directory)(error),
        })?;
        if !path.exists() {
            return Err(none(
                "it has no manifest.json: the run did not end, or this is another directory".into(),
            ));
        }
        let manifest = Manifest::open(&path)?;
        let (text, sha256) = (manifest.to_json(), manifest.sha256);
        let mut files = Vec::new();
        for listed in manifest.files {
            let path = directory.join(&listed.name);
            let mut file = StoredFile {
                listed,
                bytes: Vec::new(),
            };
            if DOCUMENTS.contains(&file.listed.name.as_str()) {
                file.bytes = checked_bytes(&path, &file.listed)?;
            } else if !file.is_record() {
                checked(&path, &file.listed, |_| {})?;
            }
            files.push(file);
        }
        Ok(Self {
            directory: directory.into(),
            sha256,
            manifest: text,
            signed: Signed::read(directory)?,
            files,
        })
    }

    /// Returns the manifest's text, which the signature covers.
    #[must_use]
    pub fn manifest(&self) -> &str {
        &self.manifest
    }

    /// Returns the signature, if the bundle is signed.
    #[must_use]
    pub const fn signed(&self) -> Option<&Signed> {
        self.signed.as_ref()
    }

    /// Writes a signature next to the manifest. Replaces an existing signature.
    ///
    /// # Errors
    /// Returns an error when the signature or the key cannot be written.
    pub fn put(&mut self, signed: Signed) -> Result<(), BundleError> {
        // Write the key first. A bundle with only the key counts as unsigned, a bundle with only the signature as
        // damaged.
        for (name, bytes) in [(PUBLIC_KEY, &signed.public_key), (SIGNATURE, &signed.signature)] {
            let path = self.directory.join(name);
            let part = self.directory.join(format!(".{name}.part"));
            let write = || {
                let mut file = File::create(&part)?;
                file.write_all(bytes)?;
                file.sync_all()?;
                std::fs::rename(&part, &path)
            };
            write().map_err(io(&path))?;
        }
        self.signed = Some(signed);
        Ok(())
    }

    /// Returns the SHA-256 of the manifest in hexadecimal. This hash identifies the content of the whole bundle.
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Returns the files that the manifest lists. The sizes are those of the plain records, even if the records are
    /// stored compressed.
    pub fn files(&self) -> impl Iterator<Item = &ManifestFile> {
        self.files.iter().map(|file| &file.listed)
    }

    /// Returns the names of files in the directory that the manifest does not list, sorted.
    ///
    /// # Errors
    /// Returns an error when the directory cannot be read.
    pub fn added(&self) -> Result<Vec<String>, BundleError> {
        let listed: BTreeSet<&str> = self.files.iter().map(|file| file.listed.name.as_str()).collect();
        let is_listed = |name: &String| {
            let is_of_signature = [SIGNATURE, PUBLIC_KEY].contains(&name.as_str());
            name == MANIFEST || (self.signed.is_some() && is_of_signature) || listed.contains(packed::plain(name))
        };
        let mut added = names(&self.directory)?;
        added.retain(|name| !is_listed(name));
        added.sort();
        Ok(added)
    }

    /// Returns the text of `run.json` or `verdicts.json`, if the bundle has it and it is UTF-8.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        let file = self.files.iter().find(|file| file.listed.name == name)?;
        core::str::from_utf8(&file.bytes).ok().filter(|text| !text.is_empty())
    }

    /// Reads all records, in the order of the run.
    ///
    /// # Errors
    /// Returns an error when a record cannot be read.
    pub fn records(&self) -> Result<Vec<Vec<Entry>>, BundleError> {
        self.each_record().map(|record| record.read()).collect()
    }

    /// Returns the records without reading them, in the order of the run. In memory, the entries of a record take
    /// several times the size of its file.
    pub fn each_record(&self) -> impl Iterator<Item = StoredRecord<'_>> {
        let records = self.files.iter().filter(|file| file.is_record());
        records.map(|file| StoredRecord {
            path: self.directory.join(&file.listed.name),
            listed: &file.listed,
        })
    }
}

#[cfg(test)]
mod tests;
