//! The worker's end: the procedures run in the main thread, another one reads the stream.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use verbatim_catalog::TESTS;
use verbatim_proto::worker::{Begun, Ended, Finished, FromWorker, Hello, Pong, Recovered, Step, ToWorker};
use verbatim_proto::worker::{Restore, Start, from_worker, to_worker};
use verbatim_record::Cause;

use super::BUILD_ID;
use super::frame::{self, Frames};
use super::hung::Pulse;
use verbatim_rig::{RigConfig, RigFile};
use verbatim_run::state::StateDirectory;
use verbatim_run::{self as run, Event, Request, RunError};

/// After so long a daemon that reads nothing is taken to be gone.
const READS_WITHIN: Duration = Duration::from_secs(10);

/// `verbatimd worker`: for the daemon, not for people.
#[derive(Clone, Debug, clap::Args)]
pub struct WorkerArguments {
    /// The socket that the daemon listens on
    #[arg(long, value_name = "PATH")]
    connect: PathBuf,
    /// The state directory
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// What the daemon knows of the rig
    #[arg(long, value_name = "HEX")]
    rig_digest: String,
    /// After how long without a sign of life the thread of the procedure counts as hung
    #[arg(long, value_name = "MS", default_value_t = 60_000)]
    hung_after_ms: u64,
}

/// What daemon and worker compare, so that both mean the same rig.
#[must_use]
pub fn digest(rig: &RigConfig) -> String {
    let mut hasher = DefaultHasher::new();
    format!("{rig:?}").hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Does what the daemon asks for, once, and tells it. Whatever happens to the daemon, the device is restored.
///
/// # Errors
/// When the daemon cannot be reached, or sends what is no message.
pub fn work(arguments: &WorkerArguments) -> anyhow::Result<()> {
    let cancel = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&cancel)).context("catching SIGTERM and SIGINT")?;
    }
    let stream = UnixStream::connect(&arguments.connect).with_context(|| {
        format!(
            "no daemon listens at {}; `verbatimd worker` is for `verbatimd serve`, which starts it by itself",
            arguments.connect.display()
        )
    })?;
    stream.set_write_timeout(Some(READS_WITHIN))?;
    let out = Arc::new(Out {
        stream: Mutex::new(Some(stream.try_clone()?)),
        cancel: Arc::clone(&cancel),
    });
    out.send(from_worker::Message::Hello(Hello {
        build_id: BUILD_ID.into(),
        pid: std::process::id(),
    }));
    let (orders, order) = mpsc::channel();
    let junk = Arc::new(OnceLock::new());
    let mut reader = Reader {
        frames: Frames::new(frame::TO_WORKER),
        orders: Some(orders),
        pulse: Pulse::of_this_thread(Duration::from_millis(arguments.hung_after_ms)),
        out: Arc::clone(&out),
        cancel: Arc::clone(&cancel),
    };
    let found = Arc::clone(&junk);
    thread::Builder::new().name("stream".into()).spawn(move || {
        if let Err(what) = reader.follow(stream) {
            let _ = found.set(what);
        }
        // The daemon is gone, or cannot be understood: stop, restore, exit.
        reader.cancel.store(true, Ordering::Release);
    })?;
    // Nothing comes when the daemon is gone before it asked for anything.
    if let Ok(order) = order.recv() {
        let worker = Worker {
            arguments,
            out: &out,
            cancel,
        };
        worker.obey(order);
    }
    match junk.get() {
        None => Ok(()),
        Some(what) => anyhow::bail!(
            "the daemon sent what is no message to a worker: {what}; whatever was under way is stopped and restored; if \
             this is no accident of another program at {}, it is a defect of Verbatim",
            arguments.connect.display()
        ),
    }
}

/// The way to the daemon.
struct Out {
    /// None once the daemon is gone.
    stream: Mutex<Option<UnixStream>>,
    cancel: Arc<AtomicBool>,
}

impl Out {
    fn send(&self, message: from_worker::Message) {
        let bytes = frame::encode(&FromWorker { message: Some(message) });
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = stream.as_mut()
            && open.write_all(&bytes).is_err()
        {
            // A message that is cut must be the last.
            let _ = open.shutdown(std::net::Shutdown::Both);
            *stream = None;
            self.cancel.store(true, Ordering::Release);
        }
    }

    fn event(&self, event: &Event<'_>) {
        self.send(match event {
            Event::Begun(test, place, total) => from_worker::Message::Begun(Begun {
                test: test.id.into(),
                place: u32::try_from(*place).unwrap_or(u32::MAX),
                total: u32::try_from(*total).unwrap_or(u32::MAX),
            }),
            Event::Step(label) => from_worker::Message::Step(Step { label: (*label).into() }),
            Event::Ended(verdict) => from_worker::Message::Ended(Ended {
                verdict_json: json(verdict),
            }),
            Event::Recovered(areas) => from_worker::Message::Recovered(Recovered {
                areas_json: areas.iter().map(json).collect(),
            }),
        });
    }
}

