//! The lease under which a run uses its rig. The run checks the lease at each call to the hardware. The fence, a
//! file with the greatest token that used the rig, keeps out earlier leases.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nix::sys::stat::fstat;
use nix::time::{ClockId, clock_gettime};
use verbatim_record::{Span, Time};
use verbatim_tester::{Arrival, FileJournal, Rig, Step, Stimulus, Stop};

use crate::RunError;

/// Returns the nanoseconds since boot, including suspend. The host measures leases in this clock.
#[must_use]
pub fn boot_ns() -> u64 {
    // Every supported Linux has the clock; if it failed, every lease would count as over.
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::MAX, Duration::from);
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// A lease, shared by the run that uses it and the caller that renews it.
#[derive(Debug)]
pub struct Lease {
    token: u64,
    until_boot_ns: AtomicU64,
    gives_way: AtomicBool,
    /// The fence file of this lease, open while the lease is in use.
    fence: OnceLock<File>,
}

impl Default for Lease {
    /// Returns the lease of runs that need no lease: it has no token and never ends.
    fn default() -> Self {
        Self::new(0, u64::MAX)
    }
}

impl Lease {
    /// Creates a lease with this token, which ends at that instant of [`boot_ns`].
    #[must_use]
    pub fn new(token: u64, until_boot_ns: u64) -> Self {
        Self {
            token,
            until_boot_ns: until_boot_ns.into(),
            gives_way: AtomicBool::new(false),
            fence: OnceLock::new(),
        }
    }

    /// Sets a new end.
    pub fn renew(&self, until_boot_ns: u64) {
        self.until_boot_ns.store(until_boot_ns, Ordering::Release);
    }

    /// Asks the run to end before the next test, so that another lease can use the rig.
    pub fn give_way(&self) {
        self.gives_way.store(true, Ordering::Release);
    }

    /// Returns whether a daemon granted the lease. A run with a daemon's lease may wait for its device.
    pub(crate) fn is_of_a_daemon(&self) -> bool {
        self.token != 0
    }

    /// Returns whether the run was asked to give way.
    pub(crate) fn gives_way(&self) -> bool {
        self.gives_way.load(Ordering::Acquire)
    }

    /// Returns the remaining time; None if the lease is over.
    fn left(&self) -> Option<Duration> {
        let until = self.until_boot_ns.load(Ordering::Acquire);
        let left = until.saturating_sub(boot_ns());
        (left > 0).then(|| Duration::from_nanos(left))
    }

    /// Returns whether the lease is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.left().is_none()
    }

    /// Writes the fence: a file with the greatest token that used the rig. A lease with a smaller token is refused. The
    /// caller must hold the rig's journal, so that no other process writes the fence at the same time.
    ///
    /// # Errors
    /// When a greater token has used the rig, or the fence cannot be read or written.
    pub(crate) fn fence(&self, journals: &Path, rig: &str) -> Result<(), RunError> {
        if self.token == 0 {
            return Ok(());
        }
        let of_rig = FileJournal::directory(journals, rig);
        let path = of_rig.join(format!("{rig}.token"));
        let failed = |source| RunError::Fence {
            path: path.clone(),
            source,
        };
        let last = read_token(&path).map_err(failed)?;
        if last > self.token {
            return Err(RunError::Fenced {
                rig: rig.into(),
                token: self.token,
                last,
            });
        }
        if last < self.token {
            // Write atomically. A truncated number would admit earlier leases.
            let write = || {
                let mut file = tempfile::NamedTempFile::new_in(&of_rig)?;
                writeln!(file, "{}", self.token)?;
                file.as_file().sync_data()?;
                file.persist(&path)?;
                io::Result::Ok(())
            };
            write().map_err(failed)?;
        }
        // Keep the file open. After a later fence has replaced the file, the open file has no link.
        let file = File::open(&path).map_err(failed)?;
        self.fence.get_or_init(|| file);
        Ok(())
    }

    /// Returns whether another lease replaced this lease's fence. The rig's lock normally prevents that. The run still
    /// checks at each call, because the lock may have been removed.
    #[must_use]
    pub fn is_superseded(&self) -> bool {
        let stands = |fence: &File| fstat(fence).is_ok_and(|of| of.st_nlink > 0);
        self.fence.get().is_some_and(|fence| !stands(fence))
    }
}

