//! Transitions of the DUT's queue pair in a walk: RTR, SQD, RESET.

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Label, Side, Verbs};
use verbatim_tester::Tester;
use verbatim_tester::peer::ChannelOptions;
use verbatim_wire::packet::Psn;

use super::answering::Answering;
use super::image::Image;
use super::peer::{MOMENT, Peer, labels};
use super::step::Want;
use crate::transport::rc::{ask, steps};

impl Peer {
    /// Moves the DUT's queue pair to RTS, if it is still in RTR.
    pub(super) fn start_sending(&mut self, t: &mut Tester<'_>) -> verbatim_tester::Step {
        if !self.in_rtr {
            return Ok(());
        }
        self.in_rtr = false;
        t.start_sending(&self.requester.channel, &self.options)
    }

    /// Moves the DUT's queue pair to a state. Returns whether its device has the state and its host accepts the
    /// transition.
    fn modify(&self, t: &mut Tester<'_>, label: Label<Verbs>, state: pb::QpState) -> verbatim_tester::Step<bool> {
        let modify = Command::ModifyQp(pb::ModifyQp {
            qp: self.requester.channel.qp,
            state: state.into(),
            attributes: Some(pb::QpAttributes::default()),
        });
        if t.must_be_offered(Side::Dut, &modify).is_err() {
            return Ok(false);
        }
        Ok(!matches!(t.verbs(label, Side::Dut, modify)?, Reply::Refused(_)))
    }

    /// Has the DUT post requests in SQD, if its host supports SQD.
    pub(super) fn drain(&mut self, t: &mut Tester<'_>, wants: &[Want]) -> verbatim_tester::Step {
        self.start_sending(t)?;
        if self.is_over || !self.modify(t, labels::DRAIN, pb::QpState::Sqd)? {
            return Ok(());
        }
        self.answering.begin_step();
        self.post(t, wants)?;
        t.pause(MOMENT)?;
        self.is_over |= !self.modify(t, labels::RESUME, pb::QpState::Rts)?;
        self.settle(t)
    }

    /// Resets the DUT's queue pair and connects it anew, with `psn` or a random PSN as the first PSN of each side.
    /// No state of the previous connection may affect the new connection.
    pub(super) fn reset(&mut self, t: &mut Tester<'_>, psn: Option<Psn>) -> verbatim_tester::Step {
        if self.is_over {
            return Ok(());
        }
        ask::drain(t)?;
        let channel = &self.requester.channel;
        ask::read_memory(t, channel, steps::MEMORY, channel.memory.length)?;
        ask::query(t, channel, steps::STATE)?;
        if !self.modify(t, labels::RESET, pb::QpState::Reset)? {
            self.is_over = true;
            return Ok(());
        }
        let options = ChannelOptions {
            psn,
            own_psn: psn,
            to_rts: true,
            ..self.options
        };
        self.in_rtr = false;
        self.requester.reconnect(t, &options)?;
        let channel = &self.requester.channel;
        self.next = channel.own_psn;
        self.answering = Answering::new(channel.dut_psn);
        self.image = Image::new(self.requester.memory.clone(), channel.memory.address);
        self.messages.clear();
        (self.received, self.completed) = (0, 0);
        Ok(())
    }
}
