//! `verbatim sign DIR --key KEY.pem`: adds an Ed25519 signature of the manifest to a bundle.

use std::path::PathBuf;
use std::process::ExitCode;

use verbatim_run::{Signer, sign_bundle};

use crate::print;

/// Sign a record.
#[derive(clap::Args)]
#[command(
    after_help = "The signature is over manifest.json, which hashes every other file. It is put into manifest.sig, 64 bytes, and \
    the public key into manifest.pub. Without verbatim: openssl pkeyutl -verify -rawin -pubin -inkey PUBLIC.pem -sigfile \
    manifest.sig -in manifest.json. Exit codes: 0 signed; 2 the key cannot be used, or the record is signed already; 3 the record \
    is not whole."
)]
pub(crate) struct Arguments {
    /// The directory that `verbatim run --record` left
    directory: PathBuf,
    /// The private key, in PEM: `openssl genpkey -algorithm ed25519 -out KEY.pem` makes one
    #[arg(long, value_name = "KEY.pem")]
    key: PathBuf,
    /// Replace an existing signature
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let signer = Signer::open(&arguments.key)?;
    let key = sign_bundle(&arguments.directory, &signer, arguments.force)?;
    print::text(&format!("signed   by key {}\n", key.id()))?;
    Ok(ExitCode::SUCCESS)
}
