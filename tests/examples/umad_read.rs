//! Reads a device through a rig of kind `umad`, as the tests do. Prints each field of each attribute in a line, such as
//! `Attribute[modifier].Field = 0x1f`. A table has one number for each element. Tests compare the output with that of
//! another program, or with an earlier state.
//!
//! `umad_read RIG_FILE RIG`. The program reads the performance counters only if the device has a LID.

use std::process::ExitCode;

use anyhow::bail;
use verbatim_tests::reading;

fn main() -> ExitCode {
    match print() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("umad_read: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn print() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, rig] = arguments.as_slice() else {
        bail!("usage: umad_read RIG_FILE RIG");
    };
    for (field, value) in reading::fields(file.as_ref(), rig)? {
        println!("{field} = {value}");
    }
    Ok(())
}
