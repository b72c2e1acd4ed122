//! The model in real time, on a packet socket.

use std::time::Duration;

use verbatim_device::rc::{Adapter, AdapterProfile, Completion};
use verbatim_hw::ether::{EtherError, PacketSocket, now};

/// At the end of the program, timers that expire within this time still run: the other side may wait for their
/// frames.
const HOLD_BACK: Duration = Duration::from_millis(100);

/// An adapter and its packet socket.
#[derive(Debug)]
pub(crate) struct Station {
    socket: PacketSocket,
    pub(crate) adapter: Adapter,
    pub(crate) frames_in: u64,
    pub(crate) frames_out: u64,
}

impl Station {
    pub(crate) fn new(socket: PacketSocket, profile: AdapterProfile) -> Self {
        Self {
            socket,
            adapter: Adapter::new(profile, &[]),
            frames_in: 0,
            frames_out: 0,
        }
    }

    /// Returns the model's time: the kernel's monotonic clock.
    pub(crate) fn now(&self) -> Duration {
        now()
    }

    /// Returns the number of frames that the socket dropped because they came too fast.
    pub(crate) fn dropped(&self) -> u64 {
        self.socket.dropped()
    }

    /// Runs expired timers and handles received frames. Waits at most `limit` for the next frame or timer, and returns
    /// after the first of them.
    pub(crate) fn serve(&mut self, limit: Duration) -> Result<(), EtherError> {
        self.adapter.tick(now());
        self.transmit()?;
        let due = self.adapter.poll_at().map(|at| at.saturating_sub(now()));
        let mut timeout = due.map_or(limit, |due| due.min(limit));
        while let Some(frame) = self.socket.receive(timeout)? {
            self.frames_in += 1;
            self.adapter.handle(now(), &frame.bytes);
            self.transmit()?;
            timeout = Duration::ZERO;
        }
        self.adapter.tick(now());
        self.transmit()
    }

    /// Runs timers that expire soon, such as delayed ACKs.
    pub(crate) fn finish(&mut self) -> Result<(), EtherError> {
        let until = now() + HOLD_BACK;
        while self.adapter.poll_at().is_some_and(|at| at <= until) && now() < until {
            self.serve(HOLD_BACK)?;
        }
        Ok(())
    }

    pub(crate) fn completion(&mut self) -> Option<Completion> {
        self.adapter.poll_completion()
    }

    fn transmit(&mut self) -> Result<(), EtherError> {
        while let Some(frame) = self.adapter.poll_transmit() {
            self.socket.send(&frame)?;
            self.frames_out += 1;
        }
        Ok(())
    }
}
