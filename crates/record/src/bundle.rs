//! The directory that a run leaves: `run.json`, a record for each test, `verdicts.json`, and a manifest
//! that hashes every one of them.

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

/// The manifest's file name while it is written.
const UNFINISHED: &str = ".manifest.json.part";

/// The signature over the manifest, where the bundle is signed: its bytes alone, as other programs check them.
const SIGNATURE: &str = "manifest.sig";

/// The public key that the signature is checked with.
const PUBLIC_KEY: &str = "manifest.pub";

/// No signature and no public key has more bytes.
const LARGEST_SIGNATURE: u64 = 4096;

/// No manifest has more bytes: of a hundred thousand files it has fewer.
const LARGEST_MANIFEST: u64 = 32 << 20;

/// What a run's directory must hold, byte for byte.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// "verbatim.record.v1".
    pub schema: String,
    /// Every other file of the bundle, in order of name.
    pub files: Vec<ManifestFile>,
    /// SHA-256 of the manifest with this field empty.
    pub sha256: String,
}

/// One file of the bundle.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestFile {
    /// Name within the directory.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

/// Why a bundle cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The directory or a file of it cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is no bundle.
    #[error("{path} holds no record of a run: {what}; name the directory that `verbatim run --record` left")]
    NoRecord {
        /// The directory.
        path: PathBuf,
        /// What is missing.
        what: String,
    },
    /// There is something where a bundle is to be made.
    #[error("{path}: {found}: a record is never written over; name a new one")]
    Taken {
        /// The directory.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// The manifest is not as it was written.
    #[error("{path} is damaged: {what}; restore the directory from a copy or run again")]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A file is not as it was written.
    #[error("{path} is damaged: expected {expected}, found {found}; restore it from a copy or run again")]
    File {
        /// The file.
        path: PathBuf,
        /// Size and hash in the manifest.
        expected: String,
        /// Size and hash as found.
        found: String,
    },
    /// A record cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> BundleError + '_ {
    move |source| BundleError::Io {
        path: path.into(),
        source,
    }
}

/// Whether that can only be the name of a file in the bundle's own directory.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

/// A plain file, such that reading it comes to an end, with its bytes; none for a link, pipe, socket, device or directory.
fn open_file(path: &Path) -> Result<Option<(File, u64)>, BundleError> {
    let opened = File::options()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path);
    let file = match opened {
        Ok(file) => file,
        // Of a link, and of a socket.
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

/// So many bytes of a file, and one more if it has grown.
fn read_up_to(path: &Path, file: File, bytes: u64) -> Result<Vec<u8>, BundleError> {
    let mut read = Vec::new();
    file.take(bytes.saturating_add(1))
        .read_to_end(&mut read)
        .map_err(io(path))?;
    Ok(read)
}

/// The files of a directory.
fn names(directory: &Path) -> Result<Vec<String>, BundleError> {
    let files = std::fs::read_dir(directory).map_err(io(directory))?;
    files
        .map(|file| Ok(file.map_err(io(directory))?.file_name().to_string_lossy().into_owned()))
        .collect()
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

    /// Reads and checks a manifest: its own hash, and that it is written exactly as this version writes it.
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
}

/// A directory being filled.
#[derive(Debug)]
pub struct BundleWriter {
    directory: PathBuf,
    records: u32,
}

impl BundleWriter {
    /// Starts a bundle in a directory that is absent or empty.
    ///
    /// # Errors
    /// When it cannot be made, or holds something.
    pub fn create(directory: &Path) -> Result<Self, BundleError> {
        let taken = |found| BundleError::Taken {
            path: directory.into(),
            found,
        };
        std::fs::create_dir_all(directory).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => taken("there is a file of this name"),
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

    /// Goes on with a bundle whose writer died after so many whole records. What it left of a further one, and of a
    /// manifest, is removed.
    ///
    /// # Errors
    /// When the directory cannot be read, or a file of it removed.
    pub fn resume(directory: &Path, done: u32) -> Result<Self, BundleError> {
        for name in names(directory)? {
            let record = name.strip_suffix(".rec").and_then(|name| name.split('-').next());
            let beyond = record.is_some_and(|number| number.parse().is_ok_and(|number: u32| number > done));
            if beyond || [MANIFEST, UNFINISHED, SIGNATURE, PUBLIC_KEY].contains(&name.as_str()) {
                let path = directory.join(name);
                std::fs::remove_file(&path).map_err(io(&path))?;
            }
        }
        Ok(Self {
            directory: directory.into(),
            records: 0,
        })
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file for the next test's record.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn record(&mut self, test: &str) -> Result<file::FileSink, BundleError> {
        let path = self.next(test);
        file::FileSink::create(&path).map_err(io(&path))
    }

    /// In place of [`BundleWriter::record`]: the entries of the next test's record, which is there already.
    ///
    /// # Errors
    /// When it is not, or is not whole.
    pub fn recorded(&mut self, test: &str) -> Result<Vec<Entry>, BundleError> {
        Ok(file::read_file(&self.next(test))?)
    }

    fn next(&mut self, test: &str) -> PathBuf {
        self.records += 1;
        self.directory.join(format!("{:03}-{test}.rec", self.records))
    }

    /// Writes a further file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<(), BundleError> {
        let path = self.directory.join(name);
        std::fs::write(&path, text).map_err(io(&path))
    }

    /// Seals the bundle with its manifest.
    ///
    /// # Errors
    /// When a file cannot be read back or the manifest cannot be written.
    pub fn seal(self) -> Result<PathBuf, BundleError> {
        let mut names = names(&self.directory)?;
        names.sort();
        let mut files = Vec::new();
        for name in names {
            let path = self.directory.join(&name);
            let mut file = File::open(&path).map_err(io(&path))?;
            // Before anybody is told that the run ended, so that a loss of power takes no verdict's evidence.
            file.sync_all().map_err(io(&path))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(io(&path))?;
            files.push(ManifestFile {
                name,
                bytes: bytes.len() as u64,
                sha256: hash(&bytes),
            });
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

/// A bundle. What it holds beside its records is in memory, and was checked; a record is checked when it is read, since a run
/// may leave more bytes than there is memory.
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
    /// Its bytes; of a record none.
    bytes: Option<Vec<u8>>,
}

/// A record of a bundle, not read yet.
#[derive(Clone, Debug)]
pub struct StoredRecord<'a> {
    path: PathBuf,
    listed: &'a ManifestFile,
}

impl StoredRecord<'_> {
    /// Its bytes, as the manifest has them.
    ///
    /// # Errors
    /// When one is another.
    pub fn bytes(&self) -> Result<Bytes, BundleError> {
        Ok(checked(&self.path, self.listed)?.into())
    }

    /// Its entries, End excluded.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn read(&self) -> Result<Vec<Entry>, BundleError> {
        self.entries(&self.bytes()?)
    }

    /// The entries that these bytes of it are.
    ///
    /// # Errors
    /// When they are none.
    pub fn entries(&self, bytes: &Bytes) -> Result<Vec<Entry>, BundleError> {
        Ok(file::read_shared(bytes, &self.path)?)
    }
}

