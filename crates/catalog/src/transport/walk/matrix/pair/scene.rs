//! A row between two adapters: the attributes of both ends, the requests of one end, and the receives of the other.

use core::time::Duration;

use verbatim_record::Side;
use verbatim_record::verbs::pb::{Operation as O, QpState};
use verbatim_tester::peer::ChannelOptions;
use verbatim_wire::Mtu;
use verbatim_wire::packet::AckTimeout;

use super::super::parts::Cells;
use super::{MARGIN, MEMORY};
use crate::cover::Factor;

/// The end that posts the requests.
pub(super) const ROLE: Factor = Factor {
    name: "DUT",
    values: &["requester", "responder"],
};

/// A request of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Post {
    pub(super) operation: O,
    pub(super) length: u32,
    pub(super) signaled: bool,
    pub(super) fence: bool,
    pub(super) solicited: bool,
    /// Immediate data, and the value that an atomic adds or swaps in.
    pub(super) value: u64,
    /// Operand of a CmpSwap, if it is not the present value.
    pub(super) compare: Option<u64>,
    pub(super) wrong: Wrong,
    /// Index of the request whose local memory this request also uses.
    pub(super) same_local_as: Option<usize>,
    /// Index of the request whose remote memory this request also uses.
    pub(super) same_remote_as: Option<usize>,
}

/// The error that a request has on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wrong {
    None,
    /// The bit with this number in the R_Key is flipped.
    RKey(u32),
    /// The request ends this many bytes after its region.
    Beyond(u32),
    /// The request begins this many bytes before its region.
    Before(u32),
    /// The address is this many bytes after the right one.
    Shifted(u32),
    /// The device may not write the local memory.
    ClosedLocal,
}

/// Returns a signaled request without errors.
pub(super) fn post(operation: O, length: u32) -> Post {
    Post {
        operation,
        length,
        signaled: true,
        fence: false,
        solicited: false,
        value: 0x0123_4567_FFFF_FFFF,
        compare: None,
        wrong: Wrong::None,
        same_local_as: None,
        same_remote_as: None,
    }
}

/// The time at which the receives of a row are posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    Before,
    /// All receives are posted this long after the requests.
    Late(Duration),
    /// Each receive is posted this long after the completion of the previous request.
    EachLate(Duration),
}

/// The state of the responder's queue pair when the requests are posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    Ready,
    In(QpState),
    Destroyed,
    /// The queue pair is in RESET, and is connected again one and a half ACK timeouts after the requests.
    Back,
}

/// A row: the attributes of both ends, the requests and the receives.
#[derive(Clone, Debug)]
pub(in super::super) struct Scene {
    pub(super) number: u64,
    pub(super) asker: Side,
    pub(super) asks: ChannelOptions,
    pub(super) answers: ChannelOptions,
    pub(super) peer: Peer,
    pub(super) posts: Vec<Post>,
    /// Lengths of the responder's receives, in bytes.
    pub(super) receives: Vec<u32>,
    pub(super) when: When,
    /// Whether the device may not write the receives.
    pub(super) closed_receives: bool,
    /// Whether the responder deregisters its memory before the requests.
    pub(super) deregistered: bool,
    /// Initial 64 bits of the responder's memory for each request, as a little-endian number.
    pub(super) initial: Option<u64>,
    /// Whether the requests never complete by themselves, so that the requester's host must flush them.
    pub(super) halts: bool,
}

impl Scene {
    /// Returns a row with sound attributes and no requests.
    pub(super) fn new(cells: &Cells<'_>) -> Self {
        let options = ChannelOptions {
            mtu: Mtu(1),
            timeout: AckTimeout(14),
            memory: MEMORY,
            ..ChannelOptions::default()
        };
        Self {
            number: cells.number,
            asker: match cells.value(ROLE.name) {
                "responder" => Side::Tester,
                _ => Side::Dut,
            },
            asks: options,
            answers: options,
            peer: Peer::Ready,
            posts: Vec::new(),
            receives: Vec::new(),
            when: When::Before,
            closed_receives: false,
            deregistered: false,
            initial: None,
            halts: false,
        }
    }

    /// Adds receives that fit the messages.
    pub(super) fn with_fitting_receives(mut self) -> Self {
        let takes = self.posts.iter().filter(|post| takes_receive(post.operation));
        self.receives = takes.map(|post| post.length).collect();
        self
    }

    /// Returns the offset of a request's memory at both ends.
    pub(super) fn offset(&self, at: usize) -> u32 {
        let before = self.posts[..at]
            .iter()
            .map(|post| post.length.next_multiple_of(8) + MARGIN);
        MARGIN + before.sum::<u32>()
    }
}

pub(super) fn takes_receive(operation: O) -> bool {
    matches!(operation, O::Send | O::SendImm | O::WriteImm)
}

pub(super) fn is_atomic(operation: O) -> bool {
    matches!(operation, O::CompareSwap | O::FetchAdd)
}