fn json(of: &impl Serialize) -> String {
    serde_json::to_string(of).expect("plain data")
}

/// What the daemon asks for.
enum Order {
    Start(Start),
    Restore(Restore),
}

struct Reader {
    frames: Frames,
    orders: Option<mpsc::Sender<Order>>,
    pulse: Pulse,
    out: Arc<Out>,
    cancel: Arc<AtomicBool>,
}

impl Reader {
    /// Reads until the stream ends.
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
                // Unanswered, it makes the daemon end this process.
                if !self.pulse.hangs() {
                    self.out.send(from_worker::Message::Pong(Pong { number: ping.number }));
                }
                return Ok(());
            }
            Some(to_worker::Message::Start(start)) => Order::Start(start),
            Some(to_worker::Message::Restore(restore)) => Order::Restore(restore),
            None => return Err("a message that this build does not know".into()),
        };
        let orders = self.orders.take().ok_or("a second thing to do")?;
        // The main thread waits for it.
        let _ = orders.send(order);
        Ok(())
    }
}

struct Worker<'a> {
    arguments: &'a WorkerArguments,
    out: &'a Out,
    cancel: Arc<AtomicBool>,
}

/// Why there is no report.
struct Refusal {
    error: String,
    cause: Cause,
    not_restored: bool,
}

impl Worker<'_> {
    fn obey(&self, order: Order) {
        let done = match order {
            Order::Start(start) => self.start(start).map(|report| json(&report)),
            Order::Restore(restore) => self.restore(&restore).map(|()| String::new()),
        };
        self.out.send(from_worker::Message::Finished(match done {
            Ok(report_json) => Finished {
                report_json,
                ..Finished::default()
            },
            Err(refusal) => Finished {
                error: refusal.error,
                not_restored: refusal.not_restored,
                cause: refusal.cause.to_string(),
                ..Finished::default()
            },
        }));
    }

    fn start(&self, start: Start) -> Result<run::Report, Refusal> {
        let rig = self.rig(&start.rig_file, &start.rig)?;
        let find = |id: &String| TESTS.iter().copied().find(|test| test.id == id);
        let tests = start
            .tests
            .iter()
            .map(|id| find(id).ok_or(id))
            .collect::<Result<_, _>>();
        let request = Request {
            id: (!start.run.is_empty()).then_some(start.run),
            rig,
            tests: tests.map_err(|id| {
                let error = format!("the catalogue of this build has no test {id}; `verbatim tests` lists them all");
                self.refusal(error, Cause::Tester, false)
            })?,
            parameters: start.parameters.into_iter().collect(),
            seed: start.seed,
            record: (!start.record.is_empty()).then(|| start.record.into()),
            cancel: Arc::clone(&self.cancel),
        };
        let state = StateDirectory::at(&self.arguments.state);
        run::execute_in(&request, Some(&state), &mut |event| self.out.event(&event))
            .map_err(|error| self.failure(&request.rig, &state, &error))
    }

    fn restore(&self, restore: &Restore) -> Result<(), Refusal> {
        let rig = self.rig(&restore.rig_file, &restore.rig)?;
        let state = StateDirectory::at(&self.arguments.state);
        let done = run::recover_only(&rig, &state, Arc::clone(&self.cancel), &mut |event| {
            self.out.event(&event);
        });
        done.map(|_| ()).map_err(|error| self.failure(&rig, &state, &error))
    }

    fn failure(&self, rig: &RigConfig, state: &StateDirectory, error: &RunError) -> Refusal {
        let left_changed = match error {
            RunError::Journal(_) | RunError::NotRestored { .. } => error.left_changed(),
            _ => run::is_left_changed(rig, state),
        };
        self.refusal(error.to_string(), error.cause(), left_changed)
    }

    fn refusal(&self, error: String, cause: Cause, not_restored: bool) -> Refusal {
        Refusal {
            error,
            cause,
            not_restored,
        }
    }

    /// The rig, as the daemon knows it, with its environment in force.
    fn rig(&self, file: &str, name: &str) -> Result<RigConfig, Refusal> {
        let operator = |error: String| self.refusal(error, Cause::Operator, false);
        let all = match file {
            "" => RigFile::built_in(),
            path => RigFile::read(Path::new(path)).map_err(|error| operator(error.to_string()))?,
        };
        let rig = all.find(name).map_err(|error| operator(error.to_string()))?.clone();
        if digest(&rig) != self.arguments.rig_digest {
            return Err(operator(format!(
                "rig {name} is not the one that the daemon knows: {file} was changed since the daemon read it; restart the \
                 daemon, then run again"
            )));
        }
        verbatim_rig::env::enter(&rig).map_err(|error| operator(error.to_string()))?;
        Ok(rig)
    }
}
