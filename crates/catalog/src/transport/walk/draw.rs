//! Steps of a walk, drawn from the seed.
//!
//! Each step has its own stream of random numbers, so that removing a step does not change the others.

use verbatim_record::Begin;
use verbatim_record::verbs::pb::Operation as O;
use verbatim_tester::Stream;
use verbatim_tester::peer::ChannelOptions;
use verbatim_wire::Mtu;
use verbatim_wire::packet::{AckTimeout, NakCode, Psn, RnrTimer};

use super::more;
use super::step::{Alteration, Fault, Illegal, ON_ONE, Step, Stray, WalkConnection, Want, Way};

/// Parameters of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    /// Number of steps on all connections.
    pub(super) steps: u64,
    /// Number of the only connection to run, or 0 for all.
    pub(super) connection: u64,
    /// Mask of the steps to run on a connection.
    pub(super) keep: u64,
    /// Mask of the further kinds of steps in [`more`].
    pub(super) kinds: u64,
}

impl Extent {
    /// Returns the parameters of a recorded walk.
    pub(super) fn of(begin: &Begin) -> Self {
        let given = |name: &str| begin.parameters.iter().find(|(known, _)| known == name);
        let value = |name: &str| given(name).map_or(0, |(_, value)| *value);
        Self {
            steps: value("steps"),
            connection: value("connection"),
            keep: value("keep"),
            kinds: value("kinds"),
        }
    }

    /// Returns the connections of the walk.
    pub(super) fn connections(self, stream: &dyn Fn(&str) -> Stream) -> Vec<WalkConnection> {
        let all = self.steps.div_ceil(ON_ONE).max(1);
        (1..=all)
            .filter(|number| self.connection == 0 || self.connection == *number)
            .map(|number| self.connection(number, stream))
            .collect()
    }

    fn connection(self, number: u64, stream: &dyn Fn(&str) -> Stream) -> WalkConnection {
        let mut options = Draw(stream(&format!("connection {number}")));
        let (mtu, mut options) = options.options();
        let mut further = Draw(stream(&format!("connection {number}, further")));
        let any_key = more::options(&mut further, self.kinds, &mut options);
        let count = self.steps.saturating_sub((number - 1) * ON_ONE).min(ON_ONE);
        let is_kept = |at: &u64| self.keep >> at & 1 == 1;
        let steps = (0..count).filter(is_kept).map(|at| {
            let name = format!("connection {number}, step {at}");
            let (mut draw, mut further) = (Draw(stream(&name)), Draw(stream(&format!("{name}, further"))));
            let is_last = at + 1 == count;
            let step = more::step(&mut further, self.kinds, (&options, mtu), is_last);
            (
                at,
                more::within(&options, step.unwrap_or_else(|| draw.step(mtu, is_last))),
            )
        });
        WalkConnection {
            number,
            steps: steps.collect(),
            options,
            counts_packets: false,
            any_key,
            beside: None,
        }
    }
}

/// First PSNs are these numbers plus 0 to 7: before the wrap, before the highest bit changes, before a carry, and
/// 0.
const EDGES: [u32; 4] = [0x00FF_FFF8, 0x007F_FFF8, 0x0000_FFF8, 0];

/// Random choices from one stream.
pub(super) struct Draw(Stream);

/// Operations that the DUT posts.
pub(super) const POSTED: &[O] = &[
    O::Send,
    O::SendImm,
    O::SendInvalidate,
    O::Write,
    O::WriteImm,
    O::Read,
    O::CompareSwap,
    O::FetchAdd,
];

