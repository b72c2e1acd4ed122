//! The share: the files that a machine gets from its host, at `/mnt/share`.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use crate::machine::{MachineError, error::path_error, host, place::Place};

/// The directory of one machine's share. Dropping this value removes the directory, so drop it after the machine.
///
/// Programs are in `bin`, which is last on the machine's PATH; their libraries are in `lib`. Add all files before the
/// boot, because the machine caches the share.
#[derive(Debug)]
pub struct Share(Place);

impl Share {
    /// Makes an empty share.
    ///
    /// # Errors
    ///
    /// When the directory cannot be made.
    pub fn new() -> Result<Self, MachineError> {
        let share = Self(Place::new("share")?);
        for name in ["bin", "lib"] {
            let path = share.path().join(name);
            fs::create_dir(&path).map_err(path_error("making", &path))?;
        }
        Ok(share)
    }

    /// Returns the share's path on the host.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file, with its parent directories, and returns its path in the machine.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf, MachineError> {
        let path = self.path().join(name);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above).map_err(path_error("making", above))?;
        }
        fs::write(&path, content).map_err(path_error("writing", &path))?;
        Ok(Path::new("/mnt/share").join(name))
    }

    /// Copies a program of the host into `bin`, and its libraries into `lib`, and returns its path in the machine.
    /// Other files that the program opens must be in the image or the share.
    ///
    /// # Errors
    ///
    /// When the program does not exist, or needs a library that this host does not have.
    pub fn program(&self, program: &Path) -> Result<PathBuf, MachineError> {
        for library in host::libraries(program)? {
            let name = library.file_name().unwrap_or_default();
            let to = self.path().join("lib").join(name);
            // Do not copy the loader, because the image has one. Copy all other libraries, because the image may lack
            // them, or have them in directories that its loader does not search.
            if !to.exists() && !name.to_string_lossy().starts_with("ld-linux") {
                fs::copy(&library, &to).map_err(path_error("copying", &library))?;
            }
        }
        let name = program.file_name().ok_or_else(|| MachineError::File {
            path: program.to_path_buf(),
            what: "expected a program".to_owned(),
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
    fn names_missing_program() {
        let error = Share::new().unwrap().program(Path::new("/no/such")).unwrap_err();
        assert!(error.to_string().contains("/no/such"), "{error}");
    }
}
