//! The worker's side: the main thread runs the procedures, and another thread reads the stream.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use listenfd::ListenFd;
use prost::Message;
use signal_hook::consts::{SIGINT, SIGTERM};
use verbatim_proto::v1::{Cause, RunEvent, RunInfo};
use verbatim_proto::worker::{
    Check, Finished, FromWorker, Hello, Pong, Restore, RigText, Start, ToWorker, from_worker, to_worker,
};

use super::hung::Pulse;
use super::unit;
use crate::framing::Frames;
use verbatim_rig::{RigConfig, RigFile};
use verbatim_run::state::StateDirectory;
use verbatim_run::{self as run, Event, Request, RunError};

/// If the daemon reads nothing for this time, the worker treats it as dead.
const READS_WITHIN: Duration = Duration::from_secs(60);

/// The limit of a message to a worker in bytes. The ids of ten thousand tests fit.
const LONGEST_ORDER: usize = 1 << 20;

/// `verbatimd worker`: for the daemon, not for people.
#[derive(Clone, Debug, clap::Args)]
pub struct WorkerArguments {
    /// The socket that the daemon listens on
    #[arg(
        long,
        value_name = "PATH",
        required_unless_present = "activated",
        conflicts_with = "activated"
    )]
    connect: Option<PathBuf>,
    /// Started by a service manager, with a socket that the daemon connects to
    #[arg(long)]
    activated: bool,
    /// The state directory
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// The thread of the procedure counts as hung after this time without computing or waking up
    #[arg(long, value_name = "MS", default_value_t = 60_000)]
    hung_after_ms: u64,
}

impl WorkerArguments {
    /// Connects to the daemon.
    fn stream(&self) -> anyhow::Result<UnixStream> {
        if let Some(path) = &self.connect {
            return UnixStream::connect(path).with_context(|| {
                format!(
                    "no daemon listens at {}; `verbatimd worker` is for `verbatimd serve`, which starts it by itself",
                    path.display()
                )
            });
        }
        let listener = ListenFd::from_env().take_unix_listener(0).ok().flatten();
        let listener = listener.context(
            "no socket was passed on; `verbatimd worker --activated` is for verbatim-worker@RIG.socket, which starts it by \
             itself",
        )?;
        // Accept one connection only: each worker serves one connection.
        Ok(listener.accept().context("waiting for the daemon")?.0)
    }
}

/// Carries out one order of the daemon, and reports the result. Restores the device even if the daemon dies.
///
/// # Errors
/// When the daemon cannot be reached, or sends an invalid message.
pub fn work(arguments: &WorkerArguments) -> anyhow::Result<()> {
    let cancel = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&cancel)).context("catching SIGTERM and SIGINT")?;
    }
    if arguments.activated {
        unit::out_of_sight();
    }
    let stream = arguments.stream()?;
    stream.set_write_timeout(Some(READS_WITHIN))?;
    let out = Arc::new(Out {
        stream: Mutex::new(Some(stream.try_clone()?)),
        cancel: Arc::clone(&cancel),
    });
    out.send(from_worker::Message::Hello(Hello {
        pid: std::process::id(),
    }));
    let (orders, order) = mpsc::channel();
    let lease: Arc<OnceLock<Arc<run::Lease>>> = Arc::default();
    let junk = Arc::new(OnceLock::new());
    let mut reader = Reader {
        frames: Frames::new(LONGEST_ORDER),
        orders: Some(orders),
        pulse: Pulse::of_this_thread(Duration::from_millis(arguments.hung_after_ms)),
        out: Arc::clone(&out),
        cancel: Arc::clone(&cancel),
        lease: Arc::clone(&lease),
    };
    let found = Arc::clone(&junk);
    thread::Builder::new().name("stream".into()).spawn(move || {
        if let Err(what) = reader.follow(stream) {
            let _ = found.set(what);
        }
        // The daemon is dead or sent an invalid message: stop, restore and exit.
        reader.cancel.store(true, Ordering::Release);
    })?;
    // If the daemon dies before it sends an order, the channel closes.
    if let Ok(order) = order.recv() {
        let worker = Worker {
            arguments,
            out: &out,
            cancel,
            lease: lease.get().cloned().unwrap_or_default(),
        };
        worker.obey(order);
    }
    match junk.get() {
        None => Ok(()),
        Some(what) => anyhow::bail!(
            "the daemon sent an invalid message ({what}); the worker stops its work and restores the device; unless \
             another program used the socket, this is a defect of Verbatim"
        ),
    }
}