impl Draw {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0.between(0, bound - 1)
    }

    pub(super) fn small(&mut self, low: u32, high: u32) -> u32 {
        self.0.between(low.into(), high.into()) as u32
    }

    pub(super) fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    pub(super) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn psn(&mut self) -> Psn {
        let edge = self.one(&EDGES);
        Psn::new(edge + self.small(0, 7))
    }

    fn options(&mut self) -> (u32, ChannelOptions) {
        let mtu = Mtu(self.small(1, 3) as u8);
        let options = ChannelOptions {
            mtu,
            // The shortest timeout in which a slow host can respond.
            timeout: AckTimeout(14),
            max_rd_atomic: self.small(1, 4) as u8,
            min_rnr_timer: RnrTimer(self.one(&[1, 6, 12, 16])),
            psn: Some(self.psn()),
            own_psn: Some(self.psn()),
            ..ChannelOptions::default()
        };
        (mtu.bytes().unwrap_or(256), options)
    }

    pub(super) fn length(&mut self, mtu: u32) -> u32 {
        let odd = self.small(1, mtu - 1);
        self.one(&[0, 1, 8, 63, odd, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu + odd])
    }

    pub(super) fn want(&mut self, mtu: u32, operations: &[O]) -> Want {
        let operation = self.one(operations);
        let is_atomic = matches!(operation, O::CompareSwap | O::FetchAdd);
        let places = [0, 8, 16, 64, mtu, 2 * mtu];
        Want {
            operation,
            length: if is_atomic { 8 } else { self.length(mtu) },
            place: self.one(&places),
            fence: self.one_in(4),
            solicited: self.one_in(4),
            value: None,
        }
    }

    pub(super) fn wants(&mut self, mtu: u32, operations: &[O]) -> Vec<Want> {
        (0..self.small(1, 3)).map(|_| self.want(mtu, operations)).collect()
    }

    fn distance(&mut self) -> u32 {
        let near = self.small(1, 8);
        self.one(&[near, near, 1 << 16, (1 << 23) - 16])
    }

    pub(super) fn stray(&mut self) -> Stray {
        let distance = self.distance();
        match self.below(16) {
            0 => Stray::BadIcrc(self.small(0, 63)),
            1 => Stray::Altered(Alteration::TVer(self.small(1, 15) as u8)),
            2 => Stray::Altered(Alteration::PKey(self.small(0, 14))),
            3 => Stray::Altered(Alteration::OtherService),
            4 => Stray::Altered(Alteration::OtherQp),
            5 => Stray::Altered(Alteration::OtherSource),
            // Keep the PSN beyond all PSNs that the connection uses.
            6 => Stray::Ahead(distance.max(1 << 12)),
            7 => Stray::Behind(distance),
            8 => Stray::GhostAck(distance),
            9 => Stray::StaleAck(distance),
            10 => Stray::GhostNak(distance),
            11 => Stray::StaleNak(distance),
            12 => Stray::StaleRnr(distance),
            13 => Stray::GhostRead(distance),
            14 => Stray::GhostRnr(distance),
            _ => Stray::Cnp,
        }
    }

    pub(super) fn fault(&mut self) -> Fault {
        match self.below(12) {
            0 => Fault::RequestLost(self.small(0, 3)),
            1 => Fault::AnswerLost,
            2 => Fault::ResponseLost(self.small(0, 3)),
            3 | 4 => {
                let timer = RnrTimer(self.one(&[1, 2, 8, 12, 15, 20, 28, 31, 0]));
                Fault::Rnr(timer, self.one(&[1, 1, 2, 3]))
            }
            5 => Fault::SequenceNak(self.small(0, 3)),
            6 | 7 => Fault::Stray(self.stray()),
            8 => Fault::AnswerTwice,
            9 => Fault::AnswerDamaged,
            10 => Fault::Coalesced,
            _ => Fault::Each,
        }
    }

    fn illegal(&mut self) -> Illegal {
        let moving = self.one(&[O::Write, O::Read]);
        match self.below(8) {
            0 => Illegal::RKey(self.one(&[O::Write, O::Read, O::FetchAdd]), self.small(0, 31)),
            1 => Illegal::Beyond(moving),
            2 => Illegal::Before(moving),
            3 => Illegal::TooLong(self.one(&[O::Write, O::Send]), self.small(1, 8)),
            4 => Illegal::Unaligned(self.small(1, 7)),
            5 => Illegal::NoFirst,
            6 => Illegal::ShortFirst(self.small(1, 8)),
            _ => Illegal::DmaLen,
        }
    }

    /// Draws a step. The last step of a connection may end the connection.
    fn step(&mut self, mtu: u32, is_last: bool) -> Step {
        const ASKED: &[O] = &[
            O::Send,
            O::SendImm,
            O::Write,
            O::WriteImm,
            O::Read,
            O::CompareSwap,
            O::FetchAdd,
        ];
        if is_last && self.one_in(3) {
            return Step::Illegal(self.illegal());
        }
        if is_last && self.one_in(3) {
            let wants = self.wants(mtu, POSTED);
            let at = self.below(wants.len() as u64) as usize;
            return Step::Refuse(wants, at, NakCode(self.small(1, 3) as u8));
        }
        match self.below(10) {
            0..4 => {
                let way = match self.below(8) {
                    0 => Way::Lost(self.small(0, 7)),
                    1 => Way::Damaged(self.small(0, 7)),
                    2 => Way::Overtakes(self.small(1, 7)),
                    3 => Way::AnswersLost,
                    4 | 5 => Way::Unready,
                    _ => Way::Sound,
                };
                Step::Ask(self.wants(mtu, ASKED), way)
            }
            4 => Step::Again(self.small(0, 3)),
            5 => Step::Stray(self.stray()),
            _ => {
                let wants = self.wants(mtu, POSTED);
                let at = self.below(wants.len() as u64) as usize;
                Step::Post(wants, at, self.fault())
            }
        }
    }
}
