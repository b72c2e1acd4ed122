//! A proxy on the cable, which can cut the cable at the tester's n-th MAD.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use verbatim_rig::model::datagram::{Message, decode};

/// Interval at which the threads check whether they must end.
const TURN: Duration = Duration::from_millis(20);

/// Name of the socket towards the model.
const OURS: &str = "proxy-model.socket";

/// The moment of the cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Number of the tester's MAD, from 1.
    pub(crate) mad: usize,
    /// Whether the device still gets this MAD. In either case the tester gets no further response.
    pub(crate) arrives: bool,
}

/// Forwards datagrams in both directions until the cut.
pub(crate) struct Proxy {
    /// The socket to name in the tester's rig file.
    pub(crate) socket: PathBuf,
    reached: Receiver<()>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    tester: Mutex<Option<PathBuf>>,
    mads: AtomicUsize,
    cut: AtomicBool,
    stop: AtomicBool,
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Acquire)
    }
}

impl Proxy {
    /// Starts a proxy between the clients of a new socket in this directory and the model at `model`.
    pub(crate) fn start(directory: &Path, model: &Path, moment: Option<Moment>) -> Self {
        let socket = directory.join("proxy.socket");
        let ours = directory.join(OURS);
        let (front, back) = (UnixDatagram::bind(&socket).unwrap(), UnixDatagram::bind(&ours).unwrap());
        back.connect(model).unwrap();
        for socket in [&front, &back] {
            socket.set_read_timeout(Some(TURN)).unwrap();
        }
        let shared = Arc::<Shared>::default();
        let (reach, reached) = mpsc::channel();
        let forth = {
            let (shared, front, back) = (
                Arc::clone(&shared),
                front.try_clone().unwrap(),
                back.try_clone().unwrap(),
            );
            move || {
                let mut buffer = [0; 512];
                while shared.goes_on() {
                    let Ok((length, from)) = front.recv_from(&mut buffer) else {
                        continue;
                    };
                    *shared.tester.lock().unwrap() = from.as_pathname().map(Path::to_path_buf);
                    let is_mad = matches!(decode(&buffer[..length]), Ok(Message::Mad(_)));
                    let mad = shared.mads.fetch_add(usize::from(is_mad), Ordering::AcqRel) + 1;
                    let passes = match moment {
                        Some(moment) if is_mad && mad >= moment.mad => {
                            // Set the flag before the device can respond, so that the tester gets no response.
                            shared.cut.store(true, Ordering::Release);
                            mad == moment.mad && moment.arrives
                        }
                        _ => true,
                    };
                    if passes {
                        back.send(&buffer[..length]).unwrap();
                    }
                    if shared.cut.load(Ordering::Acquire) {
                        let _ = reach.send(());
                    }
                }
            }
        };
        let fro = {
            let shared = Arc::clone(&shared);
            move || {
                let mut buffer = [0; 512];
                while shared.goes_on() {
                    let Ok(length) = back.recv(&mut buffer) else { continue };
                    if shared.cut.load(Ordering::Acquire) {
                        continue;
                    }
                    if let Some(tester) = &*shared.tester.lock().unwrap() {
                        // The tester may have ended.
                        let _ = front.send_to(&buffer[..length], tester);
                    }
                }
            }
        };
        let threads = vec![thread::spawn(forth), thread::spawn(fro)];
        Self {
            socket,
            reached,
            shared,
            threads,
        }
    }

    /// Waits a moment for the cut. Returns whether the cable is cut.
    pub(crate) fn is_cut(&self) -> bool {
        self.reached.recv_timeout(TURN).is_ok()
    }

    /// Returns the number of the tester's MADs so far.
    pub(crate) fn mads(&self) -> usize {
        self.shared.mads.load(Ordering::Acquire)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // A process that another thread is starting may hold the sockets a little longer. Without its name, the model
        // does not count the socket as a tester.
        for socket in [self.socket.clone(), self.socket.with_file_name(OURS)] {
            let _ = std::fs::remove_file(socket);
        }
    }
}
