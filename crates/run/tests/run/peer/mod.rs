//! Tests of rigs without MADs, from the rig file to the verdict.

mod lab;
mod on_an_interface;
mod with_an_agent;

use core::time::Duration;
use std::sync::Arc;

use verbatim_record::verbs::{Command, Event, Reply, pb};
use verbatim_record::{Side, Time, TimeSource};
use verbatim_tester::{Arrival, Rig, Stimulus, Stop};

const MS: Duration = Duration::from_millis(1);
/// Longer than any wait of a passing test.
const LONG: Duration = Duration::from_secs(20);