/// The connection to the daemon.
struct Out {
    /// `None` after a failed write to the daemon.
    stream: Mutex<Option<UnixStream>>,
    cancel: Arc<AtomicBool>,
}

impl Out {
    fn send(&self, message: from_worker::Message) {
        let bytes = FromWorker { message: Some(message) }.encode_length_delimited_to_vec();
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = stream.as_mut()
            && open.write_all(&bytes).is_err()
        {
            // Part of the message may have been sent, so no other message may follow.
            let _ = open.shutdown(std::net::Shutdown::Both);
            *stream = None;
            self.cancel.store(true, Ordering::Release);
        }
    }

    fn event(&self, event: Event) {
        self.send(from_worker::Message::Event(RunEvent {
            event: Some(event),
            ..RunEvent::default()
        }));
    }
}

/// An order of the daemon.
enum Order {
    Start(Start),
    Restore(Restore),
    Check(Check),
}

struct Reader {
    frames: Frames,
    orders: Option<mpsc::Sender<Order>>,
    pulse: Pulse,
    out: Arc<Out>,
    cancel: Arc<AtomicBool>,
    /// The lease of the run; empty until the order to start a run arrives.
    lease: Arc<OnceLock<Arc<run::Lease>>>,
}

impl Reader {
    /// Reads messages until the stream ends.
    fn follow(&mut self, mut stream: UnixStream) -> Result<(), String> {
        let mut piece = [0; 4096];
        loop {
            match stream.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(length) => self.frames.buffer().extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Ok(()),
            }
            while let Some(message) = self.frames.next::<ToWorker>().map_err(|junk| junk.to_string())? {
                self.take(message)?;
            }
        }
    }

    fn take(&mut self, message: ToWorker) -> Result<(), String> {
        let order = match message.message {
            Some(to_worker::Message::Cancel(_)) => {
                self.cancel.store(true, Ordering::Release);
                return Ok(());
            }
            Some(to_worker::Message::Ping(ping)) => {
                // If the thread of the procedure hangs, send no pong: the daemon then kills this process.
                if !self.pulse.hangs() {
                    self.out.send(from_worker::Message::Pong(Pong { number: ping.number }));
                }
                return Ok(());
            }
            Some(to_worker::Message::Lease(renewed)) => {
                if let Some(lease) = self.lease.get() {
                    lease.renew(renewed.until_boot_ns);
                    if renewed.gives_way {
                        lease.give_way();
                    }
                }
                return Ok(());
            }
            Some(to_worker::Message::Start(start)) => {
                if let Some(of) = start.lease {
                    let lease = run::Lease::new(of.token, of.until_boot_ns);
                    if of.gives_way {
                        lease.give_way();
                    }
                    // A lease is already set only if this is a second order, which is an error below.
                    let _ = self.lease.set(Arc::new(lease));
                }
                Order::Start(start)
            }
            Some(to_worker::Message::Restore(restore)) => Order::Restore(restore),
            Some(to_worker::Message::Check(check)) => Order::Check(check),
            None => return Err("of an unknown kind".into()),
        };
        let orders = self.orders.take().ok_or("a second task")?;
        // Never fails: the main thread waits for the order.
        let _ = orders.send(order);
        Ok(())
    }
}

struct Worker<'a> {
    arguments: &'a WorkerArguments,
    out: &'a Out,
    cancel: Arc<AtomicBool>,
    lease: Arc<run::Lease>,
}

/// Why the worker could not carry out its order.
struct Refusal {
    error: String,
    cause: Cause,
    not_restored: bool,
    gave_way: bool,
}

