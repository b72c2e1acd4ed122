//! `cargo xtask setup`: the packages that the lab and the tests use.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::bail;

use crate::workspace::{program, run};

/// A Debian package, and how to see without dpkg that it, or another distribution's equal, is there.
struct Package {
    name: &'static str,
    probe: Probe,
}

enum Probe {
    Program(&'static str),
    File(&'static str),
    Header(&'static str),
    Library(&'static str),
}

use Probe::{File, Header, Library, Program};

const PACKAGES: &[Package] = &[
    Package {
        name: "ibsim-utils",
        probe: Program("ibsim"),
    },
    Package {
        name: "infiniband-diags",
        probe: Program("smpquery"),
    },
    Package {
        name: "libibumad3",
        probe: Library("libibumad.so.3"),
    },
    Package {
        name: "opensm",
        probe: Program("opensm"),
    },
    Package {
        name: "libibmad-dev",
        probe: Header("infiniband/mad.h"),
    },
    Package {
        name: "libibumad-dev",
        probe: Header("infiniband/umad.h"),
    },
    Package {
        name: "libibverbs-dev",
        probe: Header("infiniband/verbs.h"),
    },
    Package {
        name: "librdmacm-dev",
        probe: Header("rdma/rdma_cma.h"),
    },
    Package {
        name: "libclang-dev",
        probe: Library("libclang.so"),
    },
    Package {
        name: "pkg-config",
        probe: Program("pkg-config"),
    },
    Package {
        name: "gcc",
        probe: Program("gcc"),
    },
    Package {
        name: "g++",
        probe: Program("g++"),
    },
    Package {
        name: "tshark",
        probe: Program("tshark"),
    },
    Package {
        name: "jq",
        probe: Program("jq"),
    },
    Package {
        name: "python3-venv",
        probe: Program("python3"),
    },
    Package {
        name: "binutils",
        probe: Program("readelf"),
    },
    Package {
        name: "qemu-system-x86",
        probe: Program("qemu-system-x86_64"),
    },
    Package {
        name: "busybox-static",
        probe: Program("busybox"),
    },
    Package {
        name: "cpio",
        probe: Program("cpio"),
    },
    Package {
        name: "kmod",
        probe: Program("depmod"),
    },
    Package {
        name: "xz-utils",
        probe: Program("xz"),
    },
    Package {
        name: "zstd",
        probe: Program("zstd"),
    },
    Package {
        name: "iproute2",
        probe: Program("rdma"),
    },
    Package {
        name: "dash",
        probe: Program("dash"),
    },
    Package {
        name: "ibverbs-utils",
        probe: Program("ibv_devinfo"),
    },
    Package {
        name: "ibverbs-providers",
        probe: File("/etc/libibverbs.d/rxe.driver"),
    },
    Package {
        name: "rdma-core",
        probe: Program("rdma-ndd"),
    },
    Package {
        name: "perftest",
        probe: Program("ib_send_lat"),
    },
];

/// Installs what is missing, with apt-get, as root; otherwise says what to type.
///
/// # Errors
///
/// When something is missing and could not be, or may not be, installed from here. The error has the command line.
pub fn setup() -> anyhow::Result<()> {
    let debian = program("apt-get").is_some() && program("dpkg-query").is_some();
    let missing = missing(debian);
    if missing.is_empty() {
        eprintln!("xtask: every package of the lab is installed");
        return Ok(());
    }
    if !debian {
        bail!(
            "not found on this machine, which has no apt-get: {}. These are Debian's names; install your \
             distribution's packages of the same content. On Debian: {}",
            missing.join(" "),
            apt_line(&missing)
        );
    }
    if !is_root() {
        bail!(
            "packages are missing, and installing them needs root: {}",
            apt_line(&missing)
        );
    }
    install(&missing)?;
    let still = self::missing(debian);
    if !still.is_empty() {
        bail!(
            "apt-get succeeded, yet these are not installed: {}; look at `apt-cache policy`",
            still.join(" ")
        );
    }
    Ok(())
}

/// The command line that installs `packages`.
pub fn apt_line(packages: &[&str]) -> String {
    format!("sudo apt-get install -y --no-install-recommends {}", packages.join(" "))
}

/// Which of these packages are not here. None that the list does not have is.
pub fn lacking(packages: &[&'static str]) -> Vec<&'static str> {
    let missing = missing(program("dpkg-query").is_some());
    packages.iter().copied().filter(|name| missing.contains(name)).collect()
}

fn missing(debian: bool) -> Vec<&'static str> {
    PACKAGES
        .iter()
        .filter(|package| !is_there(package, debian))
        .map(|package| package.name)
        .collect()
}

fn is_there(package: &Package, debian: bool) -> bool {
    if debian {
        let status = Command::new("dpkg-query")
            .args(["--show", "--showformat=${Status}", package.name])
            .stderr(Stdio::null())
            .output();
        return status.is_ok_and(|output| output.stdout == b"install ok installed");
    }
    match package.probe {
        Program(name) => program(name).is_some(),
        File(path) => Path::new(path).exists(),
        Header(name) => ["/usr/include", "/usr/local/include"]
            .iter()
            .any(|place| Path::new(place).join(name).exists()),
        Library(name) => library(name),
    }
}

/// Whether a shared library lies in one of the usual directories.
fn library(name: &str) -> bool {
    let direct = ["/usr/lib64", "/usr/lib", "/lib64", "/lib", "/usr/local/lib"];
    let multiarch = fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    direct
        .iter()
        .map(|place| Path::new(place).to_path_buf())
        .chain(multiarch)
        .any(|place| place.join(name).exists())
}

fn is_root() -> bool {
    // The owner of /proc/self is the effective user.
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// apt-get can fail once for reasons of its own, and on a fresh machine for want of package lists: so twice.
fn install(packages: &[&str]) -> anyhow::Result<()> {
    let install = || {
        let mut command = Command::new("apt-get");
        command
            .args(["install", "-y", "--no-install-recommends"])
            .args(packages)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null());
        command
    };
    if run("installing the lab's packages", &mut install()).is_ok() {
        return Ok(());
    }
    run(
        "updating the package lists",
        Command::new("apt-get").arg("update").stdin(Stdio::null()),
    )?;
    run("installing the lab's packages, second try", &mut install())
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
    fn every_package_that_the_machine_is_made_of_is_installed() {
        for (package, _) in verbatim_machine::PACKAGES {
            assert!(PACKAGES.iter().any(|ours| ours.name == *package), "{package}");
        }
    }

    #[test]
    fn probes_find_what_every_machine_has_and_nothing_else() {
        let there = |probe| is_there(&Package { name: "x", probe }, false);
        assert!(there(Program("sh")) && there(Library("libc.so.6")));
        assert!(there(File("/etc/passwd")) && !there(File("/no/such")));
        assert!(!there(Program("no-such-program")) && !there(Header("no/such.h")) && !there(Library("libnone.so.0")));
    }
}
