//! The share: what a machine gets from its host, at `/mnt/share`.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use crate::machine::{MachineError, error::path_error, host, place::Place};

/// A directory of its own for one machine's share. It vanishes with this value, so keep it as long as the machine.
///
/// Programs are in `bin`, on the PATH in the machine behind its own; their libraries in `lib`. Put everything there
/// before the boot: the machine caches what it reads.
#[derive(Debug)]
pub struct Share(Place);

impl Share {
    /// An empty one.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn new() -> Result<Self, MachineError> {
        let share = Self(Place::new("share")?);
        for name in ["bin", "lib"] {
            let path = share.path().join(name);
            fs::create_dir(&path).map_err(path_error("making", &path))?;
        }
        Ok(share)
    }

    /// Where it is on the host.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file, with the directories above it, and returns its path in the machine.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf, MachineError> {
        let path = self.path().join(name);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above).map_err(path_error("making", above))?;
        }
        fs::write(&path, content).map_err(path_error("writing", &path))?;
        Ok(Path::new("/mnt/share").join(name))
    }

    /// Copies a program of the host into `bin`, and the libraries that it needs into `lib`, and returns its path in the
    /// machine. Whatever it opens besides must be in the image, or be written here too.
    ///
    /// # Errors
    ///
    /// When it is not there, or needs a library that this host does not have.
    pub fn program(&self, program: &Path) -> Result<PathBuf, MachineError> {
        for library in host::libraries(program)? {
            let name = library.file_name().unwrap_or_default();
            let to = self.path().join("lib").join(name);
            // The loader comes with the image; the others may be of directories that the image's loader does not know.
            if !to.exists() && !name.to_string_lossy().starts_with("ld-linux") {
                fs::copy(&library, &to).map_err(path_error("copying", &library))?;
            }
        }
        let name = program.file_name().ok_or_else(|| MachineError::File {
            path: program.to_path_buf(),
            what: "a program was expected".to_owned(),
        })?;
        let to = self.path().join("bin").join(name);
        fs::copy(program, &to).map_err(path_error("copying", program))?;
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&to, executable).map_err(path_error("marking", &to))?;
        Ok(Path::new("/mnt/share/bin").join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_comes_with_its_libraries() {
        let share = Share::new().unwrap();
        let this = std::env::current_exe().unwrap();
        let inside = share.program(&this).unwrap();
        assert!(inside.starts_with("/mnt/share/bin"));
        let name = inside.file_name().unwrap();
        assert!(share.path().join("bin").join(name).is_file() && share.path().join("lib/libc.so.6").is_file());
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Share::new().unwrap().program(Path::new("/no/such")).unwrap_err();
        assert!(error.to_string().contains("/no/such"), "{error}");
    }
}