impl Refusal {
    fn of_operator(error: impl ToString) -> Self {
        Self {
            error: error.to_string(),
            cause: Cause::Operator,
            not_restored: false,
            gave_way: false,
        }
    }
}

impl Worker<'_> {
    /// Parses the rig that the daemon sent, and puts the rig's environment variables in force.
    fn rig(&self, text: Option<RigText>) -> Result<RigConfig, Refusal> {
        let text = text.unwrap_or_default();
        let file = RigFile::parse(text.toml.as_bytes(), text.path.as_ref()).map_err(Refusal::of_operator)?;
        let rig = file
            .rigs
            .into_iter()
            .next()
            .ok_or_else(|| Refusal::of_operator("no rig was given"))?;
        // Setting the environment restarts this process, which would lose the connection of an activated worker.
        if self.arguments.activated && !verbatim_rig::env::in_force(&rig) {
            return Err(Refusal::of_operator(format!(
                "the rig's `env` is not in the environment of its worker; print verbatim-worker@{name}.service.d/rig.conf anew: \
                 `verbatimd worker-unit {name}`",
                name = rig.name
            )));
        }
        verbatim_rig::env::enter(&rig).map_err(Refusal::of_operator)?;
        Ok(rig)
    }

    fn obey(&self, order: Order) {
        let done = match order {
            Order::Start(start) => self.start(start).map(Some),
            Order::Restore(restore) => self.restore(restore).map(|()| None),
            Order::Check(check) => self.check(check).map(|()| None),
        };
        self.out.send(from_worker::Message::Finished(match done {
            Ok(info) => Finished {
                info,
                ..Finished::default()
            },
            Err(refusal) => Finished {
                error: refusal.error,
                not_restored: refusal.not_restored,
                cause: refusal.cause.into(),
                gave_way: refusal.gave_way,
                ..Finished::default()
            },
        }));
    }

    fn start(&self, start: Start) -> Result<RunInfo, Refusal> {
        let mut rig = self.rig(start.rig)?;
        rig.read_deviations().map_err(Refusal::of_operator)?;
        let request = Request {
            id: start.run.parse().map_err(Refusal::of_operator)?,
            rig,
            spec: start.spec.unwrap_or_default(),
            record: Some(start.record.clone().into()),
            cancel: Arc::clone(&self.cancel),
            shrinks: true,
            rig_options: String::new(),
            lease: Arc::clone(&self.lease),
        };
        let state = StateDirectory::at(&self.arguments.state);
        let mut tell = |event| self.out.event(event);
        let done = match start.resume {
            None => run::execute_in(&request, Some(&state), &mut tell),
            Some(from) => {
                let from = run::Resume {
                    done: from.done,
                    lost: Some(from.lost).filter(|why| !why.is_empty()),
                    started_ns: from.started_ns,
                };
                run::resume(&request, &from, Some(&state), &mut tell)
            }
        };
        let report = done.map_err(|error| failure(&request.rig, &state, &error))?;
        super::pack(Path::new(&start.record), &mut tell);
        Ok(report.run)
    }

    fn restore(&self, restore: Restore) -> Result<(), Refusal> {
        let rig = self.rig(restore.rig)?;
        let state = StateDirectory::at(&self.arguments.state);
        let done = run::recover_only(&rig, &state, Arc::clone(&self.cancel), &mut |event| {
            self.out.event(event);
        });
        done.map(|_| ()).map_err(|error| failure(&rig, &state, &error))
    }

    fn check(&self, check: Check) -> Result<(), Refusal> {
        let rig = self.rig(check.rig)?;
        let state = StateDirectory::at(&self.arguments.state);
        let looked = run::look(&rig, Arc::clone(&self.cancel));
        looked.map_err(|error| failure(&rig, &state, &error))
    }
}

fn failure(rig: &RigConfig, state: &StateDirectory, error: &RunError) -> Refusal {
    Refusal {
        error: error.to_string(),
        cause: error.cause(),
        gave_way: matches!(error, RunError::GaveWay { .. }),
        not_restored: match error {
            RunError::Journal(_) | RunError::NotRestored { .. } => error.left_changed(),
            _ => run::is_left_changed(rig, state),
        },
    }
}
