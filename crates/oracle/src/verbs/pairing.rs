//! Assignment of completions to requests and receives, which may reuse a `wr_id`.
//!
//! Source: architecture 11.4.2.1 (a completion has the identifier of its work request), 10.8.5.1 (completions of a
//! queue come in the order of its requests).

use verbatim_record::WcStatus;
use verbatim_record::verbs::pb;

/// Bit of a completion's opcode that marks receives (enum ibv_wc_opcode).
const RECEIVE: u32 = 1 << 7;

/// Work requests of a queue: identifier, place in the record, and whether it has completed.
pub(super) struct Queue {
    posted: Vec<(u64, usize, bool)>,
}

impl Queue {
    pub(super) fn new(posted: impl IntoIterator<Item = (u64, usize)>) -> Self {
        let posted = posted.into_iter().map(|(wr_id, place)| (wr_id, place, false)).collect();
        Self { posted }
    }

    /// Finds the work request that a completion at `place` belongs to. Returns the index of the oldest open work
    /// request that was posted with this identifier before `place`, and true. If there is none, the completion is
    /// surplus. Then returns false, and the index of another work request with the identifier, which has completed
    /// or was posted later.
    fn of(&self, wr_id: u64, place: usize) -> Option<(usize, bool)> {
        let same = || (0..self.posted.len()).filter(|at| self.posted[*at].0 == wr_id);
        let before = || same().filter(|at| self.posted[*at].1 < place);
        let open = before().find(|at| !self.posted[*at].2).map(|at| (at, true));
        open.or_else(|| before().next_back().or_else(|| same().next()).map(|at| (at, false)))
    }
}

/// Work request of a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Of {
    /// Index of a send request; `None` if none was posted with its identifier.
    Send(Option<usize>),
    Receive,
}

/// Assigns a completion at a place of the record to a work request of one of the two queues.
pub(super) fn assign(sends: &mut Queue, receives: &mut Queue, completion: &pb::Completion, place: usize) -> Of {
    let (send, receive) = (sends.of(completion.wr_id, place), receives.of(completion.wr_id, place));
    let is_receive = match (send, receive) {
        (_, None) => false,
        (None, Some(_)) => true,
        // After an error, the opcode is undefined. The completion then belongs to the send request if that is open,
        // otherwise to the receive.
        (Some(_), Some(_)) if completion.status == WcStatus::SUCCESS.0 => completion.opcode & RECEIVE != 0,
        (Some((_, is_open)), Some(_)) => !is_open,
    };
    let (queue, of) = if is_receive { (receives, receive) } else { (sends, send) };
    if let Some(posted) = of.and_then(|(at, _)| queue.posted.get_mut(at)) {
        posted.2 = true;
    }
    if is_receive {
        Of::Receive
    } else {
        Of::Send(of.map(|(at, _)| at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(wr_id: u64, opcode: u32) -> pb::Completion {
        pb::Completion {
            wr_id,
            opcode,
            ..pb::Completion::default()
        }
    }

    #[test]
    fn reused_wr_id_belongs_to_next_request() {
        let (mut sends, mut receives) = (Queue::new([(7, 1), (7, 5)]), Queue::new([]));
        let mut of = |place| assign(&mut sends, &mut receives, &completion(7, 0), place);
        assert_eq!(of(3), Of::Send(Some(0)));
        assert_eq!(of(4), Of::Send(Some(0)), "a second completion of the first");
        assert_eq!(of(8), Of::Send(Some(1)));
    }

    #[test]
    fn opcode_separates_receive_from_send() {
        let (mut sends, mut receives) = (Queue::new([(7, 1)]), Queue::new([(7, 2)]));
        let mut of = |opcode| assign(&mut sends, &mut receives, &completion(7, opcode), 9);
        assert_eq!(of(RECEIVE), Of::Receive);
        assert_eq!(of(0), Of::Send(Some(0)));
    }
}
