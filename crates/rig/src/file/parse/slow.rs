//! The keys of slow devices and of the reset command.

use core::time::Duration;
use std::path::Path;

use toml::Spanned;

use super::keys::Key;
use super::{RawRig, Wrong, within, wrong};
use crate::file::{Consoles, ResetConfig, Slowness, beside};

/// The largest time scale: one second of the device takes eleven days.
const SLOWEST: i64 = 1_000_000;
/// The longest time limit of a command, a frame or a reset, in seconds: one day.
const LONGEST: i64 = 86_400;
/// Default time limit of a reset.
const RESET_WITHIN: Duration = Duration::from_secs(60);

pub(super) fn slowness(rig: &RawRig) -> Result<Slowness, Wrong> {
    let scale = within(rig.time_scale.as_ref(), "time_scale", 1, SLOWEST)?.unwrap_or(1);
    let least: Option<u32> = within(rig.time_scale_least.as_ref(), "time_scale_least", 1, SLOWEST)?;
    if let (Some(key), Some(least)) = (&rig.time_scale_least, least)
        && least > scale
    {
        return wrong(
            key.span(),
            format!(
                "\"time_scale_least\" {least} is more than \"time_scale\" {scale}; \"time_scale\" is how many times slower \
                 the device is at most, \"time_scale_least\" how many times at least"
            ),
        );
    }
    if let (Some(key), None) = (&rig.send_within, &rig.socket) {
        return wrong(
            key.span(),
            "\"send_within\" applies to the socket of a machine that may be slow to take frames, and this rig has an \
             interface; remove it",
        );
    }
    Ok(Slowness {
        scale,
        scale_least: least,
        agent_within: seconds(rig.agent_within.as_ref(), "agent_within")?,
        send_within: seconds(rig.send_within.as_ref(), "send_within")?,
    })
}

pub(super) fn reset(rig: &RawRig, file: &Path) -> Result<Option<ResetConfig>, Wrong> {
    let Some(given) = &rig.reset else {
        if let Some(key) = &rig.reset_within {
            return wrong(
                key.span(),
                "\"reset_within\" limits the time of \"reset\", and \"reset\" is not set; write `reset = [\"./power\", \
                 \"cycle\"]`, or remove it",
            );
        }
        if let Some(key) = &rig.reset_when {
            return wrong(
                key.span(),
                "\"reset_when\" says when \"reset\" runs, and \"reset\" is not set; write `reset = [\"./power\", \
                 \"cycle\"]`, or remove it",
            );
        }
        return Ok(None);
    };
    let only_when_silent = match &rig.reset_when {
        None => false,
        Some(when) if when.get_ref() == "always" => false,
        Some(when) if when.get_ref() == "silent" => true,
        Some(when) => {
            return wrong(
                when.span(),
                format!(
                    "\"reset_when\" is {:?}; expected \"always\" or \"silent\"",
                    when.get_ref()
                ),
            );
        }
    };
    let command = given.get_ref();
    if command.first().is_none_or(String::is_empty) || command.iter().any(|word| word.contains('\0')) {
        return wrong(
            given.span(),
            "\"reset\" is no command; expected a program and its arguments, such as [\"./power\", \"cycle\"]",
        );
    }
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok(Some(ResetConfig {
        command: command.clone(),
        directory: directory.unwrap_or(Path::new(".")).to_owned(),
        within: seconds(rig.reset_within.as_ref(), "reset_within")?.unwrap_or(RESET_WITHIN),
        only_when_silent,
    }))
}

/// Reads the paths of the consoles. A relative path begins at the directory of the rig file.
pub(super) fn consoles(rig: &RawRig, file: &Path) -> Consoles {
    let path = |key: &Option<Spanned<String>>| key.as_ref().map(|given| beside(file, Path::new(given.get_ref())));
    Consoles {
        dut: path(&rig.dut_console),
        tester: path(&rig.tester_console),
    }
}

fn seconds(value: Option<&Spanned<i64>>, key: &str) -> Result<Option<Duration>, Wrong> {
    Ok(within(value, key, 1, LONGEST)?.map(Duration::from_secs))
}

/// Returns the keys of this module, each with the kinds that may have it and its place in the file.
pub(super) fn places(rig: &RawRig) -> [Key<'static>; 9] {
    const WITH_A_DEVICE: &[&str] = &["umad", "model", "packet", "verbs"];
    let at = |key: Option<&Spanned<i64>>| key.map(Spanned::span);
    [
        ("reset", WITH_A_DEVICE, rig.reset.as_ref().map(Spanned::span)),
        ("reset_within", WITH_A_DEVICE, at(rig.reset_within.as_ref())),
        ("reset_when", WITH_A_DEVICE, rig.reset_when.as_ref().map(Spanned::span)),
        (
            "dut_console",
            WITH_A_DEVICE,
            rig.dut_console.as_ref().map(Spanned::span),
        ),
        (
            "tester_console",
            WITH_A_DEVICE,
            rig.tester_console.as_ref().map(Spanned::span),
        ),
        ("time_scale", &["model", "packet"], at(rig.time_scale.as_ref())),
        (
            "time_scale_least",
            &["model", "packet"],
            at(rig.time_scale_least.as_ref()),
        ),
        ("agent_within", &["packet", "verbs"], at(rig.agent_within.as_ref())),
        ("send_within", &["packet"], at(rig.send_within.as_ref())),
    ]
}
