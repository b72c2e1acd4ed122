//! Debian packages of client, daemon and agent.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail};

use crate::host::program;
use crate::workspace::{cargo, root, run, target_directory};

/// Files of the folder `systemd/`, each with its path in the package.
type Files = &'static [(&'static str, &'static str)];

#[derive(Debug)]
struct Package {
    name: &'static str,
    /// Cargo's name of the package's program.
    program: &'static str,
    about: &'static str,
    /// Dependencies besides the program's libraries.
    depends: &'static str,
    recommends: &'static str,
    files: Files,
}

const PACKAGES: &[Package] = &[
    Package {
        name: "verbatim",
        program: "verbatim",
        about: "RDMA conformance tester: the command line",
        depends: "",
        recommends: "libibumad3, libibverbs1, ibverbs-providers",
        files: &[],
    },
    Package {
        name: "verbatim-daemon",
        program: "verbatimd",
        about: "RDMA conformance tester: the daemon of a host with rigs",
        depends: ", systemd, init-system-helpers, acl",
        recommends: "verbatim, libibumad3, libibverbs1, ibverbs-providers",
        files: &[
            ("verbatimd.service", "usr/lib/systemd/system/verbatimd.service"),
            ("verbatimd.socket", "usr/lib/systemd/system/verbatimd.socket"),
            (
                "verbatim-worker@.service",
                "usr/lib/systemd/system/verbatim-worker@.service",
            ),
            (
                "verbatim-worker@.socket",
                "usr/lib/systemd/system/verbatim-worker@.socket",
            ),
            ("verbatim.sysusers", "usr/lib/sysusers.d/verbatim-daemon.conf"),
            ("verbatim.tmpfiles", "usr/lib/tmpfiles.d/verbatim-daemon.conf"),
            ("60-verbatim.rules", "usr/lib/udev/rules.d/60-verbatim-daemon.rules"),
            ("debian/rigs.toml", "etc/verbatim/rigs.toml"),
        ],
    },
    Package {
        name: "verbatim-agent",
        program: "verbatim-agent",
        about: "RDMA conformance tester: the agent on the host of a device",
        depends: ", systemd",
        recommends: "libibverbs1, ibverbs-providers",
        files: &[
            (
                "verbatim-agent@.service",
                "usr/lib/systemd/system/verbatim-agent@.service",
            ),
            ("verbatim-agent.sysusers", "usr/lib/sysusers.d/verbatim-agent.conf"),
        ],
    },
];

/// Maintainer scripts that a package may have.
const SCRIPTS: [&str; 4] = ["preinst", "postinst", "prerm", "postrm"];

/// Builds the programs in `profile` and packs them. The packages' version is `version`, or the workspace's version if
/// `None`. Returns the paths of the packages, which are in `debian` of cargo's target directory.
///
/// # Errors
///
/// When a build fails, or a Debian tool is missing or fails.
pub fn build_packages(profile: &str, version: Option<&str>) -> anyhow::Result<Vec<PathBuf>> {
    for (tool, package) in [("dpkg-deb", "dpkg"), ("strip", "binutils")] {
        if program(tool).is_none() {
            bail!("{tool} was not found; install: sudo apt-get install -y --no-install-recommends {package}");
        }
    }
    let mut build = cargo();
    build.args(["build", "--quiet", "--locked", "--profile", profile]);
    build.args(["-p", "verbatim", "-p", "verbatim-daemon", "-p", "verbatim-agent"]);
    run("building what is packed", &mut build)?;
    let target = target_directory()?;
    let binaries = target.join(if profile == "dev" { "debug" } else { profile });
    let version = match version {
        Some(version) => version.to_owned(),
        None => workspace_version()?,
    };
    let to = target.join("debian");
    fs::create_dir_all(&to).with_context(|| format!("making {}", to.display()))?;
    let packed = PACKAGES.iter().map(|package| pack(package, &binaries, &version, &to));
    packed.collect()
}

fn workspace_version() -> anyhow::Result<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).context("reading Cargo.toml")?;
    let found = manifest.lines().find_map(|line| line.strip_prefix("version = "));
    Ok(found.context("Cargo.toml has no version")?.trim_matches('"').to_owned())
}

