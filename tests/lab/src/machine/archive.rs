//! The root file system as an archive that the kernel unpacks. The format is cpio's "new ASCII" form; see the kernel's
//! `Documentation/driver-api/early-userspace/buffer-format.rst`.
//!
//! The archive is uncompressed, because decompression is slow in an emulated machine.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// The entry at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A directory.
    Directory,
    /// A file with its content and its executable bit.
    File { content: Vec<u8>, executable: bool },
    /// A symbolic link with its target.
    Link(String),
}

/// A tree of files. The key is a relative path with `/` between its parts. Parent directories are added automatically.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree(BTreeMap<String, Entry>);

impl Tree {
    /// Sets the entry at a path, and replaces any previous entry.
    pub(crate) fn put(&mut self, path: &str, entry: Entry) {
        let path = path.trim_start_matches('/');
        for (end, _) in path.match_indices('/') {
            self.0.entry(path[..end].to_owned()).or_insert(Entry::Directory);
        }
        self.0.insert(path.to_owned(), entry);
    }

    /// Sets a file that is not executable.
    pub(crate) fn put_file(&mut self, path: &str, content: Vec<u8>) {
        let executable = false;
        self.put(path, Entry::File { content, executable });
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.0.contains_key(path.trim_start_matches('/'))
    }

    /// Writes the archive. Every file belongs to root and has the epoch as its time, so equal trees give equal
    /// archives.
    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        // Sorted by name, a directory comes before its contents.
        for (number, (path, entry)) in (1_u32..).zip(&self.0) {
            let (mode, content): (u32, &[u8]) = match entry {
                Entry::Directory => (0o040_755, &[]),
                Entry::File {
                    content,
                    executable: true,
                } => (0o100_755, content),
                Entry::File { content, .. } => (0o100_644, content),
                Entry::Link(target) => (0o120_777, target.as_bytes()),
            };
            record(to, number, mode, path, content)?;
        }
        record(to, 0, 0, "TRAILER!!!", &[])
    }
}

/// Writes one file: a header of 110 characters, the name with a NUL, and the content. Name and content are padded to
/// four bytes.
fn record(to: &mut impl Write, number: u32, mode: u32, name: &str, content: &[u8]) -> io::Result<()> {
    let length = u32::try_from(content.len())
        .map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, format!("{name} has 4 GiB or more")))?;
    let name_length = u32::try_from(name.len() + 1).map_err(io::Error::other)?;
    // After the mode come uid, gid, nlink and mtime. After the size come four device numbers, the length of the
    // name, and the checksum, which is 0 in this form.
    write!(to, "070701{number:08x}{mode:08x}{:08x}{:08x}{:08x}{:08x}", 0, 0, 1, 0)?;
    write!(
        to,
        "{length:08x}{:08x}{:08x}{:08x}{:08x}{name_length:08x}{:08x}",
        0, 0, 0, 0, 0
    )?;
    to.write_all(name.as_bytes())?;
    fill(to, 110 + name.len() + 1, 1)?;
    to.write_all(content)?;
    fill(to, content.len(), 0)
}

/// Writes `least` zeros, then the padding of `length` to a multiple of four.
fn fill(to: &mut impl Write, length: usize, least: usize) -> io::Result<()> {
    to.write_all(&[0; 4][..least + length.next_multiple_of(4) - length])
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn tree() -> Tree {
        let mut tree = Tree::default();
        let file = |content: &str, executable| Entry::File {
            content: content.as_bytes().to_vec(),
            executable,
        };
        tree.put("usr/bin/odd", file("12345", true));
        tree.put("/etc/empty", file("", false));
        tree.put("bin", Entry::Link("usr/bin".to_owned()));
        tree
    }

    #[test]
    fn writes_sorted_reproducible_archive() {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        tree().write(&mut first).unwrap();
        tree().write(&mut second).unwrap();
        assert_eq!(first, second);
        assert_eq!(first.len() % 4, 0);
        let names: Vec<&String> = tree().0.keys().cloned().collect::<Vec<_>>().leak().iter().collect();
        assert_eq!(names, ["bin", "etc", "etc/empty", "usr", "usr/bin", "usr/bin/odd"]);
    }

    #[test]
    fn cpio_unpacks_archive() {
        let place = tempfile::tempdir().unwrap();
        let started = Command::new("cpio")
            .args(["--extract", "--quiet", "--make-directories"])
            .current_dir(place.path())
            .stdin(Stdio::piped())
            .spawn();
        let mut cpio = match started {
            Ok(cpio) => cpio,
            Err(error) if std::env::var_os("CI").is_none() => {
                eprintln!("skipped: cpio: {error}; sudo apt-get install -y --no-install-recommends cpio");
                return;
            }
            Err(error) => panic!("cpio: {error}"),
        };
        tree().write(&mut cpio.stdin.take().unwrap()).unwrap();
        assert!(cpio.wait().unwrap().success());
        let read = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap();
        assert_eq!(
            (read("bin/odd"), read("etc/empty")),
            ("12345".to_owned(), String::new())
        );
    }
}
