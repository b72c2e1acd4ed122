//! Parts of rows that several families share: values of factors, and the steps that they stand for.

use verbatim_record::verbs::pb::Operation as O;
use verbatim_tester::peer::ChannelOptions;
use verbatim_wire::Mtu;
use verbatim_wire::packet::{AckTimeout, Psn, RnrTimer};

use super::super::peer::TARGET;
pub(super) use super::super::step::want;
use super::super::step::{Fault, Illegal, Step, Stray, WalkConnection, Want, Way};
use crate::cover::{Factor, Family, Partial, Row};
use crate::transport::rc;

/// Length in bytes of a page of the host.
const PAGE: u32 = 4096;

pub(super) const PATH_MTU: Factor = Factor {
    name: "path MTU",
    values: &["1024", "256", "4096"],
};

pub(super) const LENGTH: Factor = Factor {
    name: "length",
    values: &["8", "0", "1", "2", "3", "P-1", "P", "P+1", "2P", "3P+2"],
};

pub(super) const ADDRESS: Factor = Factor {
    name: "address",
    values: &["aligned", "odd", "ends a page", "crosses a page"],
};

pub(super) const FIRST_PSN: Factor = Factor {
    name: "PSN",
    values: &["any", "wraps within", "wraps behind", "zero", "half of all within"],
};

pub(super) const SOLICITED: Factor = Factor {
    name: "solicited event",
    values: &["no", "yes"],
};

/// State of the DUT's queue pair when the row's steps begin.
pub(super) const STATE: Factor = Factor {
    name: "queue pair in",
    values: &["RTS", "RTR"],
};

/// Immediate data, and the value that an atomic adds or swaps in.
pub(super) const VALUE: Factor = Factor {
    name: "value",
    values: &["any", "0", "all ones"],
};

/// Hop limit, traffic class and flow label in the DUT's address vector.
pub(super) const ADDRESS_VECTOR: Factor = Factor {
    name: "address vector",
    values: &["usual", "class 0xb8"],
};

/// Events on the connection before the subject of the row.
pub(super) const HISTORY: Factor = Factor {
    name: "after",
    values: &[
        "nothing",
        "an RNR NAK",
        "a sequence error",
        "a time-out",
        "RESET",
        "SQD",
        "20 messages",
        "strays",
        "READs and atomics both ways",
        "another queue pair worked",
        "another queue pair failed",
        "another queue pair spent its retries",
        "another queue pair's request waits for its answer",
        "another queue pair's request waits after an RNR NAK",
        "READs both ways",
    ],
};

/// Returns whether the operation is an atomic.
pub(super) fn is_atomic(operation: &str) -> bool {
    matches!(operation, "CmpSwap" | "FetchAdd")
}

/// Returns the operation with a name.
pub(super) fn operation(name: &str) -> O {
    match name {
        "SEND with Immediate" => O::SendImm,
        "SEND with Invalidate" => O::SendInvalidate,
        "WRITE" => O::Write,
        "WRITE with Immediate" => O::WriteImm,
        "READ" => O::Read,
        "CmpSwap" => O::CompareSwap,
        "FetchAdd" => O::FetchAdd,
        _ => O::Send,
    }
}

/// Returns whether a message of this operation takes a receive, or may take one if the operation is open.
pub(super) fn may_take_receive(operation: &str) -> bool {
    operation.is_empty() || operation.starts_with("SEND") || operation == "WRITE with Immediate"
}

