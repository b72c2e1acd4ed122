//! The packet peer: a rig as the daemon opens it, with an agent that serves a fake device.

use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use verbatim_agent::listen::Listen;
use verbatim_agent::server::{Options, Server};
use verbatim_rig::{RigFile, Session};
use verbatim_tester::{Arrival, Rig, Stimulus, Stop};
use verbatim_verbs::Limits;
use verbatim_verbs_fake::Strings;
use verbatim_wire::packet::packet;
use verbatim_wire::{Aeth, CreditCode, Medium, Network, Opcode, Packet, Syndrome, Transport};

use super::station;

/// Responds to frames until standard input ends.
pub(crate) fn serve(interface: &str) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join("agent.sock");
    start_agent(Listen::Unix(socket))?;
    let text = format!(
        "config_version = 1\n[[rig]]\nname = \"p\"\nkind = \"packet\"\nip = \"{}\"\nmac = \"{}\"\n\
         interface = \"{interface}\"\nagent = \"unix:agent.sock\"\n",
        station(2).ip,
        station(2).mac
    );
    let file = directory.path().join("rigs.toml");
    let config = RigFile::parse(text.as_bytes(), &file)?.find("p")?.clone();
    let cancel = Arc::new(AtomicBool::new(false));
    let open = verbatim_rig::open(&config, Arc::clone(&cancel))?;
    let Session::Real(mut rig) = open.session else {
        bail!("the rig must be real");
    };
    println!("ready");
    std::io::stdout().flush()?;
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        cancel.store(true, Ordering::Release);
    });
    answer(rig.as_mut())
}

fn answer(rig: &mut dyn Rig) -> anyhow::Result<()> {
    loop {
        let until = rig.now().after(Duration::from_secs(1));
        match rig.wait(until) {
            Arrival::Frame(port, _, frame) => {
                let Some(answer) = ack(&frame) else { continue };
                rig.send(Stimulus::Frame(port, &answer))
                    .map_err(|stop| anyhow::anyhow!("sending: {stop:?}"))?;
            }
            Arrival::Stop(Stop::Cancelled) => return Ok(()),
            Arrival::Stop(stop) => bail!("{stop:?}"),
            _ => {}
        }
    }
}

/// Returns the ACK of a request, or `None` if its ICRC is wrong.
fn ack(frame: &[u8]) -> Option<Vec<u8>> {
    let request = Packet::parse(Medium::Ethernet, frame).ok()?;
    if !request.icrc_is_right() {
        return None;
    }
    let transport = Transport {
        bth: request
            .bth()
            .with_opcode(Opcode::RC_ACKNOWLEDGE)
            .with_ack_request(false),
        aeth: Some(Aeth::default().with_syndrome(Syndrome::ack(CreditCode(31)))),
        ..Transport::default()
    };
    Some(packet(&Network::roce_v2(&station(2), &station(1)), &transport))
}

/// Starts an agent in this process; the agent ends when the process ends.
fn start_agent(listen: Listen) -> anyhow::Result<()> {
    let (put, listens) = sync_channel(1);
    let strings = Mutex::new(Strings::default());
    thread::spawn(move || {
        let serve = async {
            let options = Options {
                listen,
                tls: None,
                device: "fake0".into(),
                limits: Limits::default(),
                max_sessions: 1,
            };
            let server = Server::bind(options).await?;
            let _ = put.send(Ok(()));
            let open = move || Ok(strings.lock().unwrap_or_else(std::sync::PoisonError::into_inner).open());
            server.serve(open, std::future::pending()).await?;
            anyhow::Ok(())
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let done = runtime.context("a runtime").and_then(|runtime| runtime.block_on(serve));
        if let Err(error) = done {
            let _ = put.send(Err(error));
        }
    });
    listens.recv().context("the agent ended")?
}
