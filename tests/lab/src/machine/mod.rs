//! An emulated Linux machine with the kernel's own RoCEv2 stack (`rdma_rxe`), for the lab and for tests.
//!
//! [`Image::ensure`] makes the image: Debian's unmodified kernel, and a small root file system of this host's own
//! programs. [`Machine::boot`] starts a machine. Root is not needed, because QEMU emulates the machine, and Unix
//! datagrams carry its frames.
//!
//! ```no_run
//! use std::time::Duration;
//! use verbatim_lab::machine::{BootOptions, DUT_SCRIPT, Image, Machine, Share};
//!
//! let share = Share::new()?;
//! share.write("dut.sh", DUT_SCRIPT)?;
//! let options = BootOptions::new(share.path(), "dut.sh", "/tmp/console.log").with_data_nic();
//! let machine = Machine::boot(&Image::ensure()?, &options)?;
//! let seen = machine.run("rdma link", Duration::from_secs(10))?;
//! assert!(seen.text().contains("rxe0"));
//! # Ok::<(), verbatim_lab::machine::MachineError>(())
//! ```

mod accelerator;
mod archive;
mod boot;
mod chosen;
mod debian;
mod error;
mod host;
mod image;
mod kernel;
mod module;
mod options;
mod place;
mod port;
mod root;
mod running;
mod share;
mod vmlinux;

pub use accelerator::choose_accelerator;
pub use chosen::ChosenKernel;
pub(crate) use debian::debian;
pub use error::MachineError;
pub use host::PACKAGES;
pub(crate) use host::is_elf;
pub use image::{Image, console_log, store};
pub(crate) use module::adapter_module;
pub use options::{BootOptions, DATA_MAC, DataSockets, MANAGEMENT_MAC};
pub use running::{Machine, Output, Ran};
pub use share::Share;

/// The script of the device under test: `rxe0` on the data interface with 10.0.0.1/24 and fd00::1/64. If the share
/// contains `agent.cmd`, the script also runs it as the agent behind the management interface.
pub const DUT_SCRIPT: &str = include_str!("../../guest/dut.sh");
/// The script of the verbs set-up: `rxe0` (device under test, 10.0.0.1, fd00::1) and `rxe1` (tester's adapter,
/// 10.0.0.2, fd00::2) on a veth pair. The script also runs `agent.cmd`, `daemon.cmd` and `command.cmd` of the share.
pub const PAIR_SCRIPT: &str = include_str!("../../guest/pair.sh");
/// The script of the native adapter. The script loads `vib.ko` of the share, which makes `vib0`. It connects port N of
/// `vib0` to the virtio port `cableN`, and runs the share's commands.
pub(crate) const VIB_SCRIPT: &str = include_str!("../../guest/vib.sh");
