//! Runs all tests `c09-*` on a small Python device in real time. Sixteen devices run in parallel.

use std::time::Duration;

use super::passes;

/// Longest time of the tests, on the busiest host.
const LIMIT: Duration = Duration::from_secs(1800);

#[test]
fn no_test_fails_a_small_core() {
    passes(&["tests/test_agent.py", "-k", "small_core_and_each"], LIMIT);
}
