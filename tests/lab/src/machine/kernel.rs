//! Debian's kernel package: extracts the uncompressed kernel and the modules that the machine loads.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::machine::{
    ChosenKernel, MachineError,
    error::path_error,
    host::{self, run},
    image, vmlinux,
};

/// Environment variable with the path of a kernel package, which replaces apt's package.
const OVERRIDE: &str = "VERBATIM_LAB_RXE_KERNEL";

/// Directory of apt's package lists. Its modification time changes when apt gets new lists.
const LISTS: &str = "/var/lib/apt/lists";

/// Modules in the order of loading, each after its dependencies. The flag is true if the kernel must have the
/// module. A module without the flag is left out if the kernel does not have it. A built-in module needs no file.
const MODULES: &[(&str, bool)] = &[
    ("virtio_pci", true),
    ("virtio_console", true),
    ("9pnet_virtio", true),
    ("9p", true),
    ("virtio_net", true),
    ("veth", true),
    // rxe uses crc32 from the crypto layer.
    ("crc32_pclmul", false),
    ("crc32_generic", false),
    ("rdma_rxe", true),
    ("ib_umad", true),
    ("rdma_ucm", true),
];

/// Returns the names of the modules. They are part of the kernel directory's key.
pub(crate) fn recipe<'a>() -> impl Iterator<Item = &'a str> {
    MODULES.iter().map(|(name, _)| *name)
}

/// A kernel package.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    /// Unique key of the package: name and version, or the file's path, length and modification time.
    pub(crate) identity: String,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Apt(String),
    File(PathBuf),
    /// A bzImage, and the directory above its `lib/modules`.
    Built(PathBuf, PathBuf),
}

impl Package {
    /// Returns the package that apt would install as Debian's kernel, or the file that the environment names. A query
    /// to apt takes more than a second of processor time, so the result is stored in `store` until apt's lists change.
    pub(crate) fn find(store: &Path, chosen: &ChosenKernel) -> Result<Package, MachineError> {
        if let Some((kernel, modules)) = &chosen.built {
            let release = modules.join("lib/modules");
            return Ok(Package {
                identity: format!("{} {}", image::stamp(kernel)?, image::stamp(&release)?),
                source: Source::Built(kernel.clone(), modules.clone()),
            });
        }
        if let Some(path) = &chosen.deb {
            return Ok(Package {
                identity: image::stamp(path)?,
                source: Source::File(path.clone()),
            });
        }
        if let Some(path) = env::var_os(OVERRIDE).filter(|path| !path.is_empty()).map(PathBuf::from) {
            if !path.is_file() {
                return Err(MachineError::File {
                    path,
                    what: format!(
                        "{OVERRIDE} names it as the kernel package, but the file does not exist; correct or unset \
                         {OVERRIDE}"
                    ),
                });
            }
            return Ok(Package {
                identity: image::stamp(&path)?,
                source: Source::File(path),
            });
        }
        for tool in ["apt-cache", "apt-get", "dpkg-deb"] {
            if crate::host::program(tool).is_none() {
                return Err(MachineError::NotInstalled {
                    missing: format!("{tool}, to get Debian's kernel package"),
                    remedy: format!("run it on Debian, or set {OVERRIDE} to the file of a linux-image package"),
                });
            }
        }
        let no_lists = || MachineError::NotInstalled {
            missing: "apt's package lists with linux-image-amd64".to_owned(),
            remedy: "get them: sudo apt-get update".to_owned(),
        };
        let kept = store.join("apt");
        let lists = image::stamp(Path::new(LISTS)).map_err(|_| no_lists())?;
        let known = fs::read_to_string(&kept).unwrap_or_default();
        let known = known.strip_prefix(&lists).and_then(|rest| rest.strip_prefix('\n'));
        if let Some(identity) = known
            && let Some((name, _)) = identity.split_once(' ')
        {
            return Ok(Package {
                identity: identity.to_owned(),
                source: Source::Apt(name.to_owned()),
            });
        }
        let name = apt_cache(&["depends", "linux-image-amd64"], "Depends:")?.ok_or_else(no_lists)?;
        let version = apt_cache(&["show", "--no-all-versions", &name], "Version:")?.ok_or_else(no_lists)?;
        let identity = format!("{name} {version}");
        fs::write(&kept, format!("{lists}\n{identity}")).map_err(path_error("writing", &kept))?;
        Ok(Package {
            identity,
            source: Source::Apt(name),
        })
    }

