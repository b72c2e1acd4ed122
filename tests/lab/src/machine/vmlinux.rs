//! Extracts the uncompressed kernel from a bzImage. QEMU can start it without firmware.
//!
//! The kernel's `Documentation/arch/x86/boot.rst` describes the header.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    thread,
};

use crate::machine::{
    MachineError,
    error::{io_error, path_error},
    host,
};

/// Magic bytes of the compressed kernel, and the command that decompresses it.
const FORMS: &[(&[u8], &[&str])] = &[
    // The stream is followed by four bytes, the uncompressed length.
    (b"\xfd7zXZ\0", &["xz", "--decompress", "--stdout", "--single-stream"]),
    (b"\x28\xb5\x2f\xfd", &["zstd", "--decompress", "--stdout", "--quiet"]),
    (b"\x1f\x8b", &["gzip", "--decompress", "--stdout"]),
];

/// Writes the kernel inside the bzImage `from` to the file `to`.
pub(crate) fn extract(from: &Path, to: &Path) -> Result<(), MachineError> {
    let image = fs::read(from).map_err(path_error("reading", from))?;
    let wrong = |what: String| MachineError::File {
        path: from.to_path_buf(),
        what,
    };
    let payload = payload(&image).map_err(wrong)?;
    let (_, line) = FORMS
        .iter()
        .find(|(magic, _)| payload.starts_with(magic))
        .ok_or_else(|| {
            wrong(format!(
                "its compressed kernel begins with {:02x?}; expected xz, zstd or gzip",
                &payload[..payload.len().min(6)]
            ))
        })?;
    // The kernel's build appends the uncompressed length to the stream. gzip is the exception, because its own
    // format ends with this length.
    let (stream, length) = payload
        .split_last_chunk::<4>()
        .ok_or_else(|| wrong("its kernel is cut short".to_owned()))?;
    let stream = if line[0] == "gzip" { payload } else { stream };
    let kernel = expand(line, stream)?;
    if !kernel.starts_with(b"\x7fELF") {
        return Err(wrong(format!(
            "expected an ELF file inside, seen {:02x?}",
            &kernel[..kernel.len().min(4)]
        )));
    }
    let expected = u32::from_le_bytes(*length);
    if kernel.len() != expected as usize {
        return Err(wrong(format!(
            "its kernel has {} bytes; expected {expected}",
            kernel.len()
        )));
    }
    fs::write(to, kernel).map_err(path_error("writing", to))
}

/// Returns the compressed kernel.
fn payload(image: &[u8]) -> Result<&[u8], String> {
    let number = |at: usize| {
        let bytes: [u8; 4] = image.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    if image.get(0x202..0x206) != Some(b"HdrS") {
        return Err("expected a bzImage, with \"HdrS\" at 0x202; seen other bytes there".to_owned());
    }
    // A setup size of 0 sectors means 4, for compatibility. The boot sector comes before the setup.
    let sectors = match image[0x1f1] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let range = || {
        let start = ((sectors + 1) * 512).checked_add(number(0x248)?)?;
        Some(start..start.checked_add(number(0x24c)?)?)
    };
    range()
        .and_then(|range| image.get(range))
        .filter(|payload| !payload.is_empty())
        .ok_or_else(|| "its header points beyond the end of the file: the file is cut short".to_owned())
}

/// Feeds a stream to a command and returns its output.
fn expand(line: &[&str], stream: &[u8]) -> Result<Vec<u8>, MachineError> {
    let mut command = Command::new(line[0]);
    command
        .args(&line[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(io_error(format!("starting {}", line[0])))?;
    let mut input = child.stdin.take().expect("it was asked for");
    let output = thread::scope(|scope| {
        // Ignore a write error: if the command stops reading, its exit status has the reason.
        scope.spawn(move || drop(input.write_all(stream)));
        child.wait_with_output()
    });
    let output = output.map_err(io_error(format!("running {}", line[0])))?;
    if !output.status.success() {
        return Err(host::failed("expanding the kernel", &command, &output));
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a bzImage of one setup sector around `payload`.
    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 1024];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248..0x24c].copy_from_slice(&16_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
        image.extend([0xee; 16]);
        image.extend(payload);
        image.extend([0xee; 100]);
        image
    }

    fn extracted(image: &[u8]) -> Result<Vec<u8>, String> {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("bzImage"), place.path().join("vmlinux"));
        fs::write(&from, image).unwrap();
        extract(&from, &to).map_err(|error| error.to_string())?;
        Ok(fs::read(&to).unwrap())
    }

    const KERNEL: &[u8] = b"\x7fELF and so on, and so on, and so on";

    #[test]
    fn extracts_xz_zstd_and_gzip() {
        for tool in ["xz", "zstd", "gzip"] {
            if crate::host::program(tool).is_none() && std::env::var_os("CI").is_none() {
                eprintln!("skipped: no {tool}");
                continue;
            }
            let mut payload = expand(&[tool, "--stdout"], KERNEL).unwrap();
            if tool != "gzip" {
                payload.extend(u32::try_from(KERNEL.len()).unwrap().to_le_bytes());
            }
            assert_eq!(extracted(&image(&payload)).as_deref(), Ok(KERNEL), "{tool}");
        }
    }

    #[test]
    fn rejects_invalid_kernels_with_reason() {
        let gzip = expand(&["gzip", "--stdout"], b"no kernel at all").unwrap();
        let mut cut = image(&gzip);
        cut.truncate(1060);
        for (bytes, reason) in [
            (b"short".to_vec(), "HdrS"),
            (cut, "cut short"),
            (image(&[]), "cut short"),
            (image(b"BZh91AY plus a little"), "begins with"),
            (image(&gzip), "ELF"),
        ] {
            let error = extracted(&bytes).unwrap_err();
            assert!(error.contains(reason) && error.contains("bzImage"), "{error}");
        }
    }
}
