//! The messages: the client sends, and the server responds to each message.
//!
//! `ibv_rc_pingpong` has one buffer for receiving and sending, so it sends our last message back. This program
//! compares the bytes of the returned message, and thereby checks both directions. The first message of an
//! `ibv_rc_pingpong` client is different: all its bytes are `FIRST`.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use verbatim_device::rc::{MemoryHandle, Operation, QpHandle, ReceiveRequest, SendRequest, Slice, WcOpcode, WcStatus};

use super::station::Station;

/// Longest time without a completion. A working connection is faster, even with retries.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest wait for a frame.
const SLICE: Duration = Duration::from_millis(20);
/// Byte with which `ibv_rc_pingpong` fills a client's buffer.
const FIRST: u8 = 0x7b;

/// Parameters of the exchange.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) qp: QpHandle,
    /// Bytes of a message.
    pub(crate) size: u32,
    /// Messages in each direction.
    pub(crate) iterations: u32,
    /// Receive buffers; the index is the `wr_id` of the receive.
    pub(crate) slots: Vec<Slice>,
    /// Memory that messages are sent from.
    pub(crate) outgoing: MemoryHandle,
    /// Whether this side sends first.
    pub(crate) starts: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Completed sends.
    sent: u32,
    /// Received messages.
    received: u32,
    /// Received messages that were compared with our own previous message.
    checked: u32,
    frames_in: u64,
    frames_out: u64,
    dropped: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            sent,
            received,
            checked,
            frames_in,
            frames_out,
            dropped,
        } = self;
        write!(
            f,
            "sent={sent} received={received} checked={checked} frames_in={frames_in} frames_out={frames_out} \
             dropped={dropped}"
        )
    }
}

impl Exchange {
    pub(crate) fn run(&self, station: &mut Station) -> anyhow::Result<Counts> {
        let mut counts = Counts::default();
        let mut posted = 0;
        // Like the other side, send the next message when the last message is acknowledged and the response has
        // arrived.
        let mut waits_for_send = false;
        let mut waits_for_message = !self.starts;
        let mut last = Instant::now();
        loop {
            if posted < self.iterations && !waits_for_send && !waits_for_message {
                posted += 1;
                self.send(station, posted)?;
                (waits_for_send, waits_for_message) = (true, true);
            }
            if counts.sent == self.iterations && counts.received == self.iterations {
                break;
            }
            station.serve(SLICE)?;
            while let Some(done) = station.completion() {
                last = Instant::now();
                if done.status != WcStatus::SUCCESS {
                    bail!("expected success, seen {} of {done:?}; {counts}", done.status);
                }
                if done.opcode == WcOpcode::RECV {
                    counts.received += 1;
                    let expected = (posted > 0).then(|| pattern(posted, self.size));
                    self.take(station, done.wr_id, done.byte_len, expected.as_deref())?;
                    counts.checked += u32::from(posted > 0);
                    waits_for_message = false;
                } else {
                    counts.sent += 1;
                    waits_for_send = false;
                }
            }
            if last.elapsed() > PATIENCE {
                bail!(
                    "nothing completed for {PATIENCE:?}; {counts}; queue pair {:?}",
                    station.adapter.query(self.qp)
                );
            }
        }
        (counts.frames_in, counts.frames_out) = (station.frames_in, station.frames_out);
        counts.dropped = station.dropped();
        Ok(counts)
    }

    fn send(&self, station: &mut Station, number: u32) -> anyhow::Result<()> {
        let local = Slice {
            memory: self.outgoing,
            offset: 0,
            length: self.size,
        };
        station
            .adapter
            .write_memory(self.outgoing, 0, &pattern(number, self.size))?;
        let request = SendRequest::new(u64::from(number), Operation::Send, local);
        let now = station.now();
        station.adapter.post_send(now, self.qp, &request)?;
        Ok(())
    }

    /// Checks a received message, and posts its buffer again.
    fn take(&self, station: &mut Station, slot: u64, length: u32, expected: Option<&[u8]>) -> anyhow::Result<()> {
        if length != self.size {
            bail!("a message of {} bytes was expected, {length} came", self.size);
        }
        let place = usize::try_from(slot).ok().and_then(|slot| self.slots.get(slot));
        let local = *place.context("a receive completed that was not posted")?;
        let seen = station.adapter.read_memory(local)?;
        let first = vec![FIRST; seen.len()];
        let expected = expected.unwrap_or(&first);
        if let Some(at) = (0..seen.len()).find(|&at| seen[at] != expected[at]) {
            bail!(
                "byte {at} of a message of {length}: {:#04x} was expected, {:#04x} came",
                expected[at],
                seen[at]
            );
        }
        let now = station.now();
        station
            .adapter
            .post_receive(now, self.qp, &ReceiveRequest { wr_id: slot, local })?;
        Ok(())
    }
}

/// Returns the bytes of our message `number`. Each byte depends on its offset in the message and on `number`.
fn pattern(number: u32, size: u32) -> Vec<u8> {
    (0..size)
        .map(|at| (at ^ (at >> 8) ^ number).to_le_bytes()[0].wrapping_mul(31))
        .collect()
}
