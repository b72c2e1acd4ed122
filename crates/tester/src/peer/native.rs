//! Sending and receiving native packets: the bytes between two delimiters, valid or not.

use verbatim_record::{Bytes, Delimiter, Frames, Label, Span, Time, Wait};

use crate::rig::{PortId, Stimulus};
use crate::stop::Step;
use crate::tester::Tester;

/// A received native packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Native {
    /// Number of the frame in the record.
    pub number: u32,
    /// Time of arrival.
    pub at: Span,
    /// Bytes from the LRH to the VCRC.
    pub bytes: Vec<u8>,
    /// The delimiter that ended the packet.
    pub delimiter: Delimiter,
}

impl Tester<'_> {
    /// Sends a native packet unchanged: all bytes between the delimiters, including the VCRC, and the end delimiter.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn send_packet(&mut self, label: Label<Frames>, bytes: &[u8], delimiter: Delimiter) -> Step<Span> {
        let label = self.number_of(label.name);
        self.check_stop()?;
        let port = self.leaves_by();
        let at = self.rig.send(Stimulus::Packet(port, bytes, delimiter))?;
        self.record_frame(
            label,
            (port, false),
            at,
            (Bytes::copy_from_slice(bytes), Some(delimiter)),
        );
        Ok(at)
    }

    /// Returns the next native packet, valid or not. Returns `None` if no packet arrives by `until`.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn next_native(&mut self, until: Time) -> Step<Option<Native>> {
        self.check_stop()?;
        self.await_until(until, |peer| peer.natives.pop_front())
    }

    /// Waits for a native packet that `is_it` accepts, and discards other packets after recording them. If no accepted
    /// packet arrives by `until`, records the wait under a label and returns `None`.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn await_native(
        &mut self,
        label: Label<Wait>,
        until: Time,
        is_it: impl Fn(&Native) -> bool,
    ) -> Step<Option<Native>> {
        let since = self.rig.now();
        while let Some(native) = self.next_native(until)? {
            if is_it(&native) {
                return Ok(Some(native));
            }
        }
        self.waited(label, since);
        Ok(None)
    }

    /// Records a received native packet and queues it for the procedure.
    pub(crate) fn take_native(&mut self, port: PortId, at: Span, bytes: Vec<u8>, delimiter: Delimiter) {
        let number = self.record_frame(0, (port, true), at, (Bytes::from(bytes.clone()), Some(delimiter)));
        self.peer.natives.push_back(Native {
            number,
            at,
            bytes,
            delimiter,
        });
    }
}
