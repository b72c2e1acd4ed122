//! The labs: independent devices under test, without hardware, started for one command or one test.
//!
//! - [`IbsimLab`]: a subnet management agent behind the real libibumad.
//! - [`RxeLab`]: Linux's own RoCEv2 stack in an emulated [`machine`], with the tester outside.
//! - [`RxeVerbsLab`]: the same stack, with the tester and its second device inside the machine too.
//! - [`VibLab`]: a native InfiniBand adapter in the machine, with a device model outside as the device under test.
//! - [`ServiceLab`]: a Debian with systemd and our packages, for tests of administration.
//! - [`RemoteLab`]: a device model, with client and daemon on different machines.
//!
//! Each lab cleans up when it is dropped. Its processes end with this process, even if this process is killed.
//!
//! Labs, tests and `cargo xtask` share further code of this crate: the paths of the [`workspace`], the programs of the
//! [`host`], the [`c_programs`] of tests/c, and the random numbers and arguments of [`campaign`]s.

mod baseline;
pub mod c_programs;
mod cable;
pub mod campaign;
mod command;
pub mod host;
mod ibsim;
mod inside;
pub mod machine;
mod package;
mod postgres;
mod process;
mod remote;
mod rig_text;
mod rxe;
mod rxe_verbs;
mod service;
mod vib;
pub mod workspace;

pub use baseline::run_against_stock;
pub use c_programs::build_c_programs;
pub use command::{LAB_PROFILE, build_binaries, build_examples, build_released, run_in_ibsim};
pub use ibsim::{IbsimLab, LabError, TWO_ADAPTERS};
pub use package::build_packages;
pub use postgres::{Postgres, url_at};
pub use remote::{RemoteLab, run_in_remote};
pub use rxe::{RxeLab, run_in_rxe};
pub use rxe_verbs::{RxeVerbsLab, run_in_rxe_verbs};
pub use service::{ServiceLab, run_in_service};
pub use vib::{ADAPTER_GUID, SubnetManager, VibLab, VibOptions, run_in_vib};
