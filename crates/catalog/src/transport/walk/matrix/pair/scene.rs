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
    /// The request whose local memory this request sends or fills, or whose remote memory it reaches.
    pub(super) same_local_as: Option<usize>,
    pub(super) same_remote_as: Option<usize>,
}

/// An error of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wrong {
    None,
    /// A flipped bit of the R_Key.
    RKey(u32),
    /// The request ends this many bytes behind its region.
    Beyond(u32),
    /// The request begins this many bytes before its region.
    Before(u32),
    /// An address this many bytes behind the right one.
    Shifted(u32),
    /// The device may not write the local memory.
    ClosedLocal,
}

/// Returns a request without errors.
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
    /// All receives this long after the requests.
    Late(Duration),
    /// Each receive this long after the completion of the request before.
    EachLate(Duration),
}

/// The state of the responder's queue pair when the requests are posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    Ready,
    In(QpState),
    Destroyed,
    /// In RESET, and connected again one and a half ACK timeouts after the requests.
    Back,
}

/// A row: both ends, and what they do.
#[derive(Clone, Debug)]
pub(in super::super) struct Scene {
    pub(super) number: u64,
    pub(super) asker: Side,
    pub(super) asks: ChannelOptions,
    pub(super) answers: ChannelOptions,
    pub(super) peer: Peer,
    pub(super) posts: Vec<Post>,
    /// Lengths of the responder's receives.
    pub(super) receives: Vec<u32>,
    pub(super) when: When,
    /// Whether the device may not write the receives.
    pub(super) closed_receives: bool,
    /// Whether the responder deregisters its memory before the requests.
    pub(super) deregistered: bool,
    /// 64 bits at the beginning of the memory of each remote request.
    pub(super) initial: Option<u64>,
    /// Whether the requests wait for ever, so that the host of the requester must flush them.
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
