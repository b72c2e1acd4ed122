//! `cargo xtask setup`: installs the packages that the lab and the tests use.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    process::{Command, Stdio},
};

use anyhow::bail;

use verbatim_lab::host::{Package, apt_line, is_there, program};
use verbatim_lab::{machine, workspace::run};

/// Packages that labs and tests use, besides the packages for emulated machines.
const PACKAGES: &[Package] = &[
    ("ibsim-utils", "ibsim"),
    ("infiniband-diags", "smpquery"),
    ("opensm", "opensm"),
    ("libibmad-dev", "infiniband/mad.h"),
    ("libibumad-dev", "infiniband/umad.h"),
    ("libibverbs-dev", "infiniband/verbs.h"),
    ("librdmacm-dev", "rdma/rdma_cma.h"),
    ("libclang-dev", "libclang.so"),
    ("pkg-config", "pkg-config"),
    ("gcc", "gcc"),
    ("g++", "g++"),
    ("tshark", "tshark"),
    ("jq", "jq"),
    ("chromium", "chromium"),
    ("openssl", "openssl"),
    ("libxml2-utils", "xmllint"),
    ("perl", "prove"),
    ("python3-jsonschema", "/usr/lib/python3/dist-packages/jsonschema"),
    ("python3-venv", "python3"),
    ("python3-grpcio", "/usr/lib/python3/dist-packages/grpc"),
    ("python3-protobuf", "/usr/lib/python3/dist-packages/google/protobuf"),
    ("python3-pytest", "/usr/lib/python3/dist-packages/pytest"),
    ("binutils", "readelf"),
    ("cpio", "cpio"),
    ("rdma-core", "rdma-ndd"),
    ("linux-headers-amd64", "/usr/src"),
    ("make", "make"),
    ("postgresql", "/usr/lib/postgresql"),
    ("mmdebstrap", "mmdebstrap"),
    ("systemd", "systemd-analyze"),
];

/// Installs missing packages with apt-get if the user is root. Otherwise returns the command to run as an error.
///
/// # Errors
///
/// Returns an error with the command line when a package is missing and this program cannot install it.
pub(crate) fn setup() -> anyhow::Result<()> {
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

/// Returns the names in `packages` that are not installed. A package outside the known lists counts as installed.
pub(crate) fn lacking(packages: &[&'static str]) -> Vec<&'static str> {
    let missing = missing(program("dpkg-query").is_some());
    packages.iter().copied().filter(|name| missing.contains(name)).collect()
}

fn missing(debian: bool) -> Vec<&'static str> {
    let all = PACKAGES.iter().chain(machine::PACKAGES);
    all.filter(|package| !is_installed(package, debian))
        .map(|(name, _)| *name)
        .collect()
}

fn is_installed((name, probe): &Package, debian: bool) -> bool {
    if !debian {
        return is_there(probe);
    }
    let status = Command::new("dpkg-query")
        .args(["--show", "--showformat=${Status}", name])
        .stderr(Stdio::null())
        .output();
    status.is_ok_and(|output| output.stdout == b"install ok installed")
}

fn is_root() -> bool {
    // The owner of /proc/self is the effective user.
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Installs packages with apt-get. Tries twice: apt-get may fail once, and a fresh machine has no package lists.
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
