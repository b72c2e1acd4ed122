//! Sending and receiving Ethernet frames.

use verbatim_record::{Bytes, Delimiter, Entry, Frame, Frames, Label, Span, Time};
use verbatim_wire::packet::{Medium, Packet};

use super::neighbours;
use crate::rig::{FramePort, PortId, Stimulus};
use crate::stop::{Step, Stop};
use crate::tester::Tester;

/// A received RoCE packet to the tester's address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    /// Number of the frame in the record.
    pub number: u32,
    /// Time of arrival.
    pub at: Span,
    bytes: Bytes,
}

impl Received {
    /// Returns the parsed packet.
    ///
    /// # Panics
    /// Never: the tester makes a [`Received`] only from a frame that parses.
    #[must_use]
    pub fn packet(&self) -> Packet<'_> {
        Packet::parse(Medium::Ethernet, &self.bytes).expect("only what parses is received")
    }

    /// Returns the bytes of the frame.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Tester<'_> {
    /// Returns the tester's own Ethernet port.
    ///
    /// # Errors
    /// When the rig has no Ethernet port.
    pub fn frame_port(&self) -> Step<FramePort> {
        self.info
            .frames
            .clone()
            .ok_or_else(|| Stop::Tester("the rig has no Ethernet port of its own, but a test uses one".into()))
    }

    /// Sends a frame unchanged.
    ///
    /// # Errors
    /// When the run must stop. [`Stop::NotOffered`] when the DUT does not execute the request in the frame, as its
    /// host reported. Also [`Stop::NotOffered`] when the tester destroyed the destination queue pair to make room
    /// for another.
    pub fn send_frame(&mut self, label: Label<Frames>, bytes: &[u8]) -> Step<Span> {
        self.must_be_executed(bytes)?;
        self.must_be_there_for(bytes)?;
        let label = self.number_of(label.name);
        self.put_frame(label, bytes)
    }

    pub(super) fn put_frame(&mut self, label: u32, bytes: &[u8]) -> Step<Span> {
        self.check_stop()?;
        let port = 0;
        let at = self.rig.send(Stimulus::Frame(port, bytes))?;
        self.record_frame(label, (port, false), at, (Bytes::copy_from_slice(bytes), None));
        Ok(at)
    }

    pub(super) fn record_frame(
        &mut self,
        label: u32,
        (port, received): (PortId, bool),
        at: Span,
        (bytes, delimiter): (Bytes, Option<Delimiter>),
    ) -> u32 {
        self.peer.frames += 1;
        self.peer.last_frame = at.latest.max(self.peer.last_frame);
        let number = self.peer.frames;
        if let Ok(packet) = Packet::parse(Medium::Ethernet, &bytes) {
            if received {
                self.peer.landing.received(&packet);
            } else {
                self.peer.landing.sent(&packet);
            }
        }
        self.sink.put(Entry::Frame(Frame {
            number,
            label,
            port,
            received,
            at,
            bytes,
            delimiter,
        }));
        number
    }

    /// Records a received frame. Replies to requests for the tester's MAC address, and queues RoCE packets to the
    /// tester's IP address for the procedure.
    pub(crate) fn take_frame(&mut self, port: PortId, at: Span, bytes: Vec<u8>) -> Step {
        let bytes = Bytes::from(bytes);
        let number = self.record_frame(0, (port, true), at, (bytes.clone(), None));
        let Some(own) = self.info.frames.clone() else {
            return Ok(());
        };
        if let Some(answer) = neighbours::answer(&own, &bytes) {
            self.put_frame(0, &answer)?;
            return Ok(());
        }
        if let Some((ip, mac)) = neighbours::told(&bytes) {
            if self.peer.dut.is_some_and(|(_, dut)| dut == ip) {
                self.peer.neighbour.push_back((at, mac));
            }
            return Ok(());
        }
        let for_us = Packet::parse(Medium::Ethernet, &bytes).is_ok_and(|packet| neighbours::is_for(&own, &packet));
        if for_us {
            self.peer.inbox.push_back(Received { number, at, bytes });
        }
        Ok(())
    }

    /// Returns the next RoCE packet to the tester's address, with right or wrong checksums. Returns `None` if no packet
    /// arrives by `until`.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn next_packet(&mut self, until: Time) -> Step<Option<Received>> {
        self.check_stop()?;
        self.await_until(until, |peer| peer.inbox.pop_front())
    }

    /// Whether the DUT has acknowledged WRITEs or atomics since the last call of [`Tester::looked_at_memory`].
    #[must_use]
    pub fn is_landing(&self) -> bool {
        self.peer.landing.is_any()
    }

    /// Whether the bytes `shown`, read from memory at address `from`, lack data that the DUT has acknowledged. Only
    /// data acknowledged since the last call of [`Tester::looked_at_memory`] counts.
    #[must_use]
    pub fn is_missing(&self, from: u64, shown: &[u8]) -> bool {
        self.peer.landing.is_missing(from, shown)
    }

    /// Forgets all data sent until now, so that [`Tester::is_missing`] no longer looks for it.
    pub fn looked_at_memory(&mut self) {
        self.peer.landing.looked_at();
    }

    /// Discards the queued RoCE packets. The record still contains them.
    pub fn skip_packets(&mut self) {
        self.peer.inbox.clear();
    }
}
