//! A fake device in memory, for tests.
//!
//! The device logs every creation and destruction in order. The test determines when a request completes. After
//! [`Strings::follow_states`], requests complete only in state ERR, as on a real device that never sends.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use verbatim_proto::agent::{Gid, Opened};
use verbatim_verbs::clock::now_ns;
use verbatim_verbs::device::{Completed, Device, Failure, Memory, Pair, Report};
use verbatim_verbs::values::{SendPost, WorkRequest};
use verbatim_wire::Psn;
use verbatim_wire::verbs::{Access, QpAttributes, QpState, QpStatus, Service};

/// Controls of a fake device: the test reads the device's log and sets the device's behaviour. Clones share one
/// state.
#[derive(Clone, Debug, Default)]
pub struct Strings {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    log: Vec<String>,
    completions: VecDeque<(u32, Completed)>,
    reports: VecDeque<Report>,
    gone: Option<String>,
    failures: VecDeque<Failure>,
    next_qpn: u32,
    memories: u32,
    complete_at_once: bool,
    follows_states: bool,
}

impl Strings {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self, line: String) {
        self.lock().log.push(line);
    }

    fn call(&self, line: String) -> Result<(), Failure> {
        let mut inner = self.lock();
        if let Some(failure) = inner.failures.pop_front() {
            return Err(failure);
        }
        inner.log.push(line);
        Ok(())
    }

    /// Returns the log so far and empties it.
    pub fn taken_log(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().log)
    }

    /// Returns the existing objects: the log lines "make X" without a later "destroy X".
    #[must_use]
    pub fn existing(&self) -> Vec<String> {
        let mut existing: Vec<String> = Vec::new();
        for line in &self.lock().log {
            if let Some(made) = line.strip_prefix("make ") {
                existing.push(made.into());
            } else if let Some(destroyed) = line.strip_prefix("destroy ") {
                existing.retain(|made| made != destroyed);
            }
        }
        existing
    }

    /// Completes every later request with success as soon as it is posted.
    pub fn complete_at_once(&self) {
        self.lock().complete_at_once = true;
    }

    /// From now on, permits only the transitions of `ibv_modify_qp`. Flushes the posted requests of queue pairs in
    /// state ERR.
    pub fn follow_states(&self) {
        self.lock().follows_states = true;
    }

    /// Completes a request of a queue pair.
    pub fn complete(&self, qpn: u32, wr_id: u64, status: u32) {
        self.lock().completions.push_back((qpn, completed(wr_id, status)));
    }

    /// Makes the device report an event.
    pub fn report(&self, name: &str, qpn: Option<u32>) {
        let name = name.into();
        self.lock().reports.push_back(Report { name, qpn });
    }

    /// Queues a failure for the next call that can fail.
    pub fn fail_next(&self, errno: i32, text: &str) {
        let text = text.into();
        self.lock().failures.push_back(Failure { errno, text });
    }

    /// Makes the device unusable, for the reason `why`.
    pub fn go(&self, why: &str) {
        self.lock().gone = Some(why.into());
    }

    /// Opens a device like [`Strings::open`], unless a failure is queued.
    ///
    /// # Errors
    /// The queued failure.
    pub fn try_open(&self) -> Result<FakeDevice, Failure> {
        match self.lock().failures.pop_front() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }?;
        Ok(self.open())
    }

    /// Opens a device with these controls.
    #[must_use]
    pub fn open(&self) -> FakeDevice {
        self.log("make device".into());
        FakeDevice { strings: self.clone() }
    }
}

fn completed(wr_id: u64, status: u32) -> Completed {
    Completed {
        wr_id,
        status,
        opcode: 0,
        byte_len: 0,
        imm: None,
        vendor_error: 0,
    }
}

/// A fake device.
#[derive(Debug)]
pub struct FakeDevice {
    strings: Strings,
}

/// Memory of a [`FakeDevice`].
#[derive(Debug)]
pub struct FakeMemory {
    bytes: Mutex<Vec<u8>>,
    number: u32,
    strings: Strings,
}

/// A queue pair of a [`FakeDevice`].
#[derive(Debug)]
pub struct FakePair {
    qpn: u32,
    state: QpState,
    psns: (Psn, Psn),
    /// `wr_id` of each posted request that has not completed: sends at index 0, receives at index 1.
    posted: [Vec<u64>; 2],
    strings: Strings,
}

impl Device for FakeDevice {
    type Memory = FakeMemory;
    type Pair = FakePair;

    fn describe(&self) -> Result<Opened, Failure> {
        self.strings.call("describe".into())?;
        Ok(Opened {
            device: "fake0".into(),
            port: 1,
            port_state: 4,
            active_mtu: 3,
            ethernet: true,
            max_qp: 64,
            max_qp_rd_atom: 16,
            max_qp_init_rd_atom: 16,
            gids: vec![Gid {
                index: 1,
                gid: vec![0xfe; 16],
                kind: "RoCE v2".into(),
            }],
            ..Opened::default()
        })
    }

    fn register(&self, length: usize, _: Access) -> Result<FakeMemory, Failure> {
        self.strings.call(format!("make memory of {length}"))?;
        let mut inner = self.strings.lock();
        inner.memories += 1;
        Ok(FakeMemory {
            bytes: Mutex::new(vec![0; length]),
            number: inner.memories,
            strings: self.strings.clone(),
        })
    }

