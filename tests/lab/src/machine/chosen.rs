//! The kernel that a machine boots: Debian's, or a kernel and modules that the user brings.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::machine::{
    MachineError,
    host::{self, run},
    image,
};

/// A kernel with its modules. The default is Debian's kernel package, unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChosenKernel {
    /// A linux-image package, in place of Debian's newest.
    pub deb: Option<PathBuf>,
    /// A bzImage, and the directory of its modules: `lib/modules/RELEASE` is below it (`make modules_install
    /// INSTALL_MOD_PATH=DIRECTORY`).
    pub built: Option<(PathBuf, PathBuf)>,
    /// Modules that replace the kernel's modules of the same file name.
    pub modules: Vec<PathBuf>,
    /// Parameters of the modules in `modules`, as insmod takes them.
    pub module_arguments: String,
    /// Text at the end of the kernel's command line.
    pub append: String,
}

impl ChosenKernel {
    /// Returns whether this is Debian's kernel, unchanged.
    #[must_use]
    pub fn is_stock(&self) -> bool {
        *self == ChosenKernel::default()
    }

    /// Returns the user's modules, which replace the kernel's: the name in `/modules`, and the path of the file.
    ///
    /// # Errors
    ///
    /// When a module does not exist, is not one that the machine loads, or was built for another kernel.
    pub(super) fn replaced(&self, order: &str, release: &str) -> Result<Vec<(String, PathBuf)>, MachineError> {
        let mut replaced = Vec::new();
        for path in &self.modules {
            let wrong = |what: String| MachineError::File {
                path: path.clone(),
                what,
            };
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !path.is_file() {
                return Err(wrong("this module does not exist".to_owned()));
            }
            if !order.lines().any(|module| module == name) {
                let loaded = order.lines().collect::<Vec<_>>().join(", ");
                return Err(wrong(format!(
                    "the machine does not load this module; it loads {loaded}"
                )));
            }
            let built_for = built_for(path)?;
            if built_for != release {
                return Err(wrong(format!(
                    "this module was built for the kernel {built_for}, but the machine boots {release}; give that \
                     kernel with --deb FILE, or with --bzimage FILE --modules DIR"
                )));
            }
            replaced.push((name, path.clone()));
        }
        Ok(replaced)
    }

    /// Returns the content of `/modules/arguments`: a line for each of the user's modules, with its parameters.
    pub(super) fn arguments(&self) -> String {
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let line = |path| format!("{} {}\n", name(path), self.module_arguments);
        self.modules.iter().map(line).collect()
    }

    /// Returns a key that differs for different files and parameters.
    pub(super) fn key(&self) -> Result<String, MachineError> {
        let mut key = self.arguments();
        for path in &self.modules {
            key.push_str(&image::stamp(path)?);
        }
        Ok(key)
    }
}

/// Returns the release of the kernel for which a module was built.
fn built_for(module: &Path) -> Result<String, MachineError> {
    let shown = run(
        "reading the module's vermagic",
        Command::new(host::needed("modinfo")?)
            .args(["-F", "vermagic"])
            .arg(module),
    )?;
    let shown = String::from_utf8_lossy(&shown);
    Ok(shown.split_whitespace().next().unwrap_or("unknown").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_module_that_is_not_loaded() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("siw.ko");
        std::fs::write(&path, "").unwrap();
        let kernel = ChosenKernel {
            modules: vec![path],
            ..ChosenKernel::default()
        };
        let error = kernel.replaced("ib_core.ko\nrdma_rxe.ko\n", "6.1").unwrap_err();
        assert!(
            error.to_string().contains("it loads ib_core.ko, rdma_rxe.ko"),
            "{error}"
        );
        assert!(!kernel.is_stock());
    }

    #[test]
    fn arguments_name_each_module() {
        let kernel = ChosenKernel {
            modules: vec!["/a/rdma_rxe.ko".into()],
            module_arguments: "x=1 y=2".to_owned(),
            ..ChosenKernel::default()
        };
        assert_eq!(kernel.arguments(), "rdma_rxe.ko x=1 y=2\n");
    }
}
