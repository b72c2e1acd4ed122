//! `verbatim` on ibsim: a subnet management agent that others wrote, behind the real libibumad. What becomes of the
//! device when somebody ends the run, the program, the simulator or the cable.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod ends;
mod lab;
mod lids;
mod rigs;
mod runs;
