//! Oracles: independent programs that read and write the same bytes.

use std::process::Command;

use verbatim_wire::Field;

/// Returns whether `program` is installed. If not, prints how to install it.
///
/// # Panics
/// When the program is missing and `CI` is set.
#[must_use]
pub fn available(program: &str, install: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    found || skipped(program, install)
}

/// Prints that a test is skipped because `what` is missing; returns false.
///
/// # Panics
/// When `CI` is set, because CI must run all tests.
pub fn skipped(what: &str, install: &str) -> bool {
    assert!(
        std::env::var_os("CI").is_none(),
        "{what} is missing; install it: {install}"
    );
    eprintln!("SKIPPED: {what} is missing; install it: {install}");
    false
}

/// Pseudo-random numbers, the same in each run (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// Returns the next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns `count` random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.bits().to_le_bytes()[0]).collect()
    }

    /// Returns `count` printable ASCII characters.
    pub fn text(&mut self, count: usize) -> Vec<u8> {
        self.bytes(count).into_iter().map(|byte| b' ' + byte % 95).collect()
    }
}

/// Returns all elements of a field.
#[must_use]
pub fn elements(field: &Field, bytes: &[u8]) -> Vec<u64> {
    (0..field.count).map(|index| field.bits(bytes, index)).collect()
}

/// Returns the bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
