//! Renders a run for people and machines: [`html`], [`markdown`], [`junit`], [`tap`], [`ktap`], and [`explain`] for a
//! finding with its packets.
//!
//! Each form renders the same input, a [`Reported`]: the run, its verdicts and the digests of their records. No form
//! renders INCONCLUSIVE as a pass, not even if its format knows only passes and failures.

mod counted;
mod digest;
mod explain;
mod fields;
mod html;
mod input;
mod interval;
mod junit;
mod ladder;
mod markdown;
mod tap;
mod trend;

pub use counted::{counted, plural};
pub use digest::Digest;
pub use explain::{Commands, Detail, Selected, explain, explain_verdict, list, list_without_findings, selected};
pub use html::{fingerprint_in_words, html, linked};
pub use input::{Reported, again};
pub use junit::junit;
pub use markdown::markdown;
pub use tap::{ktap, tap};
pub use trend::{Past, version};

#[cfg(test)]
mod tests;
