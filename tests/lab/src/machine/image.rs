//! The image of a machine. The first caller makes the image for a kernel package, a recipe and a set of host
//! programs, and stores the image for later callers.

use std::{
    env, fs,
    io::{BufWriter, Write as _},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use sha2::{Digest as _, Sha256};

use crate::machine::{
    ChosenKernel, MachineError,
    error::path_error,
    host,
    kernel::{self, Package},
    root,
};
use crate::workspace::root;

/// Version of the recipe. Increase the version when the code makes a different image from the same kernel and
/// files.
const RECIPE: &str = "1";
/// Time for which unused images are stored. Another checkout may still use them.
const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Number of stored console logs.
const CONSOLES: usize = 100;

/// A kernel and a root file system, ready to boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    vmlinux: PathBuf,
    initramfs: PathBuf,
    release: String,
    append: String,
}

/// Returns the directory of images and consoles: `rxe-machine` in cargo's target directory (`CARGO_TARGET_DIR`, or
/// `target` of this workspace).
#[must_use]
pub fn store() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").filter(|path| !path.is_empty());
    root()
        .join(target.map_or_else(|| PathBuf::from("target"), PathBuf::from))
        .join("rxe-machine")
}

/// Returns a fresh path for a console's log, with `name` and this process's id in it. Only the newest 100 logs are
/// stored.
///
/// # Errors
///
/// When the directory cannot be made.
pub fn console_log(name: &str) -> Result<PathBuf, MachineError> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let place = store().join("consoles");
    fs::create_dir_all(&place).map_err(path_error("making", &place))?;
    let mut old: Vec<(SystemTime, PathBuf)> = fs::read_dir(&place)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    old.sort();
    for (_, path) in old.iter().take(old.len().saturating_sub(CONSOLES - 1)) {
        let _ = fs::remove_file(path);
    }
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(place.join(format!("{name}-{}-{count}.log", std::process::id())))
}

/// Returns the store's path, and an exclusive lock on the store. The system releases the lock when this process ends.
pub(crate) fn locked_store() -> Result<(PathBuf, fs::File), MachineError> {
    let store = store();
    fs::create_dir_all(&store).map_err(path_error("making", &store))?;
    let path = store.join("lock");
    let lock = fs::File::create(&path).map_err(path_error("making", &path))?;
    lock.lock().map_err(path_error("locking", &path))?;
    Ok((store, lock))
}

impl Image {
    /// Returns the image, and makes it if there is none. Making it takes seconds and, for a new kernel, a download of
    /// 70 MB. If several processes need the image at the same time, the first makes it and the others wait.
    ///
    /// # Errors
    ///
    /// [`MachineError::NotInstalled`] with the line that installs the missing packages; other errors when a tool or a
    /// system call fails. An unfinished image is removed.
    pub fn ensure() -> Result<Image, MachineError> {
        Image::of(&ChosenKernel::default())
    }

    /// Returns the image with the chosen kernel and modules, and makes it if there is none.
    ///
    /// # Errors
    ///
    /// As [`Image::ensure`], and when a chosen file does not fit.
    pub fn of(chosen: &ChosenKernel) -> Result<Image, MachineError> {
        host::check()?;
        let (store, _lock) = locked_store()?;
        let package = Package::find(&store, chosen)?;
        let ingredients: Vec<&str> = [RECIPE, &package.identity]
            .into_iter()
            .chain(kernel::recipe())
            .collect();
        let kernel = once(&store, "kernel", &ingredients, |place| package.take_apart(place))?;
        let read = |name: &str| {
            let path = kernel.join(name);
            fs::read_to_string(&path).map_err(path_error("reading", &path))
        };
        let release = read("release")?;
        let replaced = chosen.replaced(&read("modules/order")?, &release)?;
        let files = root::host_files()?;
        let mut ingredients: Vec<String> = root::recipe().map(str::to_owned).collect();
        ingredients.extend([RECIPE.to_owned(), kernel.display().to_string(), chosen.key()?]);
        for (inside, path) in &files {
            ingredients.push(format!("{inside} {}", stamp(path)?));
        }
        let ingredients: Vec<&str> = ingredients.iter().map(String::as_str).collect();
        let image = once(&store, "image", &ingredients, |place| {
            let mut tree = root::tree(&files, &kernel.join("modules"))?;
            for (name, path) in &replaced {
                let content = fs::read(path).map_err(path_error("reading", path))?;
                tree.put_file(&format!("modules/{name}"), content);
            }
            tree.put_file("modules/arguments", chosen.arguments().into_bytes());
            let path = place.join("initramfs.cpio");
            let file = fs::File::create(&path).map_err(path_error("making", &path))?;
            let mut file = BufWriter::new(file);
            tree.write(&mut file).map_err(path_error("writing", &path))?;
            file.flush().map_err(path_error("writing", &path))
        })?;
        forget(&store, &[&kernel, &image]);
        Ok(Image {
            vmlinux: kernel.join("vmlinux"),
            initramfs: image.join("initramfs.cpio"),
            release,
            append: chosen.append.clone(),
        })
    }

