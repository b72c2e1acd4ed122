//! The C programs in `tests/c`: reference decoders, counterparts of benchmarks, and preloads. The system compiler
//! builds them.
//!
//! The head comment of each source has a line with its linker flags. For a program, the line is `Link with -lfoo.`. For
//! a preload, it is `Build with -shared -fPIC -lfoo.`, and the built file gets the suffix `.so`.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::workspace;

/// Error of building a C program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CProgramError {
    /// The compiler could not be started.
    #[error("the C compiler {compiler} could not be started ({source}); `apt-get install gcc`, or set CC")]
    NoCompiler {
        /// The compiler's command.
        compiler: String,
        /// The error of starting it.
        source: io::Error,
    },
    /// A header or library is missing.
    #[error("{} needs {missing}, which is not installed: `apt-get install {package}`", source_file.display())]
    Missing {
        /// The C source.
        source_file: PathBuf,
        /// The header or library.
        missing: String,
        /// The Debian package that contains the header or library.
        package: &'static str,
    },
    /// The compiler rejected the source.
    #[error("{} does not compile:\n{message}", source_file.display())]
    Refused {
        /// The C source.
        source_file: PathBuf,
        /// The compiler's messages.
        message: String,
    },
    /// A file operation failed.
    #[error("building the C programs: {what}: {source}")]
    Io {
        /// The operation, with its path.
        what: String,
        /// The error of the operation.
        source: io::Error,
    },
    /// The target directory is unknown.
    #[error("building the C programs: {0}")]
    Workspace(String),
}

/// Builds every program in `tests/c` that is missing or older than its source. Returns the directory of the programs:
/// `c` in cargo's target directory.
///
/// Several processes may build at once, because each program gets its final name only when it is complete.
///
/// # Errors
///
/// [`CProgramError`]. If a header or library is missing, the error names the package to install.
pub fn build_c_programs() -> Result<PathBuf, CProgramError> {
    let directory = directory()?;
    build_all(&sources(), &directory)?;
    Ok(directory)
}

/// Builds one program in `tests/c` if it is older than its source, and returns its path.
pub(crate) fn build_c_program(name: &str) -> Result<PathBuf, CProgramError> {
    build(&sources().join(format!("{name}.c")), &directory()?)
}

fn sources() -> PathBuf {
    workspace::root().join("tests/c")
}

fn directory() -> Result<PathBuf, CProgramError> {
    let target = workspace::target_directory().map_err(|error| CProgramError::Workspace(format!("{error:#}")))?;
    Ok(target.join("c"))
}

/// Turns an [`io::Error`] into a [`CProgramError`], for `map_err`.
fn io(what: String) -> impl FnOnce(io::Error) -> CProgramError {
    move |source| CProgramError::Io { what, source }
}

fn build_all(sources: &Path, directory: &Path) -> Result<(), CProgramError> {
    let mut files: Vec<PathBuf> = fs::read_dir(sources)
        .map_err(io(format!("listing {}", sources.display())))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    files.sort();
    files.iter().try_for_each(|source| build(source, directory).map(drop))
}

/// Returns the flags that the head comment names.
fn flags(text: &str) -> Vec<String> {
    let head = text.split("*/").next().unwrap_or_default();
    head.lines()
        .map(|line| line.trim_start_matches([' ', '*', '\t']))
        .find_map(|line| {
            line.strip_prefix("Link with ")
                .or_else(|| line.strip_prefix("Build with "))
        })
        .map(|flags| {
            flags
                .trim_end_matches('.')
                .split_whitespace()
                .map(str::to_owned)
                .collect()
        })
        .unwrap_or_default()
}

