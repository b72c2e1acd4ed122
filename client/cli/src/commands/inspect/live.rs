//! Live capture of an interface, as a pcap stream.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use verbatim_hw::ether::{Frame, PacketSocket, now};

use crate::exit::Usage;
use crate::print::{self, counted};

/// Longest wait for a frame before the capture checks whether it should end.
const IDLE: Duration = Duration::from_millis(200);
/// Interval between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(1);
/// pcap header: nanoseconds, little-endian, version 2.4, no length limit, Ethernet.
const HEADER: [u8; 24] = [
    0x4D, 0x3C, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 1, 0, 0, 0,
];

/// The frames of an interface until SIGINT or SIGTERM.
pub(super) struct Live {
    socket: PacketSocket,
    /// The current part of the stream, and the number of its bytes that were read.
    part: Vec<u8>,
    read: usize,
    is_over: Arc<AtomicBool>,
    /// Time of the signal. Frames that arrived before this time are still read.
    until: Option<Duration>,
    packets: u64,
    /// Number of frames that the kernel dropped.
    lost: Rc<Cell<u64>>,
    /// Time of the last line of progress; None if stderr is no terminal.
    told: Option<Instant>,
}

impl Live {
    /// Opens the interface. The capture stores in `lost` the number of frames that the kernel dropped.
    pub(super) fn open(interface: &str, lost: &Rc<Cell<u64>>) -> anyhow::Result<Self> {
        // Catch signals before the socket opens, so that a signal during the capture never ends the process at
        // once.
        let is_over = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            flag::register(signal, Arc::clone(&is_over))?;
        }
        let socket = PacketSocket::listen(interface).map_err(|error| Usage(format!("--interface: {error}")))?;
        Ok(Self {
            socket,
            part: HEADER.to_vec(),
            read: 0,
            is_over,
            until: None,
            packets: 0,
            lost: Rc::clone(lost),
            told: print::has_terminal_for_messages().then(Instant::now),
        })
    }

    fn take(&mut self, frame: &Frame) {
        let at = frame.stamp.earliest;
        let seconds = u32::try_from(at.as_secs()).unwrap_or(u32::MAX);
        let length = u32::try_from(frame.bytes.len()).unwrap_or(u32::MAX);
        self.part.clear();
        self.read = 0;
        for field in [seconds, at.subsec_nanos(), length, length] {
            self.part.extend(field.to_le_bytes());
        }
        self.part.extend(&frame.bytes);
        self.packets += 1;
    }

    fn tell(&mut self) {
        if let Some(told) = &mut self.told
            && told.elapsed() >= PROGRESS
        {
            *told = Instant::now();
            self.lost.set(self.socket.dropped());
            print::note(format_args!(
                "verbatim: {}: {}, {} lost by the capture",
                self.socket.interface(),
                counted(self.packets, "packet", "packets"),
                self.lost.get()
            ));
        }
    }
}

impl Read for Live {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read == self.part.len() {
            self.tell();
            if self.until.is_none() && self.is_over.load(Ordering::Relaxed) {
                self.until = Some(now());
            }
            let idle = self.until.map_or(IDLE, |_| Duration::ZERO);
            let frame = self.socket.receive(idle).map_err(io::Error::other)?;
            let is_late = |frame: &Frame| self.until.is_some_and(|until| frame.stamp.earliest > until);
            match frame {
                Some(frame) if !is_late(&frame) => self.take(&frame),
                None if self.until.is_none() => {}
                Some(_) | None => {
                    self.lost.set(self.socket.dropped());
                    return Ok(0);
                }
            }
        }
        let count = buffer.len().min(self.part.len() - self.read);
        buffer[..count].copy_from_slice(&self.part[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}
