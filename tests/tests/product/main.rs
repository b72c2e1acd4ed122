//! End-to-end tests without a lab: the programs, the files they write, and the catalogue.
//!
//! A module that takes long is a separate job in `cargo xtask test`.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod agent_doctor;
mod command_line;
mod docs;
mod example_records;
mod few_operations;
mod first_light;
mod foreign_readers;
mod inspect;
mod legal_agents;
mod legal_choices;
mod libibmad_agrees;
mod lossy_frames;
mod lossy_hardware;
mod model_process;
mod python;
mod scapy_agrees;
mod silicon;
mod small_devices;
mod stores;
mod tshark_agrees;
mod tshark_packets;
mod web_page;