/// Returns the greatest token in the fences of a journal directory. A daemon grants tokens above this one, even if
/// its own record of the last token is lost or old.
///
/// # Errors
/// When the directory or a fence in it cannot be read.
pub fn last_token(journals: &Path) -> Result<u64, RunError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| RunError::Fence { path, source }
    };
    let entries = match fs::read_dir(journals) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        read => read.map_err(failed(journals))?,
    };
    let mut last = 0;
    for entry in entries {
        let entry = entry.map_err(failed(journals))?;
        let Some(rig) = entry.file_name().to_str().map(str::to_owned) else {
            continue;
        };
        if entry.file_type().map_err(failed(&entry.path()))?.is_dir() {
            let path = entry.path().join(format!("{rig}.token"));
            last = last.max(read_token(&path).map_err(failed(&path))?);
        }
    }
    Ok(last)
}

/// Reads the token in a fence; 0 if there is none.
fn read_token(path: &Path) -> io::Result<u64> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        read => read?,
    };
    text.trim().parse().map_err(|_| {
        let what = format!(
            "expected a number (the token of the last lease), seen {:?}; remove the file once no process uses the rig",
            text.chars().take(40).collect::<String>()
        );
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}

/// A rig used under a lease. When the lease is over, the next send or wait tells the procedure to stop. After
/// that, the restore may still send and wait, unless another lease has superseded this one.
pub(crate) struct Leased {
    rig: Box<dyn Rig + Send>,
    lease: Arc<Lease>,
    told_sender: bool,
    told_waiter: bool,
}

/// Longest time from the lease's end until a wait reports it. A wait that would end sooner anyway is not
/// interrupted.
const SLICE: Duration = Duration::from_millis(100);

impl Leased {
    pub(crate) fn new(rig: Box<dyn Rig + Send>, lease: Arc<Lease>) -> Self {
        Self {
            rig,
            lease,
            told_sender: false,
            told_waiter: false,
        }
    }
}

impl Rig for Leased {
    fn now(&self) -> Time {
        self.rig.now()
    }

    fn send(&mut self, what: Stimulus<'_>) -> Step<Span> {
        // After a send or a wait has reported the end, the procedure has stopped, so this send belongs to the
        // restore.
        if self.lease.is_superseded() || !self.told_sender && !self.told_waiter && self.lease.is_over() {
            self.told_sender = true;
            return Err(Stop::LeaseEnded);
        }
        self.rig.send(what)
    }

    fn wait(&mut self, until: Time) -> Arrival {
        loop {
            let left = self.lease.left();
            if left.is_none() && !self.told_waiter {
                self.told_waiter = true;
                return Arrival::Stop(Stop::LeaseEnded);
            }
            let slice = match left {
                Some(left) => until.min(self.rig.now().after(left.max(SLICE))),
                None => until,
            };
            match self.rig.wait(slice) {
                Arrival::Deadline if slice < until => {}
                arrival => return arrival,
            }
        }
    }

    fn answers_within(&mut self, how_long: Duration) {
        self.rig.answers_within(how_long);
    }

    fn procedure_ended(&mut self) -> Step {
        self.rig.procedure_ended()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rig whose time passes only during waits.
    struct Clock(Time);

    impl Rig for Clock {
        fn now(&self) -> Time {
            self.0
        }
        fn send(&mut self, _: Stimulus<'_>) -> Step<Span> {
            Ok(Span::exactly(self.0))
        }
        fn wait(&mut self, until: Time) -> Arrival {
            self.0 = self.0.max(until);
            Arrival::Deadline
        }
    }

    fn leased(lease: &Arc<Lease>) -> Leased {
        Leased::new(Box::new(Clock(Time(0))), Arc::clone(lease))
    }

    #[test]
    fn ended_lease_allows_only_the_restore() {
        let lease = Arc::new(Lease::new(1, u64::MAX));
        let mut rig = leased(&lease);
        assert!(rig.send(Stimulus::Frame(0, &[])).is_ok());
        assert_eq!(rig.wait(Time(5)), Arrival::Deadline);
        lease.renew(0);
        assert_eq!(rig.send(Stimulus::Frame(0, &[])), Err(Stop::LeaseEnded));
        // The wait also reports the end, and the tester records it.
        assert_eq!(rig.wait(Time(6)), Arrival::Stop(Stop::LeaseEnded));
        assert!(rig.send(Stimulus::Frame(0, &[])).is_ok());
        assert_eq!(rig.wait(Time(7)), Arrival::Deadline);
        let mut waits = leased(&lease);
        assert_eq!(waits.wait(Time(5)), Arrival::Stop(Stop::LeaseEnded));
        assert!(waits.send(Stimulus::Frame(0, &[])).is_ok());
    }

    #[test]
    fn renewed_lease_lasts_through_a_long_wait() {
        let lease = Arc::new(Lease::new(1, boot_ns() + 3_600_000_000_000));
        let mut rig = leased(&lease);
        let hours = Time(10 * 3_600_000_000_000);
        // The wait is longer than the lease in the rig's time, but not by the host's clock.
        assert_eq!(rig.wait(hours), Arrival::Deadline);
        assert_eq!(rig.now(), hours);
        assert!(!lease.is_over());
        lease.renew(0);
        assert!(lease.is_over());
    }

    #[test]
    fn fence_refuses_earlier_leases() {
        let directory = tempfile::tempdir().unwrap();
        let of_rig = |rig| FileJournal::directory(directory.path(), rig);
        for rig in ["r", "another"] {
            fs::create_dir(of_rig(rig)).unwrap();
        }
        let fence = |token| Lease::new(token, u64::MAX).fence(directory.path(), "r");
        fence(7).unwrap();
        fence(7).unwrap();
        fence(9).unwrap();
        let error = fence(7).unwrap_err().to_string();
        assert!(error.contains("token 9") && error.contains("rig r"), "{error}");
        fence(0).unwrap();
        Lease::new(1, 0).fence(directory.path(), "another").unwrap();
        assert_eq!(last_token(directory.path()).unwrap(), 9);
        assert_eq!(last_token(&directory.path().join("none")).unwrap(), 0);
        assert_eq!(fs::read_dir(of_rig("r")).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn superseded_lease_cannot_send_at_all() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(FileJournal::directory(directory.path(), "r")).unwrap();
        let lease = |token| Arc::new(Lease::new(token, u64::MAX));
        let (first, again, second) = (lease(7), lease(7), lease(8));
        first.fence(directory.path(), "r").unwrap();
        let mut rig = leased(&first);
        assert!(rig.send(Stimulus::Frame(0, &[])).is_ok());
        // The same lease in a restarted worker.
        again.fence(directory.path(), "r").unwrap();
        assert!(rig.send(Stimulus::Frame(0, &[])).is_ok());
        second.fence(directory.path(), "r").unwrap();
        for _ in 0..3 {
            assert_eq!(rig.send(Stimulus::Frame(0, &[])), Err(Stop::LeaseEnded));
        }
        assert!(leased(&second).send(Stimulus::Frame(0, &[])).is_ok());
        assert!(!lease(0).is_superseded(), "who needs no lease has no fence");
    }

    #[test]
    fn damaged_fence_refuses_all_leases() {
        let directory = tempfile::tempdir().unwrap();
        let of_rig = FileJournal::directory(directory.path(), "r");
        fs::create_dir(&of_rig).unwrap();
        for damaged in ["", "12x"] {
            fs::write(of_rig.join("r.token"), damaged).unwrap();
            let error = Lease::new(7, u64::MAX)
                .fence(directory.path(), "r")
                .unwrap_err()
                .to_string();
            // The remedy for a damaged file is not that for a full disk.
            assert!(
                error.contains("remove the file") && !error.contains("free space"),
                "{error}"
            );
            assert!(last_token(directory.path()).is_err());
        }
    }
}
