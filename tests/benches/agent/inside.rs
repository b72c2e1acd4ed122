//! The part that runs inside the machine: an agent that serves rxe0, its client, and rxe1 as the tester's own device.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use verbatim_record::verbs::pb;
use verbatim_record::verbs::{Command, Event, Reply};
use verbatim_verbs::Limits;
use verbatim_verbs::clock::now_ns;
use verbatim_verbs::{AgentAddress, AgentClient, AgentMessage, LocalVerbs, Place, VerbsLink};

use super::ratio::quantile;

const AGENT: &str = "/run/agent.sock";
const BOUND: Duration = Duration::from_secs(20);
/// Number of rounds before the first measured round.
const WARM_UP: usize = 4;
/// Number of WRITEs in a batch. The client requests the whole batch at once, so that the agent posts the WRITEs
/// back to back, like the loop in C. Between two WRITEs the agent polls for completions.
const AT_ONCE: usize = 60;
/// Number of measured WRITEs at the end of a batch. The loop in C also runs unmeasured WRITEs first.
const COUNTED: usize = 30;
/// Bytes of memory that the agent registers before each batch. The registration takes longer than the client needs to
/// queue the WRITEs. The client is therefore idle while the agent performs the WRITEs, as with the loop in C.
const HOLD: u32 = 16 << 20;

/// One device and the objects made on it.
struct End<L> {
    link: L,
    last: u64,
    gid: pb::Gid,
    memory: pb::Memory,
    qp: pb::Qp,
}

/// Runs rounds of the agent's WRITEs and of the C loop's WRITEs in turn, so that other load on the machine affects
/// both.
pub(crate) fn run(c: &str, rounds: usize) -> anyhow::Result<()> {
    let (_agent, agent) = start_agent()?;
    let own = LocalVerbs::open("rxe1", 1, Limits::default()).map_err(anyhow::Error::msg)?;
    let (mut ours, mut theirs) = (End::make(agent)?, End::make(own)?);
    ours.connect(theirs.qp.qpn, &theirs.gid.gid)?;
    theirs.connect(ours.qp.qpn, &ours.gid.gid)?;
    let mut in_c = InC::start(c)?;
    let (mut agent, mut posting, mut c) = (Vec::new(), Vec::new(), Vec::new());
    let (mut arrived, mut overlapping) = (0, 0);
    for round in 0..WARM_UP + rounds {
        ours.hold()?;
        let writes = ours.write((round * AT_ONCE) as u64, &theirs.memory)?;
        let c_times = in_c.round()?;
        // Deregister after the loop in C has run, to keep this work of the kernel out of the measured time.
        ours.ask(Command::DeregisterMemory(pb::DeregisterMemory { memory: writes.held }))?;
        if round >= WARM_UP {
            arrived += usize::from(writes.put_ns < writes.done[0].posted_ns);
            for (at, write) in writes.done.iter().enumerate().skip(AT_ONCE - COUNTED) {
                let next = writes.done.get(at + 1);
                overlapping += usize::from(next.is_some_and(|next| next.posted_ns < write.completed_ns));
                agent.push(write.completed_ns.saturating_sub(write.posted_ns) as f64);
                posting.push(write.said_posted_ns.saturating_sub(write.posted_ns) as f64);
            }
            c.extend(c_times);
        }
    }
    println!("rounds={rounds} queued_before_the_first={arrived} posted_before_the_last_completed={overlapping}");
    ensure!(
        arrived * 10 >= rounds * 9 && overlapping * 100 <= rounds * COUNTED,
        "agent and loop in C did not do the same: expected nine rounds of ten with all WRITEs queued before the first, and at \
         most one WRITE of a hundred posted before the last one completed"
    );
    for (name, times) in [("agent", &mut agent), ("post", &mut posting), ("c", &mut c)] {
        let (p50, p99) = (quantile(times, 0.5), quantile(times, 0.99));
        println!("{name}_p50_ns={p50:.0} {name}_p99_ns={p99:.0}");
    }
    Ok(())
}

/// A batch of WRITEs, timed by the machine's clock.
struct Writes {
    /// Time at which the last WRITE of the batch was queued for the connection.
    put_ns: u64,
    /// Handle of the memory that was registered before the WRITEs.
    held: u32,
    done: Vec<WriteDone>,
}

