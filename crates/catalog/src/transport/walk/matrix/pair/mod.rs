//! Rows with a connection between two adapters: the tester sends and sees no packets.
//!
//! A row is a list of posts of one end, with receives and a state of the other end. Each row runs twice: between the
//! DUT and the tester's adapter, and between two queue pairs of the tester's adapter. The second connection is the
//! control of the [rules](verbatim_oracle): it shows whether a wrong outcome may be the fault of the tester's adapter.
//!
//! False alarm: a fault of the tester's adapter does not show in the control if it cancels out between its two ends.

mod access;
mod atomics;
pub(super) mod family;
mod length;
mod order;
mod retry;
mod rnr;
mod scene;
mod sequence;

use core::time::Duration;

use verbatim_record::verbs::pb::{self, Operation as O, QpState};
use verbatim_record::verbs::{Command, Reply};
use verbatim_record::{Label, Side, Verbs, Wait, WcStatus, silence};
use verbatim_tester::peer::{ChannelOptions, PairEnd, labels};
use verbatim_tester::{Step, Tester};
use verbatim_wire::packet::{AckTimeout, RKey};

use crate::transport::rc::ask;
pub(super) use scene::Scene;
use scene::{Peer, Post, When, Wrong, is_atomic};

const FILL: Label<Verbs> = Label::new("fill the memory of an end");
const CLOSED: Label<Verbs> = Label::new("register memory that the device may not write");
const GONE: Label<Verbs> = Label::new("deregister the memory of the responder");
const PEER: Label<Verbs> = Label::new("change the state of the responder's queue pair");
const RECEIVE: Label<Verbs> = Label::new("post a receive of an end");
const POST: Label<Verbs> = Label::new("post a request of an end");
const HALT: Label<Verbs> = Label::new("move the requester's queue pair to error");
const LATE: Label<Wait> = Label::new("before the receive is posted or the responder is back");
const PENDING: Label<Wait> = Label::new("for a completion that must not come");
const SETTLED: Label<Wait> = Label::new("for data on its way, and late events");
const STATE: Label<Verbs> = Label::new("state of an end");
const READ: Label<Verbs> = Label::new("read the memory of an end");
const DESTROY: Label<Verbs> = Label::new("destroy the queue pair of an end");
const RELEASE: Label<Verbs> = Label::new("deregister the memory of an end");

/// Labels of all commands of the rows. The rules of the oracle judge the commands.
const COMMANDS: [Label<Verbs>; 11] = [
    FILL, CLOSED, GONE, PEER, RECEIVE, POST, HALT, STATE, READ, DESTROY, RELEASE,
];
const WAITS: [Label<Wait>; 3] = [LATE, PENDING, SETTLED];

/// Length of each end's memory in bytes: space for messages, then space for receives.
const MEMORY: u32 = 32 * 1024;
const RECEIVES: u32 = 16 * 1024;
/// Number of bytes between two messages. These bytes must keep their content.
const MARGIN: u32 = 32;
/// `wr_id` of the responder's first receive.
const FIRST_RECEIVE: u64 = 100;
/// `wr_id` of the requester's first receive. No message takes the requester's receives.
const OWN_RECEIVE: u64 = 200;
/// Number of receives of the requester.
const OWN_RECEIVES: u64 = 2;
/// Number of rows whose connections exist at the same time. These rows share the wait at the end.
const AT_A_TIME: usize = 8;
/// Number of queue pairs that a device must support to run [`AT_A_TIME`] rows at the same time.
const MANY: u32 = 2 * AT_A_TIME as u32;

/// The capabilities that both devices have.
pub(super) struct Devices {
    atomics: bool,
    /// Number of rows that run at the same time.
    at_a_time: usize,
}

/// Opens both devices.
pub(super) fn begin(t: &mut Tester<'_>) -> Step<Devices> {
    let mut devices = Devices {
        atomics: true,
        at_a_time: AT_A_TIME,
    };
    for side in [Side::Dut, Side::Tester] {
        if let Reply::Opened(facts) = t.verbs_must(labels::OPEN, side, Command::Open(pb::Open {}))? {
            devices.atomics &= facts.atomics;
            if facts.max_qp != 0 && facts.max_qp < MANY {
                devices.at_a_time = 1;
            }
        }
    }
    Ok(devices)
}

