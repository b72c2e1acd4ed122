//! Tests of making the image.

use std::{fs, time::SystemTime};

use crate::image;

#[test]
fn an_image_is_made_once() {
    let Some(first) = image() else { return };
    let made = |path| -> SystemTime { fs::metadata(path).unwrap().modified().unwrap() };
    let before = (made(first.vmlinux()), made(first.initramfs()));
    let second = image().unwrap();
    assert_eq!(first, second);
    assert_eq!((made(second.vmlinux()), made(second.initramfs())), before);
}

#[test]
fn lost_image_is_rebuilt_identically() {
    let Some(first) = image() else { return };
    // Use a separate store, because other tests boot from the usual store.
    let place = tempfile::tempdir().unwrap();
    let kernel = first.vmlinux().parent().unwrap();
    let copy = place.path().join("rxe-machine").join(kernel.file_name().unwrap());
    fs::create_dir_all(&copy).unwrap();
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .arg(kernel.join("."))
        .arg(&copy)
        .status();
    assert!(copied.unwrap().success());
    let again = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "image::an_image_is_made_once", "--nocapture"])
        .env("CARGO_TARGET_DIR", place.path())
        .status();
    assert!(again.unwrap().success());
    let made = fs::read_dir(place.path().join("rxe-machine")).unwrap().flatten();
    let made = made
        .map(|entry| entry.path())
        .find(|path| path.file_name().unwrap().to_string_lossy().starts_with("image-"));
    assert!(fs::read(made.unwrap().join("initramfs.cpio")).unwrap() == fs::read(first.initramfs()).unwrap());
}
