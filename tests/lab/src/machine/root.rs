//! The machine's root file system: this host's programs with their libraries, kernel
//! modules and scripts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::machine::{
    MachineError,
    archive::{Entry, Tree},
    error::path_error,
    host,
};

/// Programs of the image. They replace busybox's applets of the same name.
pub(crate) const PROGRAMS: &[&str] = &[
    "ip",
    "rdma",
    "ibv_devices",
    "ibv_devinfo",
    "ibv_rc_pingpong",
    "ibv_ud_pingpong",
    "ib_send_lat",
    "ib_send_bw",
    "ib_read_lat",
    "ib_write_lat",
    "ib_atomic_lat",
];

/// Libraries that programs open at run time: for verbs, MADs, and unwinding of threads.
const LIBRARIES: &[&str] = &["libibverbs.so.1", "libibumad.so.3", "libgcc_s.so.1"];

/// Our own files: path in the machine, content, and whether the file is executable.
const OWN: &[(&str, &str, bool)] = &[
    ("init", include_str!("../../guest/init"), true),
    ("etc/lab.sh", include_str!("../../guest/lab.sh"), false),
    ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n", false),
    ("etc/group", "root:x:0:\n", false),
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n", false),
];

/// The file in which libibverbs looks up rxe's provider.
const DRIVER: &str = "/etc/libibverbs.d/rxe.driver";

/// Returns every file of the host that goes into the image: image path, host path.
pub(crate) fn host_files() -> Result<Vec<(String, PathBuf)>, MachineError> {
    let mut files = Vec::new();
    let mut add = |inside: String, path: PathBuf| -> Result<(), MachineError> {
        for library in host::libraries(&path)? {
            files.push((path_in_image(&library), library));
        }
        files.push((inside, path));
        Ok(())
    };
    for name in PROGRAMS.iter().chain(&["busybox"]) {
        add(format!("usr/bin/{name}"), host::needed(name)?)?;
    }
    // Use dash, because busybox's own shell would run busybox's `ip`.
    add("usr/bin/sh".to_owned(), host::needed("dash")?)?;
    for name in LIBRARIES {
        let path = crate::host::library(name).ok_or_else(|| MachineError::NotInstalled {
            missing: format!("the library {name}"),
            remedy: "install: sudo apt-get install -y --no-install-recommends libibverbs1 libibumad3 libgcc-s1"
                .to_owned(),
        })?;
        add(path_in_image(&path), path)?;
    }
    let provider = provider()?;
    add(path_in_image(&provider), provider)?;
    add(DRIVER.trim_start_matches('/').to_owned(), PathBuf::from(DRIVER))?;
    files.sort();
    files.dedup_by(|a, b| a.0 == b.0);
    Ok(files)
}

/// Returns the path of libibverbs' plug-in for rxe. Searches by prefix, because the name contains the version of the
/// interface.
fn provider() -> Result<PathBuf, MachineError> {
    let verbs = crate::host::library("libibverbs.so.1").and_then(|path| Some(path.parent()?.join("libibverbs")));
    let found = verbs.and_then(|directory| {
        let mut entries = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path());
        entries.find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("librxe-"))
        })
    });
    found.ok_or_else(|| MachineError::NotInstalled {
        missing: "rxe's provider (libibverbs/librxe-*.so)".to_owned(),
        remedy: "install: sudo apt-get install -y --no-install-recommends ibverbs-providers".to_owned(),
    })
}

/// Returns the path in the image of a host file. In the image, /bin, /sbin, /lib and /lib64 are links into /usr.
fn path_in_image(path: &Path) -> String {
    let text = path.to_string_lossy();
    let text = text.trim_start_matches('/');
    if ["bin/", "sbin/", "lib/", "lib64/"]
        .iter()
        .any(|top| text.starts_with(top))
    {
        format!("usr/{text}")
    } else {
        text.to_owned()
    }
}

/// Returns the tree of the root file system.
pub(crate) fn tree(files: &[(String, PathBuf)], modules: &Path) -> Result<Tree, MachineError> {
    let mut tree = Tree::default();
    for place in ["bin", "sbin", "lib", "lib64"] {
        tree.put(place, Entry::Link(format!("usr/{place}")));
        tree.put(&format!("usr/{place}"), Entry::Directory);
    }
    for place in ["proc", "sys", "dev", "run", "tmp", "root", "mnt/share"] {
        tree.put(place, Entry::Directory);
    }
    for (inside, path) in files {
        let content = fs::read(path).map_err(path_error("reading", path))?;
        let entry = Entry::File {
            content,
            executable: true,
        };
        tree.put(inside, entry);
    }
    let busybox = host::needed("busybox")?;
    let applets = host::run(
        "listing busybox's programs",
        std::process::Command::new(busybox).arg("--list"),
    )?;
    for applet in String::from_utf8_lossy(&applets).lines() {
        let path = format!("usr/bin/{applet}");
        if !tree.has(&path) && !applet.contains('/') {
            tree.put(&path, Entry::Link("busybox".to_owned()));
        }
    }
    for entry in fs::read_dir(modules).map_err(path_error("listing", modules))? {
        let path = entry.map_err(path_error("listing", modules))?.path();
        let content = fs::read(&path).map_err(path_error("reading", &path))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        tree.put_file(&format!("modules/{name}"), content);
    }
    for &(path, content, executable) in OWN {
        let content = content.as_bytes().to_vec();
        tree.put(path, Entry::File { content, executable });
    }
    Ok(tree)
}

/// Returns the paths and contents of our own files. They are part of the key under which the built image is stored.
pub(crate) fn recipe() -> impl Iterator<Item = &'static str> {
    OWN.iter().flat_map(|(path, content, _)| [*path, *content])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_directories_map_to_usr() {
        assert_eq!(
            path_in_image(Path::new("/lib64/ld-linux-x86-64.so.2")),
            "usr/lib64/ld-linux-x86-64.so.2"
        );
        assert_eq!(path_in_image(Path::new("/usr/lib/libx.so")), "usr/lib/libx.so");
        assert_eq!(path_in_image(Path::new("/library/x")), "library/x");
    }
}
