//! The packages and programs of this host, and how to install missing ones.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// A Debian package, and one of its files. The file shows without dpkg whether the package, or the same package of
/// another distribution, is installed. The file is an absolute path, a shared library (`libx.so.1`), a header (`x/y.h`)
/// or a program.
pub type Package = (&'static str, &'static str);

/// Returns the command line that installs Debian's `packages`.
#[must_use]
pub fn apt_line(packages: &[&str]) -> String {
    format!("sudo apt-get install -y --no-install-recommends {}", packages.join(" "))
}

/// Returns whether the file of a [`Package`] exists.
#[must_use]
pub fn is_there(probe: &str) -> bool {
    if probe.starts_with('/') {
        Path::new(probe).exists()
    } else if probe.contains(".so") {
        library(probe).is_some()
    } else if probe.ends_with(".h") {
        let places = ["/usr/include", "/usr/local/include"];
        places.iter().any(|place| Path::new(place).join(probe).exists())
    } else {
        program(probe).is_some()
    }
}

/// Returns the path of a program. Searches the PATH, then the directories for system programs, which some users' PATH
/// lacks.
#[must_use]
pub fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}

/// Returns the path of a shared library by its file name. Searches the directory of this machine's architecture and
/// other usual directories.
#[must_use]
pub fn library(name: &str) -> Option<PathBuf> {
    let architecture = match env::consts::ARCH {
        "x86" => "i386",
        "powerpc64" => "powerpc64le",
        same => same,
    };
    let multiarch = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let ours = multiarch.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.split_once('-')
            .is_some_and(|(first, rest)| first == architecture && rest.starts_with("linux-gnu"))
    });
    ours.chain(["/usr/lib64", "/usr/lib", "/lib64", "/lib", "/usr/local/lib"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_apt_line_can_be_copied() {
        assert_eq!(
            apt_line(&["ibsim-utils", "jq"]),
            "sudo apt-get install -y --no-install-recommends ibsim-utils jq"
        );
    }

    #[test]
    fn probes_find_only_installed_files() {
        for there in ["sh", "libc.so.6", "/etc/passwd"] {
            assert!(is_there(there), "{there}");
        }
        for absent in ["no-such-program", "libnone.so.0", "/no/such", "no/such.h"] {
            assert!(!is_there(absent), "{absent}");
        }
    }
}
