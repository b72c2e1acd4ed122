//! Bundles of unknown origin: only regular files in the bundle's directory are opened.

use super::*;

/// Writes a manifest that names one empty file; returns the error of opening the bundle, or an empty string.
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
fn opens_only_regular_files_of_the_bundle() {
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
fn rejects_file_listed_twice() {
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
fn rejects_wrong_size_without_reading() {
    let directory = tempfile::tempdir().unwrap();
    // A sparse file, larger than memory.
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
fn refuses_sizes_before_it_reads() {
    let directory = tempfile::tempdir().unwrap();
    let listed = |name: String, bytes| ManifestFile {
        name,
        bytes,
        sha256: hash(b""),
    };
    let opened = |files: Vec<ManifestFile>| {
        std::fs::write(directory.path().join(MANIFEST), Manifest::sealed(files).to_json()).unwrap();
        Bundle::open_unread(directory.path()).unwrap_err().to_string()
    };
    // The files are sparse and have the listed sizes, so that their hashes would match.
    for (name, bytes) in [
        ("001-a.rec", file::LARGEST_RECORD + 1),
        ("verdicts.json", LARGEST_DOCUMENT + 1),
        ("other", LARGEST_BUNDLE + 1),
    ] {
        File::create(directory.path().join(name))
            .unwrap()
            .set_len(bytes)
            .unwrap();
        let error = opened(vec![listed(name.into(), bytes)]);
        assert!(
            error.contains(&format!("with {bytes} bytes; expected at most")),
            "{error}"
        );
    }
    let records = (0..17).map(|number| listed(format!("{number}.rec"), file::LARGEST_RECORD));
    assert!(opened(records.collect()).contains("its files have"));
    let many = (0..=MOST_FILES).map(|number| listed(number.to_string(), 0));
    assert!(opened(many.collect()).contains("it lists 10001 files; expected at most 10000"));
}

#[test]
fn directory_of_many_files_is_no_bundle() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("manifest.txt"), "").unwrap();
    assert_eq!(naming(directory.path(), "manifest.txt"), "");
    let bundle = Bundle::open(directory.path()).unwrap();
    assert_eq!(bundle.added().unwrap(), [""; 0]);
    for number in 0..MOST_FILES + 4 {
        std::fs::hard_link(
            directory.path().join("manifest.txt"),
            directory.path().join(format!("{number}")),
        )
        .unwrap();
    }
    let error = bundle.added().unwrap_err().to_string();
    assert!(error.contains("it has more than 10004 files"), "{error}");
}

#[test]
fn pipe_does_not_block() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = naming(directory.path(), "pipe");
    assert!(error.contains("expected a plain file"), "{error}");
}

#[test]
fn rejects_manifest_that_is_a_link() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/zero", directory.path().join(MANIFEST)).unwrap();
    let error = Bundle::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("it is no plain file"), "{error}");
}

/// Writes a complete bundle with one large record, and compresses it. Returns the record's bytes.
fn with_packed(directory: &Path) -> Vec<u8> {
    let bytes: Vec<u8> = (0..100_000u32).flat_map(|i| (i % 4001).to_le_bytes()).collect();
    std::fs::write(directory.join("001-t.rec"), &bytes).unwrap();
    let writer = BundleWriter {
        directory: directory.into(),
        records: 1,
    };
    writer.seal().unwrap();
    Bundle::open(directory).unwrap().pack().unwrap();
    bytes
}

#[test]
fn compressed_record_reads_as_the_plain_one() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = with_packed(directory.path());
    let file = std::fs::read(directory.path().join("001-t.rec.zst")).unwrap();
    assert!(file.len() < bytes.len() / 2, "{}", file.len());
    let bundle = Bundle::open(directory.path()).unwrap();
    assert_eq!(bundle.each_record().next().unwrap().bytes().unwrap(), bytes);
    assert_eq!(bundle.added().unwrap(), Vec::<String>::new());
    // If a worker died before it reported the end of its run, the next worker resumes the run.
    std::fs::write(directory.path().join(packed::UNFINISHED), "x").unwrap();
    let resumed = BundleWriter::resume(directory.path(), 1).unwrap();
    assert_eq!(names(resumed.directory()).unwrap(), ["001-t.rec"]);
    resumed.seal().unwrap();
    assert_eq!(Bundle::open(directory.path()).unwrap().sha256(), bundle.sha256());
}

#[test]
fn altered_compressed_record_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    with_packed(directory.path());
    let path = directory.path().join("001-t.rec.zst");
    let file = std::fs::read(&path).unwrap();
    let larger = ruzstd::encoding::compress_to_vec(&[0u8; 1 << 20][..], ruzstd::encoding::CompressionLevel::Fastest);
    for altered in [&file[..0], &file[..file.len() - 9], b"text", &larger] {
        std::fs::write(&path, altered).unwrap();
        let error = Bundle::open(directory.path()).unwrap_err().to_string();
        assert!(error.contains("001-t.rec"), "{error}");
    }
}

#[test]
fn small_file_does_not_decompress_to_a_large_record() {
    let directory = tempfile::tempdir().unwrap();
    let zeros = vec![0; 8 << 20];
    std::fs::write(directory.path().join("001-t.rec"), &zeros).unwrap();
    let writer = BundleWriter::resume(directory.path(), 1).unwrap();
    writer.seal().unwrap();
    // Such a record stays uncompressed.
    Bundle::open(directory.path()).unwrap().pack().unwrap();
    assert_eq!(Bundle::open(directory.path()).unwrap().each_record().count(), 1);
    let path = directory.path().join("001-t.rec");
    let file = ruzstd::encoding::compress_to_vec(&zeros[..], ruzstd::encoding::CompressionLevel::Fastest);
    std::fs::write(packed::packed(&path), &file).unwrap();
    std::fs::remove_file(&path).unwrap();
    let error = Bundle::open(directory.path()).unwrap_err().to_string();
    let words = format!(
        "{} compressed bytes, of which each would give more than 256",
        file.len()
    );
    assert!(error.contains(&words), "{error}");
}

#[test]
fn document_that_cannot_be_read_back_fails_at_write() {
    let directory = tempfile::tempdir().unwrap();
    let writer = BundleWriter::create(directory.path()).unwrap();
    let most = usize::try_from(LARGEST_DOCUMENT).unwrap();
    let error = writer.write("verdicts.json", &"x".repeat(most + 1)).unwrap_err();
    assert!(error.to_string().contains("expected at most 67108864"), "{error}");
    assert!(writer.write("verdicts.json", &"x".repeat(most)).is_ok());
}
