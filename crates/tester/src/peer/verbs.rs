//! Verbs commands to the hosts of both devices.

use core::time::Duration;

use verbatim_record::verbs::pb;
use verbatim_record::verbs::{Command, Event, Reply};
use verbatim_record::{Entry, Label, Role, Side, Span, Time, Verbs, VerbsAnswered, VerbsAsked, VerbsTold};

use super::{PeerState, Received};
use crate::rig::Stimulus;
use crate::stop::{Step, Stop};
use crate::tester::Tester;

/// Longest time that the host of a device may take to reply to a command.
const PATIENCE: Duration = Duration::from_secs(30);

/// An event on a connection: a completion or a packet.
#[derive(Clone, PartialEq, Debug)]
pub enum Sign {
    /// A send or receive request of the DUT completed.
    Completion(pb::Completion),
    /// A packet of the DUT arrived.
    Packet(Received),
}

impl PeerState {
    fn completion_of(&mut self, side: Side, qp: u32) -> Option<pb::Completion> {
        let place = self.told.iter().position(|(of, _, event)| {
            *of == side && matches!(event, Event::Completion(completion) if completion.qp == qp)
        })?;
        match self.told.remove(place) {
            Some((_, _, Event::Completion(completion))) => Some(completion),
            _ => None,
        }
    }
}

impl Tester<'_> {
    /// Sends a command to the host of a device and waits for the reply. A refusal also counts as a reply.
    ///
    /// # Errors
    /// When the host does not reply within 30 seconds, and when the run must stop. [`Stop::NotOffered`] when the device
    /// reported that it cannot execute the command.
    pub fn verbs(&mut self, label: Label<Verbs>, side: Side, command: Command) -> Step<Reply> {
        let role = self.role;
        self.verbs_as(role, label, side, command)
    }

    pub(super) fn verbs_as(&mut self, role: Role, label: Label<Verbs>, side: Side, command: Command) -> Step<Reply> {
        self.make_room(side, &command, None)?;
        let reply = self.asked(role, label, side, &command)?;
        match &reply {
            Reply::Refused(refused) if self.make_room(side, &command, Some(refused))? => {
                self.asked(role, label, side, &command)
            }
            _ => Ok(reply),
        }
    }

    /// Sends a command once and waits for its reply.
    fn asked(&mut self, role: Role, label: Label<Verbs>, side: Side, command: &Command) -> Step<Reply> {
        self.check_stop()?;
        self.must_be_offered(side, command)?;
        self.must_be_there(side, command)?;
        let label = self.number_as(label.name, role);
        if !self.peer.touched.contains(&side) {
            self.peer.touched.push(side);
        }
        self.peer.commands += 1;
        let number = self.peer.commands;
        let at = self.rig.send(Stimulus::Verbs(side, number, command))?;
        let until = at.latest.after(PATIENCE);
        let name = verbatim_record::verbs::command_words(command);
        self.sink.put(Entry::VerbsAsked(Box::new(VerbsAsked {
            number,
            label,
            side,
            at,
            command: command.clone(),
        })));
        let reply = self.await_until(until, |peer| peer.answers.remove(&number))?;
        if let Some(reply) = &reply {
            self.peer.room.learn(side, command, reply);
        }
        if let Some(Reply::Opened(facts)) = &reply {
            self.peer.offered.learn(side, facts);
            if side == Side::Dut {
                self.peer.answer_time = verbatim_record::silence::answer_time(facts.local_ca_ack_delay);
            }
        }
        reply.ok_or_else(|| {
            let text = format!(
                "the host of the {side}'s device did not answer \"{name}\" within {} s",
                PATIENCE.as_secs()
            );
            let stop = Stop::RigGone(text);
            self.stopped.get_or_insert(stop.clone());
            stop
        })
    }

    /// Sends a command that the test requires to succeed, and waits for the reply.
    ///
    /// # Errors
    /// As [`Tester::verbs`], and [`Stop::Refused`] when the host refuses the command.
    pub fn verbs_must(&mut self, label: Label<Verbs>, side: Side, command: Command) -> Step<Reply> {
        let role = self.role;
        self.must_as(role, label, side, command)
    }

    pub(super) fn must_as(&mut self, role: Role, label: Label<Verbs>, side: Side, command: Command) -> Step<Reply> {
        match self.verbs_as(role, label, side, command)? {
            Reply::Refused(refused) => Err(Stop::Refused(format!(
                "the host of the {side}'s device refused \"{}\": {}",
                label.name, refused.text
            ))),
            reply => Ok(reply),
        }
    }

    pub(crate) fn take_reply(&mut self, number: u32, at: Span, host_at: Span, reply: Reply) {
        self.sink.put(Entry::VerbsAnswered(Box::new(VerbsAnswered {
            number,
            at,
            host_at,
            reply: reply.clone(),
        })));
        self.peer.answers.insert(number, reply);
    }

    pub(crate) fn take_event(&mut self, side: Side, at: Span, host_at: Span, event: Event) {
        self.sink.put(Entry::VerbsTold(VerbsTold {
            side,
            at,
            host_at,
            event: event.clone(),
        }));
        self.peer.told.push_back((side, at, event));
    }

    /// Returns the next completion of one side's queue pair, or `None` if no completion arrives by `until`. Completions
    /// of other queue pairs stay queued.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn next_completion(&mut self, side: Side, qp: u32, until: Time) -> Step<Option<pb::Completion>> {
        self.check_stop()?;
        self.await_until(until, |peer| peer.completion_of(side, qp))
    }

    /// Returns the next completion of the DUT's queue pair, or else the next RoCE packet to the tester. Returns `None`
    /// if neither arrives by `until`.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn next_sign(&mut self, qp: u32, until: Time) -> Step<Option<Sign>> {
        self.check_stop()?;
        self.await_until(until, |peer| match peer.completion_of(Side::Dut, qp) {
            Some(completion) => Some(Sign::Completion(completion)),
            None => peer.inbox.pop_front().map(Sign::Packet),
        })
    }

    /// Destroys all objects that the test created on the hosts.
    pub(crate) fn release_verbs(&mut self) {
        const END: Label<Verbs> = Label::new("destroy all that the test made");
        for side in core::mem::take(&mut self.peer.touched) {
            // If this fails, the host destroys the objects later, when its session ends together with the rig.
            let _ = self.verbs_as(Role::Runner, END, side, Command::DestroyAll(pb::DestroyAll {}));
        }
        self.peer.touched.clear();
    }
}