/// Runs rows.
pub(super) fn run(t: &mut Tester<'_>, devices: &Devices, scenes: &[Scene]) -> Step {
    let can_run = |scene: &&Scene| {
        scene.posts.iter().all(|post| {
            let has = match scene.asker {
                Side::Dut => t.offers(post.operation),
                Side::Tester => t.executes(post.operation),
            };
            has && (devices.atomics || !is_atomic(post.operation))
        })
    };
    let scenes: Vec<&Scene> = scenes.iter().filter(can_run).collect();
    for some in scenes.chunks(devices.at_a_time) {
        let mut open = Vec::new();
        for scene in some {
            open.extend(talk(t, scene)?);
        }
        t.wait_for(SETTLED, ask::ON_ITS_WAY)?;
        for connection in open {
            connection.close(t)?;
        }
    }
    Ok(())
}

/// Opens both connections of a row, posts the requests, and waits for the completions.
fn talk<'s>(t: &mut Tester<'_>, scene: &'s Scene) -> Step<Vec<Connection<'s>>> {
    let seed = t.random(&format!("row {}, memory", scene.number)).byte();
    let answerer = match scene.asker {
        Side::Dut => Side::Tester,
        Side::Tester => Side::Dut,
    };
    // The attributes of the DUT's end are values that the DUT supports. The control has the same attributes.
    let (asks, answers) = match scene.asker {
        Side::Dut => (t.nearest(&scene.asks), scene.answers),
        Side::Tester => (patient(t, scene), t.nearest(&scene.answers)),
    };
    let mut both = Vec::new();
    for sides in [[scene.asker, answerer], [Side::Tester; 2]] {
        let ends = t.open_pair_of([(sides[0], &asks), (sides[1], &answers)])?;
        let mut connection = Connection {
            scene,
            ends,
            closed: None,
            is_gone: false,
            receives: 0,
        };
        connection.prepare(t, seed)?;
        both.push(connection);
    }
    for connection in &mut both {
        // The control is open, so that its queue pairs get other numbers.
        if scene.peer == Peer::Destroyed {
            connection.destroy_responder(t)?;
        }
        if scene.when == When::Before && !matches!(scene.peer, Peer::Back) {
            connection.post_receives(t, scene.receives.len())?;
        }
        connection.post(t)?;
    }
    for (at, _) in scene.receives.iter().enumerate() {
        match scene.when {
            When::Late(late) if at == 0 => t.wait_for(LATE, late)?,
            When::EachLate(late) => t.wait_for(LATE, late)?,
            _ => continue,
        }
        for connection in &mut both {
            let count = if matches!(scene.when, When::Late(_)) {
                scene.receives.len()
            } else {
                1
            };
            connection.post_receives(t, count)?;
            if count == 1 && at + 1 < scene.receives.len() {
                connection.next(t)?;
            }
        }
    }
    if scene.peer == Peer::Back {
        let once = asks.timeout.duration().unwrap_or_default();
        t.wait_for(LATE, once * 3 / 2)?;
        for connection in &mut both {
            t.connect_end(&connection.ends[1])?;
            connection.post_receives(t, scene.receives.len())?;
        }
    }
    if scene.halts {
        t.wait_for(
            PENDING,
            silence::rc_lasts(4 * scene.answers.min_rnr_timer.duration(), asks.timeout, asks.retry_cnt),
        )?;
        for connection in &both {
            modify(t, HALT, &connection.ends[0], QpState::Err)?;
        }
    }
    for connection in &both {
        connection.finish(t)?;
    }
    Ok(both)
}

/// Returns the attributes of the tester's requester. The ACK timeout is long enough for the DUT's responses, unless the
/// row's responder never responds.
fn patient(t: &Tester<'_>, scene: &Scene) -> ChannelOptions {
    let mut asks = scene.asks;
    let tries = u32::from(asks.retry_cnt) + 1;
    let is_short = |timeout: AckTimeout| {
        timeout
            .duration()
            .is_some_and(|once| once * tries <= 2 * t.answer_time())
    };
    if matches!(scene.peer, Peer::Ready | Peer::Back) {
        while is_short(asks.timeout) && asks.timeout.0 < 31 {
            asks.timeout.0 += 1;
        }
    }
    asks
}

fn modify(t: &mut Tester<'_>, label: Label<Verbs>, end: &PairEnd, state: QpState) -> Step {
    let modify = Command::ModifyQp(pb::ModifyQp {
        qp: end.qp,
        state: state.into(),
        attributes: None,
    });
    t.verbs_must(label, end.side, modify).map(drop)
}

/// A connection of a row: the requester's end and the responder's end.
struct Connection<'s> {
    scene: &'s Scene,
    ends: [PairEnd; 2],
    /// Side and handle of memory that the device may not write: the requester's, or that of the responder's receives.
    closed: Option<(Side, u32)>,
    /// Whether the responder's queue pair is destroyed.
    is_gone: bool,
    /// Number of the responder's receives that are posted.
    receives: usize,
}