    /// Extracts `vmlinux`, `release`, and `modules/` with the modules and their `order` into the directory `to`.
    pub(crate) fn take_apart(&self, to: &Path) -> Result<(), MachineError> {
        let work = tempfile::tempdir_in(to).map_err(path_error("making a directory in", to))?;
        let tree = work.path().join("tree");
        let (release, boot) = match &self.source {
            Source::File(path) => unpack(path, &tree)?,
            Source::Apt(name) => unpack(&download(name, work.path())?, &tree)?,
            Source::Built(kernel, modules) => (linked(modules, &tree)?, kernel.clone()),
        };
        vmlinux::extract(&boot, &to.join("vmlinux"))?;
        modules(&tree, &release, &to.join("modules"))?;
        let file = to.join("release");
        fs::write(&file, release).map_err(path_error("writing", &file))
    }
}

/// Unpacks a kernel package. Returns the kernel's release, and the path of its bzImage.
fn unpack(package: &Path, tree: &Path) -> Result<(String, PathBuf), MachineError> {
    run(
        "unpacking the kernel package",
        Command::new("dpkg-deb").arg("--extract").arg(package).arg(tree),
    )?;
    let wrong = |what: &str| MachineError::File {
        path: package.to_owned(),
        what: format!("{what}; expected a Debian linux-image package of amd64"),
    };
    let release = only_entry(&tree.join("lib/modules")).ok_or_else(|| wrong("it has no lib/modules/RELEASE"))?;
    let boot = tree.join(format!("boot/vmlinuz-{release}"));
    if !boot.is_file() {
        return Err(wrong(&format!("it has no boot/vmlinuz-{release}")));
    }
    Ok((release, boot))
}

/// Makes `tree/lib/modules/RELEASE` with links to the user's modules, so that depmod does not write to the user's
/// directory. Returns the release.
fn linked(modules: &Path, tree: &Path) -> Result<String, MachineError> {
    let from = modules.join("lib/modules");
    let release = only_entry(&from).ok_or_else(|| MachineError::File {
        path: from.clone(),
        what: "expected one directory here, named after the kernel's release (make modules_install \
               INSTALL_MOD_PATH=DIR)"
            .to_owned(),
    })?;
    let from = from.join(&release);
    let to = tree.join("lib/modules").join(&release);
    fs::create_dir_all(&to).map_err(path_error("making", &to))?;
    for entry in fs::read_dir(&from).map_err(path_error("listing", &from))? {
        let path = entry.map_err(path_error("listing", &from))?.path();
        let path = fs::canonicalize(&path).map_err(path_error("looking at", &path))?;
        let name = path.file_name().unwrap_or_default();
        let is_made_by_depmod = name.to_string_lossy().starts_with("modules.")
            && !name.to_string_lossy().starts_with("modules.builtin")
            && name != "modules.order";
        if !is_made_by_depmod && name != "build" && name != "source" {
            let link = to.join(name);
            std::os::unix::fs::symlink(&path, &link).map_err(path_error("linking", &link))?;
        }
    }
    Ok(release)
}

