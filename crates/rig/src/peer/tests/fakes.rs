//! A link and a host that tests control. Clones share their state.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use verbatim_verbs::wake::Wake;

use verbatim_proto::agent as proto;

use super::*;
use verbatim_verbs::{AgentMessage, Gone};

pub(super) fn now() -> Duration {
    verbatim_hw::ether::now()
}

/// Returns a stamp with the source of an adapter.
pub(super) fn stamp(earliest: Duration, latest: Duration) -> Stamp {
    let source = verbatim_hw::ether::StampSource::Hardware;
    Stamp {
        earliest,
        latest,
        source,
    }
}

#[derive(Clone, Default)]
pub(super) struct FakeLink(Arc<(Mutex<LinkState>, Condvar)>);

#[derive(Default)]
struct LinkState {
    arrived: VecDeque<Taken>,
    sent: Vec<Vec<u8>>,
    refuses: Option<NotSent>,
    dead: Option<String>,
    dies_at_probe: Option<String>,
    lost: u64,
    flood: bool,
}

impl FakeLink {
    fn change(&self, change: impl FnOnce(&mut LinkState)) {
        change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
    }

    pub(super) fn arrive(&self, frame: u8, (earliest, latest): (Duration, Duration)) {
        self.change(|link| {
            link.arrived.push_back(Taken {
                at: stamp(earliest, latest),
                frame: Some(vec![frame]),
            });
        });
    }

    pub(super) fn pass(&self, at: Stamp) {
        self.change(|link| link.arrived.push_back(Taken { at, frame: None }));
    }

    pub(super) fn flood(&self) {
        self.change(|link| link.flood = true);
    }

    pub(super) fn refuse(&self, why: NotSent) {
        self.change(|link| link.refuses = Some(why));
    }

    pub(super) fn die(&self, why: &str) {
        self.change(|link| link.dead = Some(why.into()));
    }

    pub(super) fn die_at_probe(&self, why: &str) {
        self.change(|link| link.dies_at_probe = Some(why.into()));
    }

    pub(super) fn lose(&self, frames: u64) {
        self.change(|link| link.lost += frames);
    }

    pub(super) fn sent(&self) -> Vec<Vec<u8>> {
        self.0.0.lock().unwrap().sent.clone()
    }

    pub(super) fn until_taken(&self) {
        let state = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(state, |link| !link.arrived.is_empty()).unwrap());
    }
}

impl FrameLink for FakeLink {
    fn send(&mut self, frame: &[u8]) -> Result<Stamp, NotSent> {
        let mut state = self.0.0.lock().unwrap();
        if let Some(why) = state.refuses.take() {
            return Err(why);
        }
        state.sent.push(frame.to_vec());
        let at = now();
        Ok(stamp(at, at))
    }

    fn receive(&mut self, timeout: Duration) -> Result<Option<Taken>, String> {
        let quiet = |link: &mut LinkState| link.arrived.is_empty() && link.dead.is_none() && !link.flood;
        let state = self.0.0.lock().unwrap();
        let (mut state, _) = self.0.1.wait_timeout_while(state, timeout, quiet).unwrap();
        if let Some(why) = &state.dead {
            return Err(why.clone());
        }
        let next = state.arrived.pop_front();
        self.0.1.notify_all();
        let at = now();
        Ok(next.or_else(|| {
            state.flood.then(|| Taken {
                at: stamp(at, at),
                frame: Some(vec![0]),
            })
        }))
    }

    fn lost(&mut self) -> u64 {
        self.0.0.lock().unwrap().lost
    }

    fn probe(&mut self) -> Result<(), String> {
        self.0.0.lock().unwrap().dies_at_probe.clone().map_or(Ok(()), Err)
    }
}

#[derive(Clone, Debug)]
pub(super) struct FakeHost {
    wake: Arc<Wake>,
    state: Arc<Mutex<HostState>>,
}

#[derive(Debug, Default)]
struct HostState {
    said: VecDeque<AgentMessage>,
    gone: Option<String>,
    silent: bool,
    asked_for_signs: usize,
}

const AT: proto::Instant = proto::Instant {
    earliest_ns: 1_000,
    latest_ns: 2_000,
};

impl FakeHost {
    pub(super) fn new() -> Self {
        Self {
            wake: Arc::new(Wake::new().unwrap()),
            state: Arc::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, HostState> {
        self.state.lock().unwrap()
    }

    pub(super) fn say(&self, said: AgentMessage) {
        self.state().said.push_back(said);
        self.wake.wake();
    }

    pub(super) fn tell(&self, event: Event) {
        self.say(AgentMessage::Event(AT, proto::Event { kind: Some(event) }));
    }

    pub(super) fn answer(&self, number: u64, reply: Reply) {
        self.say(AgentMessage::Answer(number, AT, proto::Reply { kind: Some(reply) }));
    }

    pub(super) fn answer_nothing(&self, number: u64) {
        self.say(AgentMessage::Answer(number, AT, proto::Reply { kind: None }));
    }

    pub(super) fn go(&self, why: &str) {
        self.state().gone = Some(why.into());
        self.wake.wake();
    }

    pub(super) fn fall_silent(&self) {
        self.state().silent = true;
    }

    pub(super) fn asked_for_signs(&self) -> usize {
        self.state().asked_for_signs
    }
}

impl AsFd for FakeHost {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl VerbsLink for FakeHost {
    fn send(&mut self, number: u64, command: proto::Command) -> Result<(), Gone> {
        if let Some(why) = &self.state().gone {
            return Err(Gone(why.clone()));
        }
        if command.kind == Some(Command::QueryQp(pb::QueryQp { qp: 0 })) {
            let silent = {
                let mut state = self.state();
                state.asked_for_signs += 1;
                state.silent
            };
            if !silent {
                self.answer(number, refused(0, "no queue pair 0"));
            }
        }
        Ok(())
    }

    fn recv(&mut self, _: Duration) -> Result<Option<AgentMessage>, Gone> {
        self.wake.clear();
        let mut state = self.state();
        let said = state.said.pop_front();
        if !state.said.is_empty() || state.gone.is_some() {
            self.wake.wake();
        }
        match (said, &state.gone) {
            (None, Some(why)) => Err(Gone(why.clone())),
            (said, _) => Ok(said),
        }
    }
}
