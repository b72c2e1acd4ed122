//! The host's programs, libraries and packages that a machine uses.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use crate::host::{Package, apt_line, is_there, program};
use crate::machine::{MachineError, error::path_error};

/// The Debian packages that a machine or its build needs.
pub const PACKAGES: &[Package] = &[
    ("qemu-system-x86", "qemu-system-x86_64"),
    ("busybox-static", "busybox"),
    ("kmod", "depmod"),
    ("xz-utils", "xz"),
    ("zstd", "zstd"),
    ("iproute2", "rdma"),
    ("dash", "dash"),
    ("ibverbs-utils", "ibv_devinfo"),
    ("ibverbs-providers", "/etc/libibverbs.d/rxe.driver"),
    ("perftest", "ib_send_lat"),
    ("libibumad3", "libibumad.so.3"),
];

/// Checks that all packages are installed. The error has one command line that installs every missing package.
pub(crate) fn check() -> Result<(), MachineError> {
    if env::consts::ARCH != "x86_64" {
        return Err(MachineError::NotInstalled {
            missing: format!("a host of architecture x86_64 (this one is {})", env::consts::ARCH),
            remedy: "run it on such a host: the machine uses the host's own programs".to_owned(),
        });
    }
    let missing: Vec<&str> = PACKAGES
        .iter()
        .filter(|(_, probe)| !is_there(probe))
        .map(|(package, _)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(MachineError::NotInstalled {
        missing: missing.join(" "),
        remedy: format!("install: {}", apt_line(&missing)),
    })
}

/// Returns the path of a program of the packages that [`check`] checks.
pub(crate) fn needed(name: &str) -> Result<PathBuf, MachineError> {
    program(name).ok_or_else(|| MachineError::NotInstalled {
        missing: format!("the program {name}"),
        remedy: "install its package (find the name with `apt-file search`)".to_owned(),
    })
}

/// Runs a tool to its end and returns its stdout.
pub(crate) fn run(what: &str, command: &mut Command) -> Result<Vec<u8>, MachineError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(crate::machine::error::io_error(format!("{what}: starting {program}")))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(failed(what, command, &output))
}

pub(crate) fn failed(what: &str, command: &Command, output: &Output) -> MachineError {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    MachineError::Tool {
        what: what.to_owned(),
        command: line.join(" "),
        status: format!("ended with {}", output.status),
        said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    }
}

/// Returns whether a file is an ELF file.
pub(crate) fn is_elf(path: &Path) -> Result<bool, MachineError> {
    use std::io::Read as _;
    let mut start = Vec::new();
    let file = fs::File::open(path).map_err(path_error("opening", path))?;
    file.take(4)
        .read_to_end(&mut start)
        .map_err(path_error("reading", path))?;
    Ok(start == b"\x7fELF")
}

/// Returns the shared libraries of a program and its loader, as `ldd` finds them.
pub(crate) fn libraries(path: &Path) -> Result<Vec<PathBuf>, MachineError> {
    if !is_elf(path)? {
        return Ok(Vec::new());
    }
    let mut command = Command::new("ldd");
    let output = command
        .arg(path)
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .map_err(crate::machine::error::io_error("starting ldd (of libc-bin)"))?;
    // For a static program, `ldd` prints a message and fails.
    if !output.status.success() {
        let said = [output.stdout.as_slice(), &output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        if said.contains("not a dynamic executable") || said.contains("statically linked") {
            return Ok(Vec::new());
        }
        return Err(failed("looking for libraries", &command, &output));
    }
    parse_ldd(&String::from_utf8_lossy(&output.stdout)).map_err(|library| MachineError::File {
        path: path.to_path_buf(),
        what: format!("needs the library {library}, which `ldd` does not find; install it"),
    })
}

/// Parses `ldd`'s output. Returns the paths of the libraries, or the name of a library that was not found.
fn parse_ldd(text: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let (name, place) = line.split_once(" => ").unwrap_or((line, line));
        if place.starts_with("not found") {
            return Err(name.to_owned());
        }
        // A line without a path is the kernel's vdso.
        if let Some(path) = place
            .split(" (")
            .next()
            .map(str::trim)
            .filter(|path| path.starts_with('/'))
        {
            found.push(PathBuf::from(path));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_library_paths_from_ldd() {
        let text = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            parse_ldd(text).unwrap(),
            ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from)
        );
        assert_eq!(
            parse_ldd("\tlibnone.so.1 => not found\n"),
            Err("libnone.so.1".to_owned())
        );
    }

    #[test]
    fn only_elf_files_have_libraries() {
        let script = tempfile::NamedTempFile::new().unwrap();
        fs::write(script.path(), "#!/bin/sh\n").unwrap();
        assert_eq!(libraries(script.path()).unwrap(), Vec::<PathBuf>::new());
        let this = env::current_exe().unwrap();
        let found = libraries(&this).unwrap();
        assert!(
            found.iter().any(|path| path.to_string_lossy().contains("ld-linux")),
            "{found:?}"
        );
    }

    #[test]
    fn a_tool_that_fails_is_quoted() {
        let error = run("testing", Command::new("sh").args(["-c", "echo broken >&2; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("testing failed") && text.contains("broken") && text.contains('3'),
            "{text}"
        );
    }
}