/// The bytes of a file, if they are those that the manifest lists.
fn checked(path: &Path, listed: &ManifestFile) -> Result<Vec<u8>, BundleError> {
    let wrong = |found: String| BundleError::File {
        path: path.into(),
        expected: format!("a plain file of {} bytes", listed.bytes),
        found,
    };
    let Some((file, bytes)) = open_file(path)? else {
        return Err(wrong("a link, a pipe, a device or a directory".into()));
    };
    // Not read before: it may be of any size.
    if bytes != listed.bytes {
        return Err(wrong(format!("{bytes} bytes")));
    }
    let bytes = read_up_to(path, file, bytes)?;
    let found = hash(&bytes);
    if found != listed.sha256 || bytes.len() as u64 != listed.bytes {
        return Err(BundleError::File {
            path: path.into(),
            expected: format!("{} bytes, SHA-256 {}", listed.bytes, listed.sha256),
            found: format!("{} bytes, SHA-256 {found}", bytes.len()),
        });
    }
    Ok(bytes)
}

impl Bundle {
    /// Opens a bundle and checks every byte of it against the manifest.
    ///
    /// # Errors
    /// When a file is missing, damaged or cut.
    pub fn open(directory: &Path) -> Result<Self, BundleError> {
        let bundle = Self::open_unread(directory)?;
        for record in bundle.each_record() {
            record.bytes()?;
        }
        Ok(bundle)
    }

    /// The same for who reads every record: each is checked then, and not before.
    ///
    /// # Errors
    /// When another file than a record is missing, damaged or cut.
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
            let is_record = listed.name.ends_with(".rec");
            let path = directory.join(&listed.name);
            let bytes = (!is_record).then(|| checked(&path, &listed)).transpose()?;
            files.push(StoredFile { listed, bytes });
        }
        Ok(Self {
            directory: directory.into(),
            sha256,
            manifest: text,
            signed: Signed::read(directory)?,
            files,
        })
    }

    /// The manifest, byte for byte: what a signature is over.
    #[must_use]
    pub fn manifest(&self) -> &str {
        &self.manifest
    }

    /// The signature, if there is one.
    #[must_use]
    pub const fn signed(&self) -> Option<&Signed> {
        self.signed.as_ref()
    }

    /// Puts a signature beside the manifest, in place of one that is there.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&mut self, signed: Signed) -> Result<(), BundleError> {
        // The key first: a key without a signature is no signed bundle, a signature without its key would be a damaged one.
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

    /// SHA-256 of the manifest, in hexadecimal: it stands for every byte of the bundle.
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The bytes of each file.
    pub fn sizes(&self) -> impl Iterator<Item = u64> {
        self.files.iter().map(|file| file.listed.bytes)
    }

    /// What is in the directory and the manifest does not list, in order of name.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn added(&self) -> Result<Vec<String>, BundleError> {
        let is_listed = |name: &String| {
            let is_of_signature = [SIGNATURE, PUBLIC_KEY].contains(&name.as_str());
            name == MANIFEST
                || (self.signed.is_some() && is_of_signature)
                || self.files.iter().any(|file| file.listed.name == *name)
        };
        let mut added = names(&self.directory)?;
        added.retain(|name| !is_listed(name));
        added.sort();
        Ok(added)
    }

    /// The text of a file, if the bundle has it.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        let file = self.files.iter().find(|file| file.listed.name == name)?;
        core::str::from_utf8(file.bytes.as_ref()?).ok()
    }

    /// The records, in the order of the run.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn records(&self) -> Result<Vec<Vec<Entry>>, BundleError> {
        self.each_record().map(|record| record.read()).collect()
    }

    /// The same, each to be read when it is wanted: its entries take a multiple of its bytes.
    pub fn each_record(&self) -> impl Iterator<Item = StoredRecord<'_>> {
        let records = self.files.iter().filter(|file| file.bytes.is_none());
        records.map(|file| StoredRecord {
            path: self.directory.join(&file.listed.name),
            listed: &file.listed,
        })
    }
}

#[cfg(test)]
mod tests;
