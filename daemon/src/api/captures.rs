//! Captures of runs, made when clients read them. All clients that read a capture at the same time share one file. The
//! daemon makes one capture at a time, the identities in rotation, and stops when the last client has left.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::watch;
use tonic::Status;

use super::artifacts::{CAPTURE, unreadable};
use super::{errors, on_a_thread};
use crate::access::Identity;
use crate::store::captures;
use crate::turns::Turns;
use verbatim_run as run;

/// The captures that clients are reading or waiting for, by the directory of the record.
#[derive(Debug)]
pub(super) struct Captures {
    turns: Turns,
    wanted: Arc<Mutex<HashMap<PathBuf, Weak<Capture>>>>,
}

/// A capture that at least one client wants. Dropping it stops the work.
#[derive(Debug)]
pub(super) struct Capture {
    made: watch::Receiver<Option<Result<Arc<File>, Status>>>,
    is_unwanted: Arc<AtomicBool>,
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.is_unwanted.store(true, Ordering::Relaxed);
    }
}

impl Default for Captures {
    fn default() -> Self {
        Self {
            // Each capture needs memory for a whole record.
            turns: Turns::new(1, 1),
            wanted: Arc::default(),
        }
    }
}

impl Captures {
    /// Returns the capture of a record, which is made unless it is being read or made. The file stays the same for
    /// other clients while one holds the [`Capture`].
    pub(super) async fn get(&self, who: &Identity, record: PathBuf) -> Result<(Arc<File>, Arc<Capture>), Status> {
        self.get_by(who, record, make).await
    }

    async fn get_by<M>(&self, who: &Identity, record: PathBuf, make: M) -> Result<(Arc<File>, Arc<Capture>), Status>
    where
        M: FnOnce(&Path, &AtomicBool) -> Result<File, Status> + Send + 'static,
    {
        let capture = self.wanted(who, record, make);
        let mut made = capture.made.clone();
        let made = made.wait_for(Option::is_some).await.map(|made| made.clone());
        let ended = || errors::internal("the daemon failed to make the capture; please report this");
        let file = made.ok().flatten().ok_or_else(ended)??;
        Ok((file, capture))
    }

    fn wanted<M>(&self, who: &Identity, record: PathBuf, make: M) -> Arc<Capture>
    where
        M: FnOnce(&Path, &AtomicBool) -> Result<File, Status> + Send + 'static,
    {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(capture) = wanted.get(&record).and_then(Weak::upgrade) {
            return capture;
        }
        wanted.retain(|_, capture| capture.strong_count() > 0);
        let (tell, made) = watch::channel(None);
        let is_unwanted = Arc::new(AtomicBool::new(false));
        let capture = Arc::new(Capture {
            made,
            is_unwanted: Arc::clone(&is_unwanted),
        });
        wanted.insert(record.clone(), Arc::downgrade(&capture));
        drop(wanted);
        let (turns, who) = (self.turns.clone(), who.clone());
        tokio::spawn(async move {
            let _turn = tokio::select! {
                turn = turns.take(Some(&who)) => turn,
                () = tell.closed() => return,
            };
            let made = on_a_thread(move || make(&record, &is_unwanted)).await;
            tell.send_replace(Some(made.and_then(|made| made.map(Arc::new))));
        });
        capture
    }
}

/// Makes the capture of a record. Stops with an error once it is unwanted. Blocks on the disk.
fn make(record: &Path, is_unwanted: &AtomicBool) -> Result<File, Status> {
    // Write the capture to the state directory, because that disk is meant for large files. The file is unlinked
    // on return, so its space is freed when the last reader closes it.
    let beside = captures(record.ancestors().nth(3).unwrap_or(record));
    let place = fs::create_dir_all(&beside).and_then(|()| tempfile::tempdir_in(&beside));
    let place = place.map_err(|error| unreadable(&beside, &error))?;
    let path = place.path().join(CAPTURE);
    run::export_pcapng_until(record, &path, false, is_unwanted).map_err(|error| {
        let message = format!("the capture cannot be made: {error}");
        errors::not_found("CAPTURE_UNAVAILABLE", CAPTURE, &message)
    })?;
    File::open(&path).map_err(|error| unreadable(&path, &error))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use super::*;

    const RECORD: &str = "runs/1/record";

    fn file() -> File {
        tempfile::tempfile().unwrap()
    }

    #[tokio::test]
    async fn readers_share_a_capture() {
        let captures = Captures::default();
        let (many, other) = (Identity::User(1), Identity::User(2));
        let first = captures.get_by(&many, RECORD.into(), |_, _| Ok(file())).await.unwrap();
        let again = |_: &Path, _: &AtomicBool| panic!("it is made twice");
        let second = captures.get_by(&other, RECORD.into(), again).await.unwrap();
        assert!(Arc::ptr_eq(&first.0, &second.0));
        drop((first, second));
        let (made, is_made) = mpsc::channel();
        let anew = move |_: &Path, _: &AtomicBool| (Ok(file()), made.send(()).unwrap()).0;
        captures.get_by(&other, RECORD.into(), anew).await.unwrap();
        is_made.try_recv().unwrap();
        assert!(
            captures
                .wanted
                .lock()
                .unwrap()
                .values()
                .all(|capture| capture.strong_count() == 0)
        );
    }

    #[tokio::test]
    async fn work_stops_when_the_last_reader_leaves() {
        let captures = Captures::default();
        let who = Identity::User(1);
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let (stopped, has_stopped) = tokio::sync::oneshot::channel();
        let endless = move |_: &Path, is_unwanted: &AtomicBool| {
            begun.send(()).unwrap();
            let until = Instant::now() + Duration::from_secs(60);
            while !is_unwanted.load(Ordering::Relaxed) && Instant::now() < until {
                std::thread::yield_now();
            }
            stopped.send(is_unwanted.load(Ordering::Relaxed)).unwrap();
            Err(Status::cancelled("unwanted"))
        };
        let mut reader = Box::pin(captures.get_by(&who, RECORD.into(), endless));
        tokio::select! {
            _ = &mut reader => panic!("it is made"),
            begun = has_begun => begun.unwrap(),
        }
        let waits = captures.get_by(&who, "runs/2/record".into(), |_, _| Ok(file()));
        drop(reader);
        assert!(has_stopped.await.unwrap(), "the work goes on");
        waits.await.unwrap();
    }
}