impl Connection<'_> {
    /// Fills the memory of both ends, posts the requester's receives, and moves the responder to its state.
    fn prepare(&mut self, t: &mut Tester<'_>, seed: u8) -> Step {
        for (at, end) in self.ends.iter().enumerate() {
            let mut bytes: Vec<u8> = (0..MEMORY).map(|offset| pattern(offset, seed ^ at as u8)).collect();
            if let Some(initial) = self.scene.initial.filter(|_| at == 1) {
                for post in 0..self.scene.posts.len() {
                    let offset = self.scene.offset(post) as usize;
                    bytes[offset..offset + 8].copy_from_slice(&initial.to_le_bytes());
                }
            }
            let fill = Command::WriteMemory(pb::WriteMemory {
                memory: end.memory.handle,
                offset: 0,
                bytes,
            });
            t.verbs_must(FILL, end.side, fill)?;
        }
        let is_closed = |post: &Post| post.wrong == Wrong::ClosedLocal;
        let closed = match (self.scene.closed_receives, self.scene.posts.iter().any(is_closed)) {
            (true, _) => Some(self.ends[1].side),
            (_, true) => Some(self.ends[0].side),
            _ => None,
        };
        if let Some(side) = closed {
            let register = Command::RegisterMemory(pb::RegisterMemory {
                length: MEMORY,
                access: Some(pb::Access::default()),
            });
            if let Reply::Memory(memory) = t.verbs_must(CLOSED, side, register)? {
                self.closed = Some((side, memory.memory));
            }
        }
        for n in 0..OWN_RECEIVES {
            let local = self.ends[0].memory.slice(RECEIVES + n as u32 * 64, 64);
            self.receive(t, 0, OWN_RECEIVE + n, local)?;
        }
        let answers = &self.ends[1];
        match self.scene.peer {
            Peer::Ready | Peer::Destroyed => {}
            Peer::In(state) => {
                modify(
                    t,
                    PEER,
                    answers,
                    if state == QpState::Init { QpState::Reset } else { state },
                )?;
                if state == QpState::Init {
                    t.init_end(answers)?;
                }
            }
            Peer::Back => modify(t, PEER, answers, QpState::Reset)?,
        }
        if self.scene.deregistered {
            let memory = answers.memory.handle;
            let gone = Command::DeregisterMemory(pb::DeregisterMemory { memory });
            t.verbs_must(GONE, answers.side, gone)?;
        }
        Ok(())
    }

    fn destroy_responder(&mut self, t: &mut Tester<'_>) -> Step {
        let PairEnd { side, qp, .. } = self.ends[1];
        self.is_gone = true;
        t.verbs_must(PEER, side, Command::DestroyQp(pb::DestroyQp { qp }))
            .map(drop)
    }

    fn receive(&self, t: &mut Tester<'_>, end: usize, wr_id: u64, local: pb::Slice) -> Step {
        let receive = Command::PostReceive(pb::PostReceive {
            qp: self.ends[end].qp,
            wr_id,
            local: Some(local),
        });
        t.verbs_must(RECEIVE, self.ends[end].side, receive).map(drop)
    }

    /// Posts the next receives of the responder.
    fn post_receives(&mut self, t: &mut Tester<'_>, count: usize) -> Step {
        for _ in 0..count {
            let at = self.receives;
            let lengths = &self.scene.receives;
            let before: u32 = lengths[..at]
                .iter()
                .map(|length| length.next_multiple_of(8) + MARGIN)
                .sum();
            let mut local = self.ends[1].memory.slice(RECEIVES + before, lengths[at]);
            if let Some((_, closed)) = self.closed.filter(|_| self.scene.closed_receives) {
                local.memory = closed;
            }
            self.receive(t, 1, FIRST_RECEIVE + at as u64, local)?;
            self.receives += 1;
        }
        Ok(())
    }

    fn post(&self, t: &mut Tester<'_>) -> Step {
        for at in 0..self.scene.posts.len() {
            let request = Command::PostSend(self.request(at));
            t.verbs_must(POST, self.ends[0].side, request)?;
        }
        Ok(())
    }

    fn request(&self, at: usize) -> pb::PostSend {
        let post = &self.scene.posts[at];
        let [asks, answers] = &self.ends;
        let offset = self.scene.offset(post.same_local_as.unwrap_or(at));
        let mut local = asks.memory.slice(offset, post.length);
        if let Some((_, closed)) = self.closed.filter(|_| post.wrong == Wrong::ClosedLocal) {
            local.memory = closed;
        }
        let there = self.scene.offset(post.same_remote_as.unwrap_or(at));
        let region = answers.memory.address;
        let (end, length) = (region + u64::from(MEMORY), u64::from(post.length));
        let RKey(r_key) = answers.memory.r_key;
        let (remote_address, r_key) = match post.wrong {
            Wrong::RKey(bit) => (region + u64::from(there), r_key ^ 1 << bit),
            Wrong::Beyond(by) => (end - length + u64::from(by), r_key),
            Wrong::Before(by) => (region.wrapping_sub(by.into()), r_key),
            Wrong::Shifted(by) => (region + u64::from(there + by), r_key),
            Wrong::None | Wrong::ClosedLocal => (region + u64::from(there), r_key),
        };
        let has_address = !matches!(post.operation, O::Send | O::SendImm);
        pb::PostSend {
            qp: asks.qp,
            wr_id: at as u64 + 1,
            operation: post.operation.into(),
            local: Some(local),
            signaled: post.signaled,
            fence: post.fence,
            solicited: post.solicited,
            remote_address: if has_address { remote_address } else { 0 },
            r_key: if has_address { r_key } else { 0 },
            compare: post.compare.or(self.scene.initial).unwrap_or_default(),
            swap_add: post.value,
            imm: post.value as u32,
            ..pb::PostSend::default()
        }
    }

    /// Waits for the next completion of a request. Receives of the requester do not count.
    fn next(&self, t: &mut Tester<'_>) -> Step<Option<WcStatus>> {
        let asks = &self.ends[0];
        let (own, other) = (&self.scene.asks, &self.scene.answers);
        let intervals = other.min_rnr_timer.duration() * (u32::from(own.rnr_retry) + 1);
        let timeout = match self.scene.asker {
            Side::Dut => t.nearest_timeout(own.timeout),
            Side::Tester => patient(t, self.scene).timeout,
        };
        let patience = silence::rc_lasts(intervals, timeout, own.retry_cnt);
        let until = t.now().after(patience + Duration::from_millis(100));
        while let Some(completion) = t.next_completion(asks.side, asks.qp, until)? {
            if completion.wr_id < FIRST_RECEIVE {
                return Ok(Some(WcStatus(completion.status)));
            }
        }
        Ok(None)
    }

    /// Waits until all signaled requests have completed, one has failed, or a completion is missing.
    fn finish(&self, t: &mut Tester<'_>) -> Step {
        let early = match self.scene.when {
            When::EachLate(_) => self.scene.receives.len().saturating_sub(1),
            _ => 0,
        };
        let mut left = self
            .scene
            .posts
            .iter()
            .filter(|post| post.signaled)
            .count()
            .saturating_sub(early);
        while left > 0 {
            match self.next(t)? {
                Some(WcStatus::SUCCESS) => left -= 1,
                // The wait at the end of the rows records the completions of the flushed requests.
                Some(_) | None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Reads the state and the memory of both ends, then destroys the queue pairs and deregisters the memory.
    fn close(self, t: &mut Tester<'_>) -> Step {
        for (at, end) in self.ends.iter().enumerate() {
            let is_gone = at == 1 && self.is_gone;
            if !is_gone {
                t.verbs(STATE, end.side, Command::QueryQp(pb::QueryQp { qp: end.qp }))?;
            }
            if !(at == 1 && self.scene.deregistered) {
                let from = Some(end.memory.slice(0, MEMORY));
                t.verbs(READ, end.side, Command::ReadMemory(pb::ReadMemory { from }))?;
            }
        }
        for (at, end) in self.ends.iter().enumerate() {
            if !(at == 1 && self.is_gone) {
                t.verbs(DESTROY, end.side, Command::DestroyQp(pb::DestroyQp { qp: end.qp }))?;
            }
        }
        let memory = self
            .ends
            .iter()
            .enumerate()
            .filter(|(at, _)| !(*at == 1 && self.scene.deregistered));
        let memory = memory.map(|(_, end)| (end.side, end.memory.handle));
        for (side, memory) in memory.chain(self.closed) {
            let release = Command::DeregisterMemory(pb::DeregisterMemory { memory });
            t.verbs(RELEASE, side, release)?;
        }
        Ok(())
    }
}

/// Returns the initial byte at an offset of memory. Bytes at nearby offsets differ, and records compress well.
fn pattern(offset: u32, seed: u8) -> u8 {
    let [low, middle, high, _] = offset.to_le_bytes();
    low.wrapping_add(middle.wrapping_mul(37)).wrapping_add(high) ^ seed
}
