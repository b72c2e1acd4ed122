//! The machine's native InfiniBand adapter: our kernel module `tests/machine/vib`, built for the machine's kernel.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::machine::{
    Image, MachineError,
    error::path_error,
    host::{self, run},
    image::{locked_store, once, stamp},
};
use crate::workspace::root;

/// Returns the path of the module `vib.ko` for the kernel of this image. Builds the module if there is none; the build
/// takes seconds.
///
/// # Errors
///
/// [`MachineError::NotInstalled`] with the line that installs the missing packages; [`MachineError::Tool`] with the
/// compiler's messages.
pub(crate) fn adapter_module(image: &Image) -> Result<PathBuf, MachineError> {
    let release = image.release();
    let headers = PathBuf::from(format!("/usr/src/linux-headers-{release}"));
    if !headers.join("Makefile").is_file() {
        return Err(MachineError::NotInstalled {
            missing: format!("the headers of the machine's kernel ({})", headers.display()),
            remedy: format!(
                "install: sudo apt-get install -y --no-install-recommends linux-headers-{release} (where apt does not \
                 find it: sudo apt-get update)"
            ),
        });
    }
    let sources = sources()?;
    let mut ingredients = vec![release.to_owned(), stamp(&headers.join("Module.symvers"))?];
    for (name, path) in &sources {
        let content = fs::read_to_string(path).map_err(path_error("reading", path))?;
        ingredients.extend([name.clone(), content]);
    }
    let ingredients: Vec<&str> = ingredients.iter().map(String::as_str).collect();
    let (store, _lock) = locked_store()?;
    let made = once(&store, "module", &ingredients, |place| build(&headers, &sources, place))?;
    Ok(made.join("vib.ko"))
}

/// Returns the name and path of each source file of the module, sorted.
fn sources() -> Result<Vec<(String, PathBuf)>, MachineError> {
    let place = root().join("tests/machine/vib");
    let mut found = Vec::new();
    for entry in fs::read_dir(&place).map_err(path_error("listing", &place))? {
        let path = entry.map_err(path_error("listing", &place))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == "Kbuild" || name.ends_with(".c") || name.ends_with(".h") {
            found.push((name, path));
        }
    }
    found.sort();
    Ok(found)
}

fn build(headers: &Path, sources: &[(String, PathBuf)], to: &Path) -> Result<(), MachineError> {
    let work = tempfile::tempdir_in(to).map_err(path_error("making a directory in", to))?;
    for (name, path) in sources {
        fs::copy(path, work.path().join(name)).map_err(path_error("copying", path))?;
    }
    let mut variable = std::ffi::OsString::from("M=");
    variable.push(work.path());
    let mut make = Command::new(host::needed("make")?);
    // Cargo's own make variables must not affect this build.
    make.env_remove("MAKEFLAGS").env_remove("MFLAGS").arg("-C").arg(headers);
    run(
        "building the machine's adapter",
        make.arg(variable).args(["modules", "W=", "KCFLAGS=-Werror"]),
    )?;
    let built = work.path().join("vib.ko");
    // Most of the file is debug information, which would use the machine's memory.
    run(
        "stripping the machine's adapter",
        Command::new(host::needed("strip")?).arg("--strip-debug").arg(&built),
    )?;
    fs::rename(&built, to.join("vib.ko")).map_err(path_error("naming", &built))
}
