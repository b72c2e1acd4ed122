//! `verbatim sign DIR --key KEY.pem`: adds an Ed25519 signature of the manifest to a bundle.

use std::path::PathBuf;
use std::process::ExitCode;

use verbatim_run::{Signer, sign_bundle};
use verbatim_text::Text;

use crate::print;

/// Sign a record.
#[derive(clap::Args)]
#[command(
    after_help = "The command signs manifest.json, which has the hash of every other file. It writes the signature \
    (64 bytes) to manifest.sig, and the public key to manifest.pub. To verify without verbatim: openssl pkeyutl \
    -verify -rawin -pubin -inkey PUBLIC.pem -sigfile manifest.sig -in manifest.json. Exit codes: 0 signed; 2 the key \
    cannot be used, or the record is signed already; 3 the record is not whole."
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
    print::text(&Text::of(format_args!("signed   by key {}", key.id())))?;
    Ok(ExitCode::SUCCESS)
}