    /// Returns the text at the end of the kernel's command line.
    pub(crate) fn append(&self) -> &str {
        &self.append
    }

    /// Returns the path of the uncompressed kernel.
    #[must_use]
    pub fn vmlinux(&self) -> &Path {
        &self.vmlinux
    }

    /// Returns the path of the root file system.
    #[must_use]
    pub fn initramfs(&self) -> &Path {
        &self.initramfs
    }

    /// Returns the kernel's release, as `uname -r` prints it in the machine.
    #[must_use]
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Returns whether the image has a program of this name: one of our list of programs, or an applet of busybox.
    #[must_use]
    pub fn has_program(&self, name: &str) -> bool {
        let busybox = || {
            let busybox = crate::host::program("busybox")?;
            host::run("listing", std::process::Command::new(busybox).arg("--list")).ok()
        };
        root::PROGRAMS.contains(&name)
            || busybox().is_some_and(|list| String::from_utf8_lossy(&list).lines().any(|applet| applet == name))
    }
}

/// Returns a file's path, length and modification time, as part of a key. A hash of the contents would take too long.
pub(crate) fn stamp(path: &Path) -> Result<String, MachineError> {
    let file = fs::metadata(path).map_err(path_error("looking at", path))?;
    Ok(format!(
        "{} {} {}.{:09}",
        path.display(),
        file.len(),
        file.mtime(),
        file.mtime_nsec()
    ))
}

/// Returns the directory for these ingredients. If there is none, makes the directory with `make`, completely or
/// not at all.
pub(crate) fn once(
    store: &Path,
    kind: &str,
    ingredients: &[&str],
    make: impl FnOnce(&Path) -> Result<(), MachineError>,
) -> Result<PathBuf, MachineError> {
    let mut hash = Sha256::new();
    for ingredient in ingredients {
        hash.update(ingredient.len().to_le_bytes());
        hash.update(ingredient);
    }
    let digest: String = hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let place = store.join(format!("{kind}-{digest}"));
    if place.is_dir() {
        return Ok(place);
    }
    let building = tempfile::Builder::new().prefix("making-").tempdir_in(store);
    let building = building.map_err(path_error("making a directory in", store))?;
    make(building.path())?;
    let made = building.keep();
    fs::rename(&made, &place).map_err(path_error("naming", &place))?;
    Ok(place)
}

/// Removes old unused images, and unfinished directories of killed processes.
fn forget(store: &Path, used: &[&Path]) {
    for entry in fs::read_dir(store).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_old = || {
            let changed = entry.metadata().and_then(|file| file.modified()).ok();
            changed.is_some_and(|at| at.elapsed().is_ok_and(|age| age > KEPT))
        };
        // We hold the lock, so no process is making an image now.
        let is_half_made = name.starts_with("making-");
        let is_unused = ["kernel-", "image-", "module-"]
            .iter()
            .any(|kind| name.starts_with(kind))
            && !used.contains(&path.as_path())
            && is_old();
        if is_half_made || is_unused {
            let _ = fs::remove_dir_all(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_directory_once_per_ingredients() {
        let store = tempfile::tempdir().unwrap();
        let made = |ingredients: &[&str]| {
            let mut was_made = false;
            let place = once(store.path(), "image", ingredients, |place| {
                was_made = true;
                fs::write(place.join("file"), "content").map_err(path_error("writing", place))
            });
            assert!(place.unwrap().join("file").is_file());
            was_made
        };
        assert!(made(&["a", "b"]));
        assert!(!made(&["a", "b"]));
        assert!(made(&["ab"]), "the ingredients are told apart");
    }

    #[test]
    fn failed_build_leaves_nothing() {
        let store = tempfile::tempdir().unwrap();
        let wrong = || MachineError::File {
            path: "x".into(),
            what: "wrong".to_owned(),
        };
        once(store.path(), "image", &["a"], |_| Err(wrong())).unwrap_err();
        assert_eq!(fs::read_dir(store.path()).unwrap().count(), 0);
    }

    #[test]
    fn removes_unfinished_keeps_recent() {
        let store = tempfile::tempdir().unwrap();
        for name in ["making-x", "image-other", "consoles"] {
            fs::create_dir(store.path().join(name)).unwrap();
        }
        forget(store.path(), &[]);
        let mut left: Vec<_> = fs::read_dir(store.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["consoles", "image-other"]);
    }
}
