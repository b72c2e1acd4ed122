//! A Debian userland with systemd, for a machine that is administered like any host.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::machine::{
    MachineError,
    error::path_error,
    host::{self, run},
    image::{locked_store, once},
};

/// The Debian release.
const SUITE: &str = "bookworm";
/// The packages beyond the essential ones.
const INCLUDE: &str = "systemd-sysv,udev,dbus,iproute2,passwd,busybox-static,libibverbs1,libibumad3,ibverbs-providers,init-system-helpers,apt,acl,perftest";
/// Path patterns that are not installed, to save memory: the machine holds all files in memory.
const LEFT_OUT: [&str; 3] = ["/usr/share/locale/*", "/usr/share/man/*", "/usr/share/doc/*"];
/// Shell code that removes unneeded files from the tree $1.
const CLEAN: &str =
    r#"rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/usr/share/zoneinfo/* "$1"/usr/lib/udev/hwdb.bin"#;
/// Version of the recipe. Increase the version when the code makes a different archive from the same constants.
const RECIPE: &str = "2";

/// Returns the path of the userland's archive, and makes the archive if there is none. Making it takes a minute or two,
/// and downloads 50 MB.
///
/// # Errors
///
/// When mmdebstrap is missing or fails.
pub(crate) fn debian() -> Result<PathBuf, MachineError> {
    let (store, _lock) = locked_store()?;
    let ingredients: Vec<&str> = [RECIPE, SUITE, INCLUDE, CLEAN].into_iter().chain(LEFT_OUT).collect();
    let place = once(&store, "debian", &ingredients, |place| make(&place.join("debian.tar")))?;
    Ok(place.join("debian.tar"))
}

fn make(archive: &Path) -> Result<(), MachineError> {
    let mut command = Command::new(host::needed("mmdebstrap")?);
    command.args(["--variant=essential", "--quiet", &format!("--include={INCLUDE}")]);
    for pattern in LEFT_OUT {
        command.arg(format!("--dpkgopt=path-exclude={pattern}"));
    }
    command.arg("--dpkgopt=force-unsafe-io");
    command.arg(format!("--customize-hook={CLEAN}"));
    command.arg(SUITE).arg(archive);
    run("making a Debian userland", &mut command)?;
    fs::metadata(archive).map_err(path_error("looking at", archive))?;
    Ok(())
}
