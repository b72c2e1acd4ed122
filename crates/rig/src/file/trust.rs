//! Whether other users control a file, and so choose the programs that it names.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

/// The bits of a mode with which group and others may write.
const WRITE: u32 = 0o022;
/// In a directory with this bit, a user can remove and rename only files of that user.
const STICKY: u32 = 0o1000;

/// Returns how other users control an open file: as its owner, by its mode, or by a directory above it. Returns `None`
/// if only this user and root control it.
///
/// # Errors
/// When the owner or mode of the file or of a directory cannot be read.
pub(super) fn others(file: &File, path: &Path) -> std::io::Result<Option<String>> {
    let me = geteuid().as_raw();
    // The opened file counts, and not the file that has the path now.
    if let Some(why) = by(path, &file.metadata()?, me) {
        return Ok(Some(why));
    }
    let mut directories: Vec<PathBuf> = Vec::new();
    // The path as written may contain links, so other users must not control its directories either.
    for path in [path.to_path_buf(), path.canonicalize()?] {
        directories.extend(path.ancestors().skip(1).map(Path::to_path_buf));
    }
    for directory in directories {
        let why = by(&directory, &fs::metadata(&directory)?, me);
        if why.is_some() {
            return Ok(why);
        }
    }
    Ok(None)
}

fn by(path: &Path, of: &fs::Metadata, me: u32) -> Option<String> {
    let why = why(of.uid(), of.mode(), me, of.is_dir())?;
    Some(format!("{} {why}", path.display()))
}

fn why(owner: u32, mode: u32, me: u32, is_directory: bool) -> Option<String> {
    if owner != 0 && owner != me {
        return Some(format!("belongs to user {owner}, expected user {me} or root"));
    }
    let is_kept = is_directory && mode & STICKY != 0;
    (mode & WRITE != 0 && !is_kept).then(|| format!("has mode {:04o}, so other users may write it", mode & 0o7777))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_user_and_root_may_own_or_write() {
        let of = |owner, mode, is_directory| why(owner, mode, 1000, is_directory);
        for (owner, mode, is_directory) in [
            (1000, 0o600, false),
            (0, 0o644, false),
            (0, 0o755, true),
            (0, 0o1777, true),
            (1000, 0o700, true),
        ] {
            assert_eq!(of(owner, mode, is_directory), None, "{owner} {mode:o}");
        }
        for (owner, mode, is_directory) in [
            (1001, 0o600, false),
            (1001, 0o700, true),
            (1001, 0o1777, true),
            (1000, 0o620, false),
            (0, 0o1602, false),
            (1000, 0o775, true),
            (0, 0o777, true),
        ] {
            assert!(of(owner, mode, is_directory).is_some(), "{owner} {mode:o}");
        }
    }
}