fn pack(package: &Package, binaries: &Path, version: &str, to: &Path) -> anyhow::Result<PathBuf> {
    let place = tempfile::tempdir_in(to).context("making a directory to pack from")?;
    // Set the mode of the package's root, because mkdtemp's mode is too strict.
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).context("its mode")?;
    let tree = place.path();
    let put = |from: &Path, inside: &str, mode: u32| -> anyhow::Result<()> {
        let path = tree.join(inside);
        let above = path.parent().context("a file lies in a directory")?;
        make(above)?;
        fs::copy(from, &path).with_context(|| format!("copying {} to {}", from.display(), path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).context("setting a mode")
    };
    let built = binaries.join(package.program);
    let inside = format!("usr/bin/{}", package.program);
    put(&built, &inside, 0o755)?;
    // Strip debug information only: backtraces need the symbol names.
    run(
        &format!("packing {}", package.name),
        Command::new("strip").arg("--strip-debug").arg(tree.join(&inside)),
    )?;
    run(
        "man pages and completions",
        Command::new(&built).env("VERBATIM_MANUAL", tree.join("usr/share")),
    )?;
    let sources = root().join("systemd");
    for (file, inside) in package.files {
        put(&sources.join(file), inside, 0o644)?;
    }
    let doc = format!("usr/share/doc/{}", package.name);
    put(&root().join("LICENSE-MIT"), &format!("{doc}/copyright"), 0o644)?;
    put(&root().join("LICENSE-APACHE"), &format!("{doc}/LICENSE-APACHE"), 0o644)?;
    open_directories(tree)?;
    let control = tree.join("DEBIAN");
    make(&control)?;
    for script in SCRIPTS {
        let from = sources.join(format!("debian/{}.{script}", package.name));
        if from.is_file() {
            put(&from, &format!("DEBIAN/{script}"), 0o755)?;
        }
    }
    let conffiles: String = package
        .files
        .iter()
        .filter(|(_, inside)| inside.starts_with("etc/"))
        .map(|(_, inside)| format!("/{inside}\n"))
        .collect();
    if !conffiles.is_empty() {
        fs::write(control.join("conffiles"), conffiles).context("writing conffiles")?;
    }
    let libc = least_libc(&fs::read(&built).with_context(|| format!("reading {}", built.display()))?);
    fs::write(control.join("control"), control_of(package, version, &libc)).context("writing control")?;
    let file = to.join(format!("{}_{version}_amd64.deb", package.name));
    run(
        "making the package",
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zzstd", "-z5", "--build"])
            .arg(tree)
            .arg(&file)
            .stdout(std::process::Stdio::null()),
    )?;
    Ok(file)
}

fn make(directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))
}

/// Sets Debian's usual modes of directories and files, independent of the umask.
fn open_directories(place: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(place).with_context(|| format!("listing {}", place.display()))? {
        let path = entry?.path();
        let mode = fs::metadata(&path)?.permissions().mode();
        if path.is_dir() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
            open_directories(&path)?;
        } else {
            let mode = if mode & 0o100 == 0 { 0o644 } else { 0o755 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        }
    }
    Ok(())
}

fn control_of(package: &Package, version: &str, libc: &str) -> String {
    format!(
        "Package: {}\nVersion: {version}\nArchitecture: amd64\nMaintainer: Verbatim's authors <verbatim@invalid>\n\
         Section: net\nPriority: optional\nDepends: libc6 (>= {libc}), libgcc-s1{}\nRecommends: {}\nDescription: {}\n \
         Drives an RDMA device through conformance tests, records every packet,\n and judges the record against the \
         InfiniBand architecture.\n",
        package.name, package.depends, package.recommends, package.about
    )
}

/// Returns the newest version of libc's symbols that a program needs.
fn least_libc(program: &[u8]) -> String {
    const MARK: &[u8] = b"GLIBC_2.";
    let minor = |place: usize| -> Option<u32> {
        let digits: Vec<u8> = program[place + MARK.len()..]
            .iter()
            .copied()
            .take_while(u8::is_ascii_digit)
            .take(3)
            .collect();
        String::from_utf8(digits).ok()?.parse().ok()
    };
    let places = program.windows(MARK.len()).enumerate().filter(|(_, at)| *at == MARK);
    let newest = places.filter_map(|(place, _)| minor(place)).max();
    format!("2.{}", newest.unwrap_or(17))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depends_on_newest_required_libc() {
        assert_eq!(least_libc(b"..GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_2."), "2.34");
        assert_eq!(least_libc(b"nothing"), "2.17");
    }

    #[test]
    fn packed_files_and_control_are_complete() {
        for package in PACKAGES {
            for (file, _) in package.files {
                assert!(root().join("systemd").join(file).is_file(), "{}: {file}", package.name);
            }
            let text = control_of(package, "1.2", "2.34");
            assert!(
                text.contains(&format!("Package: {}\nVersion: 1.2\n", package.name)),
                "{text}"
            );
            assert!(text.lines().all(|line| !line.is_empty()), "{text}");
        }
    }
}