/// Returns the reason why the queue pair cannot be in RTR.
pub(super) fn refuses_state(row: &Partial<'_>) -> Option<&'static str> {
    let history = row.value(HISTORY.name);
    let posts = !matches!(history, "" | "nothing") && !history.starts_with("another");
    (row.value(STATE.name) == "RTR" && posts).then_some("the history moves the queue pair to RTS")
}

/// Returns the reason why a message cannot have this operation, length, path MTU, value and solicited event.
pub(super) fn refuses_message(row: &Partial<'_>) -> Option<&'static str> {
    let (operation, length) = (row.value("operation"), row.value("length"));
    let is_long = matches!(length, "P+1" | "2P" | "3P+2");
    if !may_take_receive(operation) && row.value(SOLICITED.name) == "yes" {
        return Some("without a receive there is no solicited event");
    }
    let has_value = operation.ends_with("Immediate") || matches!(operation, "" | "CmpSwap" | "FetchAdd");
    if !has_value && matches!(row.value(VALUE.name), "0" | "all ones") {
        return Some("the operation carries no value of its own");
    }
    if is_atomic(operation) && !matches!(length, "" | "8") {
        return Some("an atomic has 8 bytes");
    }
    if row.value("path MTU") == "4096" && is_long {
        return Some("a buffer of the tests holds 4096 bytes");
    }
    None
}

/// Returns the reason why an address on a page has no meaning for this message.
pub(super) fn refuses_address(row: &Partial<'_>) -> Option<&'static str> {
    let (operation, length, address) = (row.value("operation"), row.value("length"), row.value("address"));
    if is_atomic(operation) && matches!(address, "odd" | "crosses a page") {
        return Some("the address of an atomic is a multiple of 8");
    }
    if address == "crosses a page" && matches!(length, "0" | "1") {
        return Some("a message of one byte lies on one page");
    }
    None
}

/// A row with its family, and what follows from it for all families.
pub(super) struct Cells<'r> {
    pub(super) family: &'static Family,
    pub(super) row: &'r Row,
    /// Number of the row, from 1.
    pub(super) number: u64,
    pub(super) simulated: bool,
}

impl Cells<'_> {
    pub(super) fn value(&self, name: &str) -> &'static str {
        self.family.value(self.row, name)
    }

    pub(super) fn mtu(&self) -> u32 {
        let value = self.family.find(self.row, PATH_MTU.name);
        value.and_then(|bytes| bytes.parse().ok()).unwrap_or(1024)
    }

    /// Returns the length in bytes of the row's message.
    pub(super) fn length(&self) -> u32 {
        let mtu = self.mtu();
        match self.value(LENGTH.name) {
            "P-1" => mtu - 1,
            "P" => mtu,
            "P+1" => mtu + 1,
            "2P" => 2 * mtu,
            "3P+2" => 3 * mtu + 2,
            some => some.parse().unwrap_or(8),
        }
    }

    /// Returns the row's message. Its offset is from the beginning of an area, which begins a page.
    pub(super) fn message(&self) -> Want {
        let (operation, length) = (operation(self.value("operation")), self.length());
        let place = match self.value(ADDRESS.name) {
            "odd" => 1,
            "ends a page" => length.next_multiple_of(PAGE).max(PAGE) - length,
            "crosses a page" => length.next_multiple_of(PAGE).max(PAGE) - length.div_ceil(2),
            _ => 0,
        };
        Want {
            place,
            value: match self.value(VALUE.name) {
                "0" => Some(0),
                "all ones" => Some(u64::MAX),
                _ => None,
            },
            ..want(operation, length)
        }
    }

    /// Returns the number of PSNs of messages.
    fn psns(&self, messages: &[Want]) -> u32 {
        let of = |want: &Want| rc::psns(want.operation, want.length, self.mtu());
        messages.iter().map(of).sum()
    }

    /// Returns the PSN of the row's message, as its factor says.
    fn first_psn(&self, message: Want) -> Option<Psn> {
        let count = self.psns(&[message]);
        let within = |top: u32| Psn::new(top - (count / 2).max(1) + 1);
        match self.value(FIRST_PSN.name) {
            "wraps within" => Some(within(0x00FF_FFFF)),
            "wraps behind" => Some(Psn::new(0x00FF_FFFF - count + 1)),
            "zero" => Some(Psn::new(0)),
            "half of all within" => Some(within(0x007F_FFFF)),
            _ => None,
        }
    }

    /// Builds the connection of the row: its history, then these steps. The row sets the PSN of `message`. `before`
    /// lists the messages of the same side between the history and `message`.
    pub(super) fn connection(
        &self,
        is_posted: bool,
        (before, message): (&[Want], Want),
        subject: impl IntoIterator<Item = Step>,
    ) -> WalkConnection {
        let mut steps = history(self.value(HISTORY.name));
        let is_reset = |step: &Step| matches!(step, Step::Reset(_));
        // A RESET gives new PSNs, so that only the messages behind it count.
        let from = steps.iter().rposition(is_reset).map_or(0, |at| at + 1);
        let own = steps[from..].iter().flat_map(|step| match step {
            Step::Ask(wants, _) if !is_posted => wants.as_slice(),
            Step::Post(wants, ..) | Step::Drain(wants) if is_posted => wants.as_slice(),
            _ => &[],
        });
        let own: Vec<Want> = own.chain(before).copied().collect();
        let psn = self.first_psn(message).map(|psn| psn.minus(self.psns(&own)));
        if let Some(Step::Reset(again)) = steps.iter_mut().find(|step| is_reset(step)) {
            *again = psn;
        }
        steps.extend(subject);
        let network = match self.family.find(self.row, ADDRESS_VECTOR.name) {
            Some("class 0xb8") => (33, 0xB8, 0x5_4321),
            _ => ChannelOptions::default().network,
        };
        let retries = self
            .family
            .find(self.row, "retries")
            .and_then(|count| count.parse().ok());
        let retry_cnt = retries.unwrap_or(7);
        let timeout = AckTimeout(if self.simulated { 14 } else { 16 });
        WalkConnection {
            number: self.number,
            options: ChannelOptions {
                mtu: match self.mtu() {
                    256 => Mtu(1),
                    4096 => Mtu(5),
                    _ => Mtu(3),
                },
                timeout,
                min_rnr_timer: RnrTimer(6),
                psn,
                own_psn: psn,
                network,
                retry_cnt,
                rnr_retry: retry_cnt,
                ..ChannelOptions::default()
            },
            counts_packets: false,
            any_key: false,
            beside: beside(self.value(HISTORY.name), retry_cnt),
            steps: (0..).zip(steps).collect(),
        }
    }
}