/// Times of one WRITE: before its post, after its post, and after its completion was polled.
struct WriteDone {
    posted_ns: u64,
    said_posted_ns: u64,
    completed_ns: u64,
}

/// Starts a new agent for each measurement: under emulation, a program's place in memory affects its speed.
fn start_agent() -> anyhow::Result<(Process, AgentClient)> {
    let arguments = ["--listen", &format!("unix:{AGENT}"), "--device", "rxe0"];
    let mut command = std::process::Command::new("verbatim-agent");
    let mut agent = Process(command.args(arguments).stderr(Stdio::piped()).spawn()?);
    let mut said = BufReader::new(agent.0.stderr.take().context("what it says")?).lines();
    let listening = said.next().context("the agent ended, and said nothing")??;
    ensure!(listening.contains("listening on"), "the agent said {listening:?}");
    // Drain the agent's stderr, so that the agent never blocks on writing to it.
    std::thread::spawn(move || said.for_each(drop));
    let address = AgentAddress {
        place: Place::Unix(AGENT.into()),
        tls: None,
    };
    let client = AgentClient::connect(&address, BOUND).map_err(anyhow::Error::msg)?;
    Ok((agent, client))
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The running loop in C. It reads a line from its standard input before each round.
struct InC {
    process: Process,
    lines: Lines<BufReader<ChildStdout>>,
}

impl InC {
    fn start(path: &str) -> anyhow::Result<Self> {
        let mut command = std::process::Command::new(path);
        command.args(["rxe0", "rxe1", &COUNTED.to_string()]);
        let mut process = Process(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
        let lines = BufReader::new(process.0.stdout.take().context("its output")?).lines();
        Ok(Self { process, lines })
    }

    /// Runs one round; returns the time of each WRITE in nanoseconds.
    fn round(&mut self) -> anyhow::Result<Vec<f64>> {
        let go = self.process.0.stdin.as_mut().context("its input")?;
        go.write_all(b"\n")?;
        let line = self.lines.next().context("the loop in C ended")??;
        let times = line.split_whitespace().map(str::parse);
        let times: Vec<f64> = times.collect::<Result<_, _>>().with_context(|| line.clone())?;
        ensure!(times.len() == COUNTED, "the loop in C said {line:?}");
        Ok(times)
    }
}

impl<L: VerbsLink> End<L> {
    fn make(link: L) -> anyhow::Result<Self> {
        let mut end = Self {
            link,
            last: 0,
            gid: pb::Gid::default(),
            memory: pb::Memory::default(),
            qp: pb::Qp::default(),
        };
        let Reply::Opened(opened) = end.ask(Command::Open(pb::Open {}))? else {
            bail!("the device was not described");
        };
        let mapped = |gid: &pb::Gid| gid.gid.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
        end.gid = opened
            .gids
            .into_iter()
            .find(mapped)
            .context("no GID that is an IPv4 address")?;
        let register = pb::RegisterMemory {
            length: 4096,
            access: Some(pb::Access {
                local_write: true,
                remote_write: true,
                ..pb::Access::default()
            }),
        };
        let Reply::Memory(memory) = end.ask(Command::RegisterMemory(register))? else {
            bail!("no memory");
        };
        end.memory = memory;
        let create = pb::CreateQp {
            service: pb::Service::Rc.into(),
            send_depth: AT_ONCE as u32,
            receive_depth: 16,
        };
        let Reply::Qp(qp) = end.ask(Command::CreateQp(create))? else {
            bail!("no queue pair");
        };
        end.qp = qp;
        Ok(end)
    }

    /// Brings the QP to RTS, with the same attributes as the loop in C.
    fn connect(&mut self, qpn: u32, gid: &[u8]) -> anyhow::Result<()> {
        let init = pb::QpAttributes {
            pkey_index: Some(0),
            port: Some(1),
            access: Some(pb::Access {
                remote_write: true,
                ..pb::Access::default()
            }),
            ..pb::QpAttributes::default()
        };
        let rtr = pb::QpAttributes {
            path_mtu: Some(3),
            dest_qpn: Some(qpn),
            rq_psn: Some(0),
            max_dest_rd_atomic: Some(1),
            min_rnr_timer: Some(12),
            address: Some(pb::AddressVector {
                dgid: gid.to_vec(),
                sgid_index: self.gid.index,
                hop_limit: 64,
                ..pb::AddressVector::default()
            }),
            ..pb::QpAttributes::default()
        };
        let rts = pb::QpAttributes {
            sq_psn: Some(0),
            timeout: Some(14),
            retry_cnt: Some(7),
            rnr_retry: Some(7),
            max_rd_atomic: Some(1),
            ..pb::QpAttributes::default()
        };
        for (state, attributes) in [
            (pb::QpState::Init, init),
            (pb::QpState::Rtr, rtr),
            (pb::QpState::Rts, rts),
        ] {
            self.ask(Command::ModifyQp(pb::ModifyQp {
                qp: self.qp.qp,
                state: state.into(),
                attributes: Some(attributes),
            }))?;
        }
        Ok(())
    }

    /// Requests a memory registration that keeps the agent busy; [`End::write`] receives the response.
    fn hold(&mut self) -> anyhow::Result<()> {
        self.put(Command::RegisterMemory(pb::RegisterMemory {
            length: HOLD,
            access: None,
        }))
    }

    /// Queues WRITEs behind the registration of [`End::hold`], and waits until all WRITEs have completed.
    fn write(&mut self, first: u64, to: &pb::Memory) -> anyhow::Result<Writes> {
        let before = self.last;
        for wr_id in first..first + AT_ONCE as u64 {
            let post = pb::PostSend {
                qp: self.qp.qp,
                wr_id,
                operation: pb::Operation::Write.into(),
                local: Some(pb::Slice {
                    memory: self.memory.memory,
                    offset: 0,
                    length: 8,
                }),
                signaled: true,
                remote_address: to.address,
                r_key: to.r_key,
                ..pb::PostSend::default()
            };
            self.put(Command::PostSend(post))?;
        }
        let put_ns = now_ns();
        let (mut posted, mut completed, mut held) = ([None; AT_ONCE], [None; AT_ONCE], 0);
        while posted.iter().chain(&completed).any(Option::is_none) {
            match self.link.recv(BOUND)?.context("no answer, and no completion")? {
                AgentMessage::Answer(number, _, reply) if number == before => {
                    let Some(Reply::Memory(memory)) = reply.kind else {
                        bail!("no memory: {reply:?}")
                    };
                    held = memory.memory;
                }
                AgentMessage::Answer(number, at, reply) => {
                    ensure!(reply.kind == Some(Reply::Done(pb::Done {})), "posting: {reply:?}");
                    let place = posted.get_mut(number.wrapping_sub(before + 1) as usize);
                    *place.context("an answer to nothing")? = Some(at);
                }
                AgentMessage::Event(at, event) => match event.kind {
                    Some(Event::Completion(done)) => {
                        ensure!(done.status == 0, "a WRITE completed with status {}", done.status);
                        let place = completed.get_mut(done.wr_id.wrapping_sub(first) as usize);
                        *place.context("a completion of nothing")? = Some(at);
                    }
                    other => bail!("seen {other:?}"),
                },
            }
        }
        let both = posted.iter().zip(&completed);
        let done = both.filter_map(|(posted, completed)| posted.zip(*completed));
        let done = done.map(|(post, completion)| WriteDone {
            posted_ns: post.earliest_ns,
            said_posted_ns: post.latest_ns,
            completed_ns: completion.latest_ns,
        });
        Ok(Writes {
            put_ns,
            held,
            done: done.collect(),
        })
    }

    fn put(&mut self, command: Command) -> anyhow::Result<()> {
        self.last += 1;
        Ok(self
            .link
            .send(self.last, verbatim_proto::agent::Command { kind: Some(command) })?)
    }

    fn ask(&mut self, command: Command) -> anyhow::Result<Reply> {
        self.put(command)?;
        loop {
            let said = self.link.recv(BOUND)?.context("no answer")?;
            if let AgentMessage::Answer(number, _, reply) = said
                && number == self.last
            {
                return match reply.kind.context("an empty answer")? {
                    Reply::Refused(refused) => bail!("refused: {}", refused.text),
                    reply => Ok(reply),
                };
            }
        }
    }
}
