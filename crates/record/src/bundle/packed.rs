//! Large records of a complete bundle, compressed with zstd. The manifest keeps the size and the hash of the plain
//! record, so that compression changes neither the bundle's hash nor its signature.

use std::fs::File;
use std::io::{ErrorKind, Read, Write, copy};
use std::path::{Path, PathBuf};

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::{Bundle, BundleError, StoredRecord, io};

/// The end of the name of a compressed record.
const ENDING: &str = ".zst";

/// The name of a compressed record that is being written.
pub(super) const UNFINISHED: &str = ".packed.part";

/// The size in bytes from which a record is compressed. Smaller records take little space.
const LEAST_BYTES: u64 = 64 << 10;

/// The most bytes to which one byte of a compressed record decompresses. A small file could otherwise fill the memory.
pub(super) const MOST_RATIO: u64 = 256;

/// Returns whether a record of `plain` bytes is too large for its compressed file.
pub(super) const fn is_suspicious(compressed: u64, plain: u64) -> bool {
    plain / MOST_RATIO > compressed
}

/// Returns the path of a compressed record.
pub(super) fn packed(plain: &Path) -> PathBuf {
    let mut path = plain.as_os_str().to_owned();
    path.push(ENDING);
    path.into()
}

/// Returns the name of the plain record.
pub(super) fn plain(name: &str) -> &str {
    name.strip_suffix(ENDING).unwrap_or(name)
}

/// Returns a reader that decompresses a file.
pub(super) fn reader(file: File) -> std::io::Result<Box<dyn Read + Send>> {
    Ok(Box::new(StreamingDecoder::new(file).map_err(std::io::Error::other)?))
}

/// Decompresses the records of a bundle whose writer died while it compressed them.
pub(super) fn unpack(directory: &Path, names: &[String]) -> Result<(), BundleError> {
    for name in names.iter().filter(|name| plain(name) != *name) {
        let (from, path) = (directory.join(name), directory.join(plain(name)));
        let whole = || {
            let (mut record, mut file) = (reader(File::open(&from)?)?, File::create(&path)?);
            copy(&mut record, &mut file)?;
            file.sync_all()?;
            std::fs::remove_file(&from)
        };
        whole().map_err(io(&from))?;
    }
    Ok(())
}

impl Bundle {
    /// Compresses the large records in this bundle's directory. If the process dies meanwhile, each record stays
    /// readable.
    ///
    /// # Errors
    /// Returns an error when a record is damaged, or a file cannot be written.
    pub fn pack(&self) -> Result<(), BundleError> {
        for record in self.each_record() {
            record.pack()?;
        }
        File::open(&self.directory)
            .and_then(|directory| directory.sync_all())
            .map_err(io(&self.directory))
    }
}

impl StoredRecord<'_> {
    fn pack(&self) -> Result<(), BundleError> {
        if self.listed.bytes < LEAST_BYTES || !self.path.exists() {
            return Ok(());
        }
        let bytes = compress_to_vec(&self.bytes()?[..], CompressionLevel::Fastest);
        if is_suspicious(bytes.len() as u64, self.listed.bytes) {
            // A reader refuses such a file.
            return Ok(());
        }
        let (path, part) = (packed(&self.path), self.directory().join(UNFINISHED));
        let write = || {
            match std::fs::remove_file(&part) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = File::create_new(&part)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            std::fs::rename(&part, &path)?;
            std::fs::remove_file(&self.path)
        };
        write().map_err(io(&path))
    }

    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }
}
