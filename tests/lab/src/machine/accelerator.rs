//! The choice between KVM and emulation for machines.

use std::env;
use std::fs::{self, OpenOptions};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::error::{io_error, path_error};
use super::image::locked_store;
use super::{Image, MachineError, host};

/// Longest time of a probe's boot under KVM. Even emulation takes only 3 s on an idle host.
const PROBE: Duration = Duration::from_secs(10);
/// Environment variable with the user's choice: `kvm` or `tcg`.
const CHOICE: &str = "VERBATIM_ACCELERATOR";

/// The accelerator of the machine's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accelerator {
    /// The host's kernel.
    Kvm,
    /// QEMU's emulation.
    Tcg,
}

/// Chooses the accelerator for the machines of this host, and prints it. Prints nothing if a package for machines is
/// missing.
///
/// # Errors
///
/// When making the image fails for another reason than a missing package.
pub fn choose_accelerator() -> Result<(), MachineError> {
    let image = match Image::ensure() {
        Err(MachineError::NotInstalled { .. }) => return Ok(()),
        image => image?,
    };
    let name = match accelerator(&image)? {
        Accelerator::Kvm => "KVM",
        Accelerator::Tcg => "emulation (tcg)",
    };
    eprintln!("machines run under {name}");
    Ok(())
}

/// Returns the accelerator of this host. On some hosts `/dev/kvm` exists, but a machine hangs under KVM. The first
/// caller after the host's boot therefore probes KVM: it boots the image without a share, and stores the result beside
/// the image. A machine without a share ends by itself.
///
/// # Errors
///
/// When storing the result or starting QEMU fails.
pub(crate) fn accelerator(image: &Image) -> Result<Accelerator, MachineError> {
    match env::var(CHOICE).as_deref() {
        Ok("kvm") => return Ok(Accelerator::Kvm),
        Ok("tcg") => return Ok(Accelerator::Tcg),
        _ => {}
    }
    if OpenOptions::new().read(true).write(true).open("/dev/kvm").is_err() {
        return Ok(Accelerator::Tcg);
    }
    let (store, _lock) = locked_store()?;
    let kept = store.join("accelerator");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let known = fs::read_to_string(&kept).unwrap_or_default();
    if let Some(answer) = known.strip_prefix(boot.trim()).and_then(parse) {
        return Ok(answer);
    }
    let (answer, word) = if boots_under_kvm(image)? {
        (Accelerator::Kvm, "kvm")
    } else {
        eprintln!(
            "machines run under emulation (tcg): /dev/kvm opens, but a kernel did not boot under it within {PROBE:?}"
        );
        (Accelerator::Tcg, "tcg")
    };
    fs::write(&kept, format!("{} {word}\n", boot.trim())).map_err(path_error("writing", &kept))?;
    Ok(answer)
}

fn parse(word: &str) -> Option<Accelerator> {
    match word.trim() {
        "kvm" => Some(Accelerator::Kvm),
        "tcg" => Some(Accelerator::Tcg),
        _ => None,
    }
}

/// Returns whether the image's kernel reaches the end of its script under KVM. Without a share the script ends at once.
fn boots_under_kvm(image: &Image) -> Result<bool, MachineError> {
    let mut command = Command::new(host::needed("qemu-system-x86_64")?);
    command
        .args([
            "-machine",
            "q35",
            "-cpu",
            "max",
            "-accel",
            "kvm",
            "-m",
            "384",
            "-no-reboot",
        ])
        .args(["-nodefaults", "-no-user-config", "-display", "none"])
        .args(["-append", "quiet panic=-1", "-kernel"])
        .arg(image.vmlinux())
        .arg("-initrd")
        .arg(image.initramfs())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut probe = command.spawn().map_err(io_error("starting QEMU"))?;
    let deadline = Instant::now() + PROBE;
    loop {
        if let Some(status) = probe.try_wait().map_err(io_error("waiting for QEMU"))? {
            return Ok(status.success());
        }
        if Instant::now() > deadline {
            let _ = probe.kill();
            let _ = probe.wait();
            return Ok(false);
        }
        sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_accepts_only_kvm_and_tcg() {
        assert_eq!(parse(" kvm\n"), Some(Accelerator::Kvm));
        assert_eq!(parse(" tcg"), Some(Accelerator::Tcg));
        assert_eq!(parse(""), None);
    }
}
