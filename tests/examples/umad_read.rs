//! Reads a device by a rig of kind `umad`, as the tests do, and prints each field of each attribute in a line:
//! `Attribute[modifier].Field = 0x1f`, of a table one number for each element. For tests that compare what a device holds with what
//! another program says, or with what it held before.
//!
//! `umad_read RIG_FILE RIG`. The performance counters are read where the device has a LID.

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
