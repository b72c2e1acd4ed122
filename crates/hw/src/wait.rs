//! Waiting for a file descriptor with a time limit.

use std::{
    io,
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
};

/// The longest wait that the system supports.
const LONGEST: Duration = Duration::from_secs(i32::MAX as u64);

/// Waits at most `timeout` until `fd` has one of `events`, an error or a hang-up. Returns the events of `fd`, or no
/// events after the timeout. Signals do not shorten the wait.
pub(crate) fn wait(fd: BorrowedFd<'_>, events: PollFlags, timeout: Duration) -> io::Result<PollFlags> {
    let start = Instant::now();
    loop {
        let mut entry = [PollFd::new(fd, events)];
        let left = timeout.saturating_sub(start.elapsed()).min(LONGEST);
        match ppoll(&mut entry, Some(TimeSpec::from_duration(left)), None) {
            Ok(_) => return Ok(entry[0].revents().unwrap_or(PollFlags::POLLERR)),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Makes reads of `fd` return instead of blocking.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}
