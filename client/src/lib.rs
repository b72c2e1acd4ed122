//! Typed client of Verbatim's daemon.
//!
//! [`Client`] has a method for each call of `verbatim.v1`; its requests and responses are messages of [`v1`]. [`Watch`]
//! follows a run across broken connections and restarts of the daemon. Every [`Error`] says what was expected, what was
//! seen, and what to do next.
//!
//! ```no_run
//! # async fn example() -> Result<(), verbatim_client::Error> {
//! use verbatim_client::{Address, Client, fresh_id, v1::RunSpec};
//!
//! let address: Address = "unix:/run/verbatim/verbatim.sock".parse()?;
//! let client = Client::connect(address).await?;
//! let spec = RunSpec {
//!     rig: "virtual".into(),
//!     ..RunSpec::default()
//! };
//! let run = client.create_run(&fresh_id(), &spec).await?;
//! let mut watch = client.watch(&run.name.parse()?, 0);
//! while let Some(event) = watch.next().await {
//!     println!("{:?}", event?);
//! }
//! # Ok(())
//! # }
//! ```

mod address;
mod artifacts;
mod backoff;
mod client;
mod error;
mod names;
mod watch;

pub use address::Address;
pub use artifacts::ArtifactReader;
pub use client::{Changes, Client, fresh_id, patiently};
pub use error::{Error, Refusal};
pub use names::{LeaseName, RigName, RunName};
pub use verbatim_proto::{document, v1};
pub use verbatim_tls::ClientFiles;
pub use watch::Watch;
