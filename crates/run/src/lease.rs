//! The lease under which a run uses its rig: asked for at each call to the hardware, and a fence against who had it before.

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

/// Nanoseconds since the host started, also of the time that it slept: what leases are measured in within a host.
#[must_use]
pub fn boot_ns() -> u64 {
    // The clock is there on every Linux that this runs on; without it no lease would ever seem to be valid.
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::MAX, Duration::from);
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// A lease, as a run knows it. Renewing it is told to who holds the same.
#[derive(Debug)]
pub struct Lease {
    token: u64,
    until_boot_ns: AtomicU64,
    gives_way: AtomicBool,
    /// The fence that this lease put up, as long as it stands.
    fence: OnceLock<File>,
}

impl Default for Lease {
    /// Of who needs none: it has no token, and never ends.
    fn default() -> Self {
        Self::new(0, u64::MAX)
    }
}

impl Lease {
    /// With this token, until that instant of [`boot_ns`].
    #[must_use]
    pub fn new(token: u64, until_boot_ns: u64) -> Self {
        Self {
            token,
            until_boot_ns: until_boot_ns.into(),
            gives_way: AtomicBool::new(false),
            fence: OnceLock::new(),
        }
    }

    /// Lasts until another instant.
    pub fn renew(&self, until_boot_ns: u64) {
        self.until_boot_ns.store(until_boot_ns, Ordering::Release);
    }

    /// Somebody else is to have the rig before the next test.
    pub fn give_way(&self) {
        self.gives_way.store(true, Ordering::Release);
    }

    /// Whether a daemon gave it: then others may wait for the same device.
    pub(crate) fn is_of_a_daemon(&self) -> bool {
        self.token != 0
    }

    /// Whether it is to give way.
    pub(crate) fn gives_way(&self) -> bool {
        self.gives_way.load(Ordering::Acquire)
    }

    /// How long it still lasts; nothing when it is over.
    fn left(&self) -> Option<Duration> {
        let until = self.until_boot_ns.load(Ordering::Acquire);
        let left = until.saturating_sub(boot_ns());
        (left > 0).then(|| Duration::from_nanos(left))
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.left().is_none()
    }

    /// Puts the fence up for every lease before this one: a rig that a greater token has used is not used again by less.
    /// The caller holds the rig's journal, so that nobody does the same at the same time.
    ///
    /// # Errors
    /// When a greater token was here, or the fence cannot be read or written.
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
            // All of it or what was there before: half a number would let those in again who had the rig before.
            let write = || {
                let mut file = tempfile::NamedTempFile::new_in(&of_rig)?;
                writeln!(file, "{}", self.token)?;
                file.as_file().sync_data()?;
                file.persist(&path)?;
                io::Result::Ok(())
            };
            write().map_err(failed)?;
        }
        // Kept open: another fence takes the file's place, and this one's has no name any more.
        let file = File::open(&path).map_err(failed)?;
        self.fence.get_or_init(|| file);
        Ok(())
    }

    /// Whether another lease has put its fence in the place of this one's. Asked for at each call of a test: while a
    /// process lives it has the rig's lock, so that this comes only where that was taken away.
    #[must_use]
    pub fn is_superseded(&self) -> bool {
        let stands = |fence: &File| fstat(fence).is_ok_and(|of| of.st_nlink > 0);
        self.fence.get().is_some_and(|fence| !stands(fence))
    }
}

/// The greatest token that any rig of a directory of journals was used under: who gives tokens begins above it, also after
/// what kept the last one was lost or is of yesterday.
///
/// # Errors
/// When the directory or one of the fences in it cannot be read.
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

/// The token in a fence; 0 where there is none.
fn read_token(path: &Path) -> io::Result<u64> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        read => read?,
    };
    text.trim().parse().map_err(|_| {
        let what = format!(
            "expected the number of the last lease, seen {:?}; remove the file once no process uses the rig",
            text.chars().take(40).collect::<String>()
        );
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}

/// A rig that is used under a lease: once that is over, the procedure is told to stop, at the next call and at the next
/// wait, and what follows restores.
pub(crate) struct Leased {
    rig: Box<dyn Rig + Send>,
    lease: Arc<Lease>,
    told_sender: bool,
    told_waiter: bool,
}

/// The longest time in which the end of a lease is not seen by who waits; a shorter one is seen to its end.
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
        // Told at a wait, the procedure has stopped.
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

    /// A rig on which time passes when somebody waits.
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
    fn no_call_goes_out_once_the_lease_is_over_but_those_that_restore() {
        let lease = Arc::new(Lease::new(1, u64::MAX));
        let mut rig = leased(&lease);
        assert!(rig.send(Stimulus::Frame(0, &[])).is_ok());
        assert_eq!(rig.wait(Time(5)), Arrival::Deadline);
        lease.renew(0);
        assert_eq!(rig.send(Stimulus::Frame(0, &[])), Err(Stop::LeaseEnded));
        // A procedure that did not listen is told again, where it is remembered.
        assert_eq!(rig.wait(Time(6)), Arrival::Stop(Stop::LeaseEnded));
        assert!(rig.send(Stimulus::Frame(0, &[])).is_ok());
        assert_eq!(rig.wait(Time(7)), Arrival::Deadline);
        let mut waits = leased(&lease);
        assert_eq!(waits.wait(Time(5)), Arrival::Stop(Stop::LeaseEnded));
        assert!(waits.send(Stimulus::Frame(0, &[])).is_ok());
    }

    #[test]
    fn a_lease_that_is_renewed_lasts_and_a_long_wait_sees_its_end() {
        let lease = Arc::new(Lease::new(1, boot_ns() + 3_600_000_000_000));
        let mut rig = leased(&lease);
        let hours = Time(10 * 3_600_000_000_000);
        // In the rig's time the lease is over long before; by the host's clock it is not.
        assert_eq!(rig.wait(hours), Arrival::Deadline);
        assert_eq!(rig.now(), hours);
        assert!(!lease.is_over());
        lease.renew(0);
        assert!(lease.is_over());
    }

    #[test]
    fn who_had_a_rig_before_is_fenced_out() {
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
    fn no_call_goes_out_once_a_later_lease_has_used_the_rig_and_none_that_restores() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(FileJournal::directory(directory.path(), "r")).unwrap();
        let lease = |token| Arc::new(Lease::new(token, u64::MAX));
        let (first, again, second) = (lease(7), lease(7), lease(8));
        first.fence(directory.path(), "r").unwrap();
        let mut rig = leased(&first);
        assert!(rig.send(Stimulus::Frame(0, &[])).is_ok());
        // Its own worker, started again.
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
    fn a_damaged_fence_lets_nobody_in() {
        let directory = tempfile::tempdir().unwrap();
        let of_rig = FileJournal::directory(directory.path(), "r");
        fs::create_dir(&of_rig).unwrap();
        for damaged in ["", "12x"] {
            fs::write(of_rig.join("r.token"), damaged).unwrap();
            let error = Lease::new(7, u64::MAX).fence(directory.path(), "r").unwrap_err();
            assert!(error.to_string().contains("remove the file"), "{error}");
            assert!(last_token(directory.path()).is_err());
        }
    }
}
