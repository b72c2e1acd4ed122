//! Waiting for a descriptor with a bound.

use std::{
    io,
    os::fd::RawFd,
    time::{Duration, Instant},
};

/// Waits until `fd` has one of `events` (of `poll(2)`), an error or a hang-up, at most `timeout`; returns what it has,
/// 0 at the timeout. Signals do not shorten the wait.
pub(crate) fn wait(fd: RawFd, events: i16, timeout: Duration) -> io::Result<i16> {
    let start = Instant::now();
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    loop {
        let left = timeout.saturating_sub(start.elapsed());
        let left = libc::timespec {
            tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        // SAFETY: one entry and the time are ours and outlive the call; no signal mask.
        match unsafe { libc::ppoll(&raw mut entry, 1, &raw const left, std::ptr::null()) } {
            0 => return Ok(0),
            count if count > 0 => return Ok(entry.revents),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

/// Makes reads of `fd` return instead of waiting.
pub(crate) fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: fcntl on a descriptor that the caller holds open touches no memory.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: as above.
    if flags < 0 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