/// Returns the messages before and behind the row's message in the same step.
pub(super) fn company(name: &str, message: Want) -> (Vec<Want>, Vec<Want>) {
    let (send, write) = (want(O::Send, 8), want(O::Write, 8));
    let fenced = Want { fence: true, ..send };
    match name {
        "behind a SEND" => (vec![send], vec![]),
        "before a WRITE" => (vec![], vec![write]),
        "behind a READ" => (vec![want(O::Read, 300)], vec![]),
        "between SENDs" => (vec![send], vec![send]),
        "between WRITEs" => (vec![write], vec![write]),
        "three alike" => (vec![message], vec![message]),
        "before a fenced SEND" => (vec![], vec![fenced]),
        _ => (vec![], vec![]),
    }
}

/// Returns the steps that make a history.
fn history(name: &str) -> Vec<Step> {
    let (send, write) = (want(O::Send, 8), want(O::Write, 8));
    match name {
        "an RNR NAK" => vec![
            Step::Ask(vec![send], Way::Unready),
            Step::Post(vec![send], 0, Fault::Rnr(RnrTimer(6), 1)),
        ],
        "a sequence error" => vec![
            Step::Ask(vec![send, send], Way::Lost(0)),
            Step::Post(vec![send, send], 0, Fault::SequenceNak(0)),
        ],
        "a time-out" => vec![
            Step::Ask(vec![write], Way::AnswersLost),
            Step::Post(vec![send], 0, Fault::AnswerLost),
        ],
        "RESET" => vec![
            Step::Ask(vec![send, write], Way::Sound),
            Step::Post(vec![send], 0, Fault::None),
            Step::Reset(None),
        ],
        "SQD" => vec![Step::Drain(vec![send, write])],
        "20 messages" => vec![
            Step::Ask(vec![write; 20], Way::Sound),
            Step::Post(vec![send; 10], 0, Fault::None),
            Step::Post(vec![write; 10], 0, Fault::None),
        ],
        "strays" => vec![
            Step::Ask(vec![write], Way::Sound),
            Step::Post(vec![send], 0, Fault::None),
            Step::Stray(Stray::BadIcrc(3)),
            Step::Stray(Stray::StaleAck(1)),
            Step::Stray(Stray::Behind(1)),
        ],
        "READs both ways" => {
            let read = vec![want(O::Read, 300)];
            vec![Step::Ask(read.clone(), Way::Sound), Step::Post(read, 0, Fault::None)]
        }
        "READs and atomics both ways" => {
            let both = vec![want(O::Read, 300), want(O::FetchAdd, 8), want(O::CompareSwap, 8)];
            vec![Step::Ask(both.clone(), Way::Sound), Step::Post(both, 0, Fault::None)]
        }
        _ => Vec::new(),
    }
}

/// Returns whether a history uses another queue pair.
pub(super) fn has_another(history: &str) -> bool {
    beside(history, 7).is_some()
}

/// Returns the connection of another queue pair, which ends before the row's subject begins.
fn beside(history: &str, retry_cnt: u8) -> Option<Box<WalkConnection>> {
    let (send, write) = (want(O::Send, 8), want(O::Write, 8));
    let last = match history {
        "another queue pair worked" => Step::Ask(vec![write], Way::Sound),
        "another queue pair failed" => Step::Illegal(Illegal::RKey(O::Write, 7)),
        "another queue pair's request waits for its answer" => Step::Begin(vec![send, write], Fault::Silent(1)),
        "another queue pair's request waits after an RNR NAK" => {
            Step::Begin(vec![send, write], Fault::Rnr(RnrTimer(20), 1))
        }
        "another queue pair spent its retries" => Step::Post(vec![send], 0, Fault::Silent(u32::from(retry_cnt) + 1)),
        _ => return None,
    };
    let steps = vec![
        Step::Ask(vec![send], Way::Sound),
        Step::Post(vec![write], 0, Fault::None),
        last,
    ];
    Some(Box::new(WalkConnection {
        number: 0,
        options: ChannelOptions {
            timeout: AckTimeout(14),
            retry_cnt,
            ..ChannelOptions::default()
        },
        counts_packets: false,
        any_key: false,
        beside: None,
        steps: (0..).zip(steps).collect(),
    }))
}

/// Messages of both sides that show late damage of the connection.
pub(super) fn epilogue() -> [Step; 2] {
    let (send, write) = (want(O::Send, 8), want(O::Write, 8));
    [
        Step::Post(vec![send, write], 0, Fault::None),
        Step::Ask(vec![send, write], Way::Sound),
    ]
}

/// Returns the position of a packet of a message with `count` packets.
pub(super) fn position(name: &str, count: u32) -> u32 {
    match name {
        "first" => 0,
        "middle" => count / 2,
        _ => count - 1,
    }
}

/// Length in bytes of the region before the area of the peer's messages.
pub(super) const BEFORE_TARGET: u32 = TARGET;
