//! `verbatim-agent`: verbs on demand on the host of a device under test.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook_tokio::Signals;
use tokio_stream::StreamExt as _;
use verbatim_agent::listen::Listen;
use verbatim_agent::log;
use verbatim_agent::server::{Options, Server};
use verbatim_hw::verbs::Library;
use verbatim_tls::ServerFiles;
use verbatim_verbs::device::Device;
use verbatim_verbs::{Limits, VerbsDevice};

/// Exit code for errors other than a malformed command line.
const ERROR: u8 = 3;

/// Opens an RDMA device of this host and executes the commands of Verbatim's testers: queue pairs, memory, requests.
/// When a tester leaves, its objects are destroyed.
#[derive(Parser)]
#[command(
    name = "verbatim-agent",
    version,
    after_help = "Any address except a loopback address needs the three --tls files; `verbatim pki init DIR` makes \
        them.\nSIGTERM and SIGINT end the sessions, destroy their objects, and stop the agent; SIGHUP reads the \
        certificates again."
)]
struct Arguments {
    /// Where to listen: unix:PATH, or IP:PORT such as 127.0.0.1:7000 or [::]:7000; port 0 lets the system choose
    #[arg(long, value_name = "ADDRESS")]
    listen: Listen,
    /// The device, as `ibv_devices` lists it
    #[arg(long, value_name = "NAME")]
    device: String,
    /// The device's port
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    port: u8,
    /// The agent's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "tls_client_ca")]
    tls_cert: Option<PathBuf>,
    /// The private key of the agent's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", requires = "tls_client_ca")]
    tls_key: Option<PathBuf>,
    /// The CA that signed the testers' certificates (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", requires = "tls_key")]
    tls_client_ca: Option<PathBuf>,
    /// The CA's list of revoked certificates (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_client_ca")]
    tls_crl: Option<PathBuf>,
    /// Memory that a session may register, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    max_memory: u32,
    /// Queue pairs that a session may have
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    max_qps: u32,
    /// Sessions that there may be at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    max_sessions: u32,
}

fn main() -> ExitCode {
    if let Some(done) = verbatim_manual::asked(<Arguments as clap::CommandFactory>::command) {
        return done;
    }
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log(verbatim_text::in_words(&*error));
            ExitCode::from(ERROR)
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    let (name, port) = (arguments.device, arguments.port);
    let tls = match (arguments.tls_cert, arguments.tls_key, arguments.tls_client_ca) {
        (Some(cert), Some(key), Some(client_ca)) => Some(ServerFiles {
            cert,
            key,
            client_ca,
            crl: arguments.tls_crl,
        }),
        _ => None,
    };
    let options = Options {
        listen: arguments.listen,
        tls: tls.clone(),
        device: name.clone(),
        limits: Limits {
            memory: u64::from(arguments.max_memory) << 20,
            queue_pairs: arguments.max_qps,
            ..Limits::default()
        },
        max_sessions: arguments.max_sessions,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("verbatim-agent")
        .enable_all()
        .build()
        .context("starting threads")?;
    let served = runtime.block_on(async {
        // From here on, a signal stops the agent cleanly.
        let mut told = Signals::new([SIGTERM, SIGINT]).context("catching SIGTERM and SIGINT")?;
        let mut hangup = Signals::new([SIGHUP]).context("catching SIGHUP")?;
        let server = Server::bind(options).await?;
        let library = Library::open()?;
        // Opens the device once at the start, so that a wrong name fails here and not at the first tester.
        let found = VerbsDevice::open(&library, &name, port)?.describe()?;
        let line = format!(
            "listening on {}, device {} port {} (state {}, {} GIDs)",
            server.address(),
            found.device,
            found.port,
            found.port_state,
            found.gids.len()
        );
        log(line);
        let open = move || VerbsDevice::open(&library, &name, port);
        let gate = server.gate().zip(tls);
        let again = async {
            while hangup.next().await.is_some() {
                let Some((gate, files)) = &gate else {
                    continue;
                };
                match gate.reload(files) {
                    Ok(()) => log("the certificates were read again"),
                    Err(error) => log(format_args!("certificates stay as they were: {error}")),
                }
            }
        };
        let stop = async {
            tokio::select! {
                _ = told.next() => {}
                () = again => {}
            }
        };
        server.serve(open, stop).await?;
        anyhow::Ok(())
    });
    // A session that still hangs in a call of the driver ends with the process.
    runtime.shutdown_background();
    served
}
