//! Limits of the objects of a session.

use crate::device::Failure;

/// Page size in bytes. Memory is registered and locked in whole pages, and the limit counts whole pages.
const PAGE: u64 = 4096;

/// Limits of the objects of one session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Registered memory in bytes, counted in whole pages of 4096.
    pub memory: u64,
    /// Number of queue pairs.
    pub queue_pairs: u32,
    /// Number of requests in one queue of a queue pair.
    pub queue_depth: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            queue_pairs: 64,
            queue_depth: 4096,
        }
    }
}

/// Returns the length of a region in bytes, rounded up to whole pages.
pub(super) fn counted(length: u32) -> u64 {
    u64::from(length).next_multiple_of(PAGE)
}

impl Limits {
    pub(super) fn check_memory(&self, held: u64, length: u32) -> Result<(), Failure> {
        if length == 0 {
            return Err(Failure::refused(
                "memory of 0 bytes cannot be registered; ask for 1 or more",
            ));
        }
        if counted(length) > self.memory.saturating_sub(held) {
            return Err(Failure::refused(format!(
                "{length} bytes of memory exceed the remainder of this session's {} bytes (in use: {held}, in pages of \
                 {PAGE}); deregister some, or start the agent with a larger --max-memory",
                self.memory
            )));
        }
        Ok(())
    }

    pub(super) fn check_queue_pairs(&self, held: usize) -> Result<(), Failure> {
        if held >= usize::try_from(self.queue_pairs).unwrap_or(usize::MAX) {
            return Err(Failure::refused(format!(
                "this session has reached its limit of queue pairs ({held} of {}); destroy one, or start the agent \
                 with a larger --max-qps",
                self.queue_pairs
            )));
        }
        Ok(())
    }

    pub(super) fn check_depths(&self, send: u32, receive: u32) -> Result<(), Failure> {
        for (queue, depth) in [("send", send), ("receive", receive)] {
            if depth == 0 || depth > self.queue_depth {
                return Err(Failure::refused(format!(
                    "{queue}_depth is {depth}; expected 1..={}",
                    self.queue_depth
                )));
            }
        }
        Ok(())
    }
}
