//! Names this build, for the daemon and its workers to compare: a hash of every source that goes into them and of how
//! they are compiled. The same sources give the same name on every machine.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Where the sources are, from this package on. What is absent counts as empty.
const SOURCES: [&str; 5] = ["src", "../crates", "../proto", "../Cargo.toml", "../Cargo.lock"];

fn main() -> io::Result<()> {
    let mut files = BTreeSet::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        collect(Path::new(source), &mut files)?;
    }
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.hash(&mut hasher);
        fs::read(&file)?.hash(&mut hasher);
    }
    for variable in ["TARGET", "PROFILE", "OPT_LEVEL", "CARGO_ENCODED_RUSTFLAGS"] {
        env::var(variable).unwrap_or_default().hash(&mut hasher);
    }
    println!("cargo::rustc-env=VERBATIM_BUILD={:016x}", hasher.finish());
    Ok(())
}

fn collect(path: &Path, files: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            collect(&entry?.path(), files)?;
        }
    } else if path.is_file() {
        files.insert(path.into());
    }
    Ok(())
}
