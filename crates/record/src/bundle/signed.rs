//! The signature of a manifest.

use std::path::Path;

use super::{BundleError, LARGEST_SIGNATURE, PUBLIC_KEY, SIGNATURE, open_file, read_up_to};

/// A signature of a manifest with its public key. The signature is not verified here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signed {
    /// The signature over the manifest's bytes.
    pub signature: Vec<u8>,
    /// The public key as a PEM file.
    pub public_key: Vec<u8>,
}

impl Signed {
    /// Reads the signature in a directory, or returns `None` if there is none.
    pub(super) fn read(directory: &Path) -> Result<Option<Self>, BundleError> {
        // `symlink_metadata` also sees a dangling link.
        if directory.join(SIGNATURE).symlink_metadata().is_err() {
            return Ok(None);
        }
        let read = |name: &str| {
            let path = directory.join(name);
            let wrong = |found: String| BundleError::File {
                path: path.clone(),
                expected: format!("a plain file of at most {LARGEST_SIGNATURE} bytes beside a manifest that is signed"),
                found,
            };
            if path.symlink_metadata().is_err() {
                return Err(wrong("none".into()));
            }
            let Some((file, bytes)) = open_file(&path)? else {
                return Err(wrong("a link, a pipe, a device or a directory".into()));
            };
            if bytes > LARGEST_SIGNATURE {
                return Err(wrong(format!("{bytes} bytes")));
            }
            read_up_to(&path, file, bytes)
        };
        Ok(Some(Self {
            signature: read(SIGNATURE)?,
            public_key: read(PUBLIC_KEY)?,
        }))
    }
}
