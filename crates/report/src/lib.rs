//! A run as people and machines want to read it: [`html`], [`markdown`], [`junit`], [`tap`]; and
//! a finding with its packets: [`explain`].
//!
//! Each is a function of the same thing, a [`Reported`]: what was run, the verdicts, and the records that they rest on. What
//! a form has no word for is said in one that errs on the safe side: no machine takes INCONCLUSIVE for a pass.

mod counted;
mod digest;
mod explain;
mod fields;
mod html;
mod interval;
mod junit;
mod ladder;
mod markdown;
mod tap;
mod told;
mod trend;

pub use counted::{counted, plural};
pub use digest::Digest;
pub use explain::{explain, explain_verdict};
pub use html::html;
pub use junit::junit;
pub use markdown::markdown;
pub use tap::tap;
pub use told::Reported;
pub use trend::{Past, version};

#[cfg(test)]
mod tests;
