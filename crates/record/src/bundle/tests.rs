//! Bundles that somebody else made: nothing is read but plain files of theirs.

use super::*;

/// A bundle whose manifest names this file, truly as far as it can.
fn naming(directory: &Path, name: &str) -> String {
    let listed = ManifestFile {
        name: name.into(),
        bytes: 0,
        sha256: hash(b""),
    };
    std::fs::write(directory.join(MANIFEST), Manifest::sealed(vec![listed]).to_json()).unwrap();
    match Bundle::open(directory) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_manifest_names_plain_files_of_the_bundle_and_nothing_else_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["/dev/zero", "../secret", "..", "", ".hidden", "a/b"] {
        let error = naming(directory.path(), name);
        assert!(
            error.contains("expected names of files within the bundle"),
            "{name:?}: {error}"
        );
    }
    std::os::unix::fs::symlink("/dev/zero", directory.path().join("link")).unwrap();
    std::fs::create_dir(directory.path().join("directory")).unwrap();
    for name in ["link", "directory"] {
        let error = naming(directory.path(), name);
        assert!(error.contains("expected a plain file"), "{name:?}: {error}");
    }
    std::fs::write(directory.path().join("sound"), "").unwrap();
    assert_eq!(naming(directory.path(), "sound"), "");
}

#[test]
fn a_manifest_names_each_file_once() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("sound"), "").unwrap();
    let listed = ManifestFile {
        name: "sound".into(),
        bytes: 0,
        sha256: hash(b""),
    };
    let manifest = Manifest::sealed(vec![listed.clone(), listed]).to_json();
    std::fs::write(directory.path().join(MANIFEST), manifest).unwrap();
    let error = Bundle::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("names \"sound\" twice"), "{error}");
}

#[test]
fn a_file_of_another_size_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    // Far larger than memory, and sparse.
    let large = File::create(directory.path().join("large")).unwrap();
    large.set_len(1 << 42).unwrap();
    let error = naming(directory.path(), "large");
    assert!(error.contains(&format!("found {} bytes", 1u64 << 42)), "{error}");
    let manifest = File::create(directory.path().join(MANIFEST)).unwrap();
    manifest.set_len(1 << 42).unwrap();
    let error = Bundle::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("expected at most"), "{error}");
}

#[test]
fn a_pipe_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = naming(directory.path(), "pipe");
    assert!(error.contains("expected a plain file"), "{error}");
}

#[test]
fn a_manifest_that_is_no_plain_file_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/zero", directory.path().join(MANIFEST)).unwrap();
    let error = Bundle::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("it is no plain file"), "{error}");
}
