//! A Debian userland with its systemd, for a machine that is to be administered as any host is.

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

/// The release: that of the packages' own host.
const SUITE: &str = "bookworm";
/// What is in it beside what is essential.
const INCLUDE: &str = "systemd-sysv,udev,dbus,iproute2,passwd,busybox-static,libibverbs1,libibumad3,ibverbs-providers,init-system-helpers,apt";
/// What nobody reads in there is left out: all of it goes into the machine's memory.
const LEFT_OUT: [&str; 3] = ["/usr/share/locale/*", "/usr/share/man/*", "/usr/share/doc/*"];
/// And what comes of installing. $1 is the tree.
const CLEAN: &str =
    r#"rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/usr/share/zoneinfo/* "$1"/usr/lib/udev/hwdb.bin"#;
/// Raised when what is made of the same ingredients changes.
const RECIPE: &str = "2";

/// The userland as an archive, made if there is none yet: that takes a minute or two, and downloads 50 MB.
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