    fn create_pair(&self, service: Service, send_depth: u32, receive_depth: u32) -> Result<FakePair, Failure> {
        let qpn = self.strings.lock().next_qpn + 17;
        self.strings.call(format!("make pair {qpn}"))?;
        self.strings.log(format!("{service:?} {send_depth} {receive_depth}"));
        self.strings.lock().next_qpn += 1;
        Ok(FakePair {
            qpn,
            state: QpState::Reset,
            psns: (Psn(0), Psn(0)),
            posted: [Vec::new(), Vec::new()],
            strings: self.strings.clone(),
        })
    }

    fn next_report(&self) -> Result<Option<Report>, Failure> {
        Ok(self.strings.lock().reports.pop_front())
    }

    fn gone(&self) -> Option<String> {
        self.strings.lock().gone.clone()
    }
}

impl Drop for FakeDevice {
    fn drop(&mut self) {
        self.strings.log("destroy device".into());
    }
}

impl FakeMemory {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory for FakeMemory {
    fn address(&self) -> u64 {
        u64::from(self.number) << 32
    }

    fn l_key(&self) -> u32 {
        0x100 + self.number
    }

    fn r_key(&self) -> u32 {
        0x200 + self.number
    }

    fn read(&self, offset: usize, length: usize) -> Result<Vec<u8>, Failure> {
        let bytes = self.bytes();
        let found = bytes.get(offset..offset + length);
        found.map(<[u8]>::to_vec).ok_or_else(|| Failure::refused("outside"))
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Failure> {
        let mut all = self.bytes();
        let place = all.get_mut(offset..offset + bytes.len());
        place.ok_or_else(|| Failure::refused("outside"))?.copy_from_slice(bytes);
        Ok(())
    }
}

impl Drop for FakeMemory {
    fn drop(&mut self) {
        let length = self.bytes().len();
        self.strings.log(format!("destroy memory of {length}"));
    }
}

fn invalid(text: String) -> Failure {
    Failure { errno: 22, text }
}

/// Whether `ibv_modify_qp` permits a transition. Only transitions that the tests use are listed here.
fn is_step(from: QpState, to: QpState) -> bool {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd};
    matches!(to, Reset | Err)
        || matches!(
            (from, to),
            (Reset | Init, Init) | (Init, Rtr) | (Rtr | Rts | Sqd, Rts) | (Rts | Sqd, Sqd)
        )
}

impl FakePair {
    fn follows_states(&self) -> bool {
        self.strings.lock().follows_states
    }

    /// Flushes the send queue, then the receive queue, each in posting order.
    fn flush(&mut self) {
        const WR_FLUSH_ERR: u32 = 5;
        let mut inner = self.strings.lock();
        for wr_id in self.posted.iter_mut().flat_map(std::mem::take) {
            inner.completions.push_back((self.qpn, completed(wr_id, WR_FLUSH_ERR)));
        }
    }
}

impl Pair for FakePair {
    type Memory = FakeMemory;

    fn qpn(&self) -> u32 {
        self.qpn
    }

    fn modify(&mut self, to: QpState, given: &QpAttributes) -> Result<(), Failure> {
        self.strings.call(format!("modify to {to:?}"))?;
        if self.follows_states() && !is_step(self.state, to) {
            return Err(invalid(format!("no step from {:?} to {to:?}", self.state)));
        }
        self.state = to;
        self.psns.0 = given.sq_psn.unwrap_or(self.psns.0);
        self.psns.1 = given.rq_psn.unwrap_or(self.psns.1);
        match to {
            QpState::Reset => self.posted = [Vec::new(), Vec::new()],
            QpState::Err => self.flush(),
            _ => {}
        }
        Ok(())
    }

    fn query(&self) -> Result<QpStatus, Failure> {
        Ok(QpStatus {
            state: self.state,
            sq_psn: self.psns.0,
            rq_psn: self.psns.1,
        })
    }

    fn post(&mut self, post: &WorkRequest<'_, FakeMemory>) -> Result<u64, Failure> {
        let called = now_ns();
        let is_send = matches!(post, WorkRequest::Send(_));
        if self.follows_states() {
            let takes = match self.state {
                QpState::Rts | QpState::Err => true,
                QpState::Reset => false,
                _ => !is_send,
            };
            if !takes {
                return Err(invalid(format!("no request in {:?}", self.state)));
            }
        }
        let (wr_id, piece, what) = match post {
            WorkRequest::Send(SendPost { wr_id, work, local, .. }) => (*wr_id, local, format!("{:?}", work.operation)),
            WorkRequest::Receive { wr_id, into } => (*wr_id, into, "Receive".into()),
        };
        let bytes = piece.as_ref().map_or(0, |piece| piece.length);
        self.strings.call(format!("post {what} of {bytes}"))?;
        let mut inner = self.strings.lock();
        if inner.complete_at_once {
            inner.completions.push_back((self.qpn, completed(wr_id, 0)));
        } else if inner.follows_states {
            drop(inner);
            self.posted[usize::from(!is_send)].push(wr_id);
            if self.state == QpState::Err {
                self.flush();
            }
        }
        Ok(called)
    }

    fn poll(&mut self, into: &mut Vec<Completed>) -> Result<Option<u64>, Failure> {
        let mut inner = self.strings.lock();
        let (ours, others): (VecDeque<_>, VecDeque<_>) =
            inner.completions.drain(..).partition(|(qpn, _)| *qpn == self.qpn);
        inner.completions = others;
        let polled = (!ours.is_empty()).then(now_ns);
        into.extend(ours.into_iter().map(|(_, completed)| completed));
        Ok(polled)
    }
}

impl Drop for FakePair {
    fn drop(&mut self) {
        self.strings.log(format!("destroy pair {}", self.qpn));
    }
}