/// Returns the text after the first `key` in apt-cache's output.
fn apt_cache(arguments: &[&str], key: &str) -> Result<Option<String>, MachineError> {
    // For an unknown package the output lacks the key, so ignore apt-cache's exit code.
    let output = Command::new("apt-cache")
        .args(arguments)
        .env("LC_ALL", "C")
        .output()
        .map_err(crate::machine::error::io_error("starting apt-cache"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text.lines().find_map(|line| line.trim().strip_prefix(key));
    Ok(found.map(|word| word.trim().to_owned()))
}

/// Downloads a package. Tries twice, because apt sometimes fails once.
fn download(name: &str, to: &Path) -> Result<PathBuf, MachineError> {
    let place = to.join("package");
    fs::create_dir(&place).map_err(path_error("making", &place))?;
    let get = || {
        run(
            "downloading the kernel package (are the package lists old? sudo apt-get update)",
            Command::new("apt-get").args(["download", name]).current_dir(&place),
        )
    };
    get().or_else(|_| get())?;
    only_entry(&place)
        .map(|file| place.join(file))
        .ok_or_else(|| MachineError::File {
            path: place.clone(),
            what: format!("expected one package {name} here after `apt-get download`"),
        })
}

/// Returns the name of a directory's entry, if the directory has exactly one entry.
fn only_entry(directory: &Path) -> Option<String> {
    let mut entries = fs::read_dir(directory).ok()?;
    let only = entries.next()?.ok()?;
    entries
        .next()
        .is_none()
        .then(|| only.file_name().to_string_lossy().into_owned())
}

/// Copies the decompressed modules, and writes a list of their loading order.
fn modules(tree: &Path, release: &str, to: &Path) -> Result<(), MachineError> {
    run(
        "reading the modules' dependencies",
        Command::new(host::needed("depmod")?).arg("-b").arg(tree).arg(release),
    )?;
    fs::create_dir(to).map_err(path_error("making", to))?;
    let mut order: Vec<String> = Vec::new();
    for (module, is_needed) in MODULES {
        let shown = run(
            "listing modules",
            Command::new(host::needed("modprobe")?)
                .arg("-d")
                .arg(tree)
                .args(["-S", release, "--show-depends", module]),
        );
        let shown = match shown {
            Err(_) if !is_needed => continue,
            shown => shown?,
        };
        let shown = String::from_utf8_lossy(&shown).into_owned();
        for path in shown.lines().filter_map(|line| line.strip_prefix("insmod ")) {
            // Parameters may follow the path.
            let path = Path::new(path.split(' ').next().unwrap_or(path));
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let (name, content) = match name.rsplit_once('.') {
                Some((bare, "xz")) => (bare.to_owned(), run_on(&["xz", "-dc"], path)?),
                Some((bare, "zst")) => (bare.to_owned(), run_on(&["zstd", "-dcq"], path)?),
                _ => (name, fs::read(path).map_err(path_error("reading", path))?),
            };
            if !order.contains(&name) {
                let file = to.join(&name);
                fs::write(&file, content).map_err(path_error("writing", &file))?;
                order.push(name);
            }
        }
    }
    let file = to.join("order");
    fs::write(&file, order.join("\n") + "\n").map_err(path_error("writing", &file))
}

fn run_on(line: &[&str], path: &Path) -> Result<Vec<u8>, MachineError> {
    run(
        "expanding a module",
        Command::new(line[0]).args(&line[1..]).arg("--").arg(path),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_invalid_package() {
        if crate::host::program("dpkg-deb").is_none() {
            eprintln!("skipped: no dpkg-deb");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("nonsense.deb");
        fs::write(&path, "nonsense").unwrap();
        let package = Package {
            identity: "nonsense".to_owned(),
            source: Source::File(path),
        };
        let to = place.path().join("to");
        fs::create_dir(&to).unwrap();
        let error = package.take_apart(&to).unwrap_err().to_string();
        assert!(
            error.contains("unpacking the kernel package") && error.contains("nonsense.deb"),
            "{error}"
        );
        assert_eq!(only_entry(&to), None, "nothing is left behind");
    }

    #[test]
    fn only_entry_requires_exactly_one() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(only_entry(place.path()), None);
        fs::write(place.path().join("a"), "").unwrap();
        assert_eq!(only_entry(place.path()).as_deref(), Some("a"));
        fs::write(place.path().join("b"), "").unwrap();
        assert_eq!(only_entry(place.path()), None);
    }
}
