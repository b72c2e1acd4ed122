//! A process that ends with its owner, such as ibsim or QEMU.

use std::{
    io,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::host::program;

/// A process that ends when its handle is dropped, and also when this process ends or is killed.
///
/// The kernel ends a child with the thread that started the child. A thread of a test may end while the process is
/// still needed, so a separate thread starts the process and waits for its end.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    ended: Arc<AtomicBool>,
    /// Dropped to end the process.
    hold: Option<mpsc::Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts the program `of`, with the arguments that `prepare` adds.
    pub(crate) fn start(prepare: impl FnOnce(&mut Command), of: &Path) -> io::Result<Process> {
        let mut command = match program("setpriv") {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL", "--"]).arg(of);
                command
            }
            None => Command::new(of),
        };
        prepare(&mut command);
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let (hold, held) = mpsc::channel();
        let (started, start) = mpsc::channel();
        let keeper = thread::Builder::new().name("keeper".into()).spawn(move || {
            let mut child = match command.spawn() {
                Ok(child) => child,
                Err(error) => {
                    let _ = started.send(Err(error));
                    return;
                }
            };
            // Close the descriptors that were made for the child; the command still holds them.
            drop(command);
            let _ = started.send(Ok(child.id()));
            while held.recv_timeout(Duration::from_millis(10)) == Err(mpsc::RecvTimeoutError::Timeout) {
                if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
                    seen.store(true, Ordering::Release);
                    return;
                }
            }
            let _ = child.kill();
            let _ = child.wait();
            seen.store(true, Ordering::Release);
        })?;
        let pid = start
            .recv()
            .map_err(|_| io::Error::other("the keeper thread ended"))??;
        Ok(Process {
            pid,
            ended,
            hold: Some(hold),
            keeper: Some(keeper),
        })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Ends the process, and returns when it has ended.
    pub(crate) fn kill(&mut self) {
        drop(self.hold.take());
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