fn build(source: &Path, directory: &Path) -> Result<PathBuf, CProgramError> {
    fs::create_dir_all(directory).map_err(io(format!("making {}", directory.display())))?;
    let flags = flags(&fs::read_to_string(source).map_err(io(format!("reading {}", source.display())))?);
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let shared = flags.iter().any(|flag| flag == "-shared");
    let program = directory.join(if shared { format!("{stem}.so") } else { stem.to_string() });
    let modified = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    if modified(&program)
        .zip(modified(source))
        .is_some_and(|(program, source)| program > source)
    {
        return Ok(program);
    }
    let unfinished = directory.join(format!(
        ".{stem}.{}.{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let compiler = env::var("CC")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "cc".to_owned());
    let mut words = compiler.split_whitespace();
    let output = Command::new(words.next().unwrap_or("cc"))
        .args(words)
        .args(["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-o"])
        .arg(&unfinished)
        .arg(source)
        .args(flags)
        .env("LC_ALL", "C")
        .output()
        .map_err(|error| CProgramError::NoCompiler {
            compiler: compiler.clone(),
            source: error,
        })?;
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        let _ = fs::remove_file(&unfinished);
        let source_file = source.to_path_buf();
        return Err(match missing(&message) {
            Some((missing, package)) => CProgramError::Missing {
                source_file,
                missing,
                package,
            },
            None => CProgramError::Refused { source_file, message },
        });
    }
    if !message.is_empty() {
        eprint!("{message}");
    }
    fs::rename(&unfinished, &program).map_err(io(format!("renaming to {}", program.display())))?;
    Ok(program)
}

/// Returns the header or library that the compiler did not find, and its package.
fn missing(message: &str) -> Option<(String, &'static str)> {
    let header = message.lines().find_map(|line| {
        line.split("fatal error: ")
            .nth(1)?
            .strip_suffix(": No such file or directory")
            .map(str::to_owned)
    });
    let library = || {
        message.lines().find_map(|line| {
            let name = line.split("cannot find -l").nth(1)?;
            Some(format!("lib{}", name.split([':', ' ']).next().unwrap_or(name)))
        })
    };
    let missing = header.or_else(library)?;
    let package = match missing.as_str() {
        "infiniband/mad.h" | "infiniband/mad_osd.h" | "libibmad" => "libibmad-dev",
        name if name.starts_with("infiniband/umad") || name == "libibumad" => "libibumad-dev",
        name if name.starts_with("infiniband/") || name == "libibverbs" => "libibverbs-dev",
        name if name.starts_with("rdma/") || name == "librdmacm" => "librdmacm-dev",
        _ => "libc6-dev",
    };
    Some((missing, package))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_come_from_the_head_comment() {
        assert_eq!(
            flags("/*\n * A peer.\n *\n * Link with -libmad -libumad.\n */\nint x;"),
            ["-libmad", "-libumad"]
        );
        assert_eq!(
            flags("/*\n * Build with -shared -fPIC -ldl.\n */"),
            ["-shared", "-fPIC", "-ldl"]
        );
        assert!(flags("int main(void) { return 0; } /* Link with -lnothing. */").is_empty());
    }

    #[test]
    fn rebuilds_only_changed_sources() {
        let place = tempfile::tempdir().unwrap();
        let (sources, built) = (place.path().join("src"), place.path().join("out"));
        fs::create_dir(&sources).unwrap();
        fs::write(sources.join("three.c"), "int main(void) { return 3; }").unwrap();
        fs::write(
            sources.join("pre.c"),
            "/*\n * Build with -shared -fPIC.\n */\nint pre(void) { return 1; }",
        )
        .unwrap();
        build_all(&sources, &built).unwrap();
        assert_eq!(Command::new(built.join("three")).status().unwrap().code(), Some(3));
        assert!(built.join("pre.so").exists());
        let first = fs::metadata(built.join("three")).unwrap().modified().unwrap();
        build_all(&sources, &built).unwrap();
        assert_eq!(fs::metadata(built.join("three")).unwrap().modified().unwrap(), first);
        fs::write(sources.join("three.c"), "int main(void) { return 4; }").unwrap();
        build_all(&sources, &built).unwrap();
        assert_eq!(Command::new(built.join("three")).status().unwrap().code(), Some(4));
        assert_eq!(fs::read_dir(&built).unwrap().count(), 2, "nothing unfinished is left");
    }

    #[test]
    fn names_missing_file_and_package() {
        let header = "x.c:1:10: fatal error: infiniband/mad.h: No such file or directory\n    1 | #include";
        assert_eq!(missing(header), Some(("infiniband/mad.h".to_owned(), "libibmad-dev")));
        let library = "/usr/bin/ld: cannot find -libumad: No such file or directory\ncollect2: error";
        assert_eq!(missing(library), Some(("libibumad".to_owned(), "libibumad-dev")));
        assert_eq!(missing("x.c:3:1: error: expected ';'"), None);
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("x.c"), "#include <no/such/header.h>\n").unwrap();
        let error = build_all(place.path(), &place.path().join("out")).unwrap_err();
        assert!(
            matches!(&error, CProgramError::Missing { missing, .. } if missing == "no/such/header.h"),
            "{error}"
        );
    }
}
