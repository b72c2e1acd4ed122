//! Series of exchanges with several outstanding at once.

use core::time::Duration;
use std::collections::VecDeque;

use verbatim_record::{Label, Time};
use verbatim_wire::{Attribute, MKey, Mad, Method, NodeInfo, Status};

use crate::exchange::{BUSY_TRIES, Outstanding, State, busy_pause};
use crate::guard::{Guarded, Quiet, Settable};
use crate::rig::Arrival;
use crate::stop::Step;
use crate::tester::Tester;

/// Number of unanswered requests after which a series ends, so that a dead port does not delay the run for a day.
const SILENCES: usize = 16;
/// Number of waits for an arrival between two flushes of the record.
const FLUSH_EVERY: u32 = 64;

/// Limit of the requests whose silence the tester waits for together. The kernel keeps at most 96 requests.
const MOST_SILENT: usize = 64;

/// A Get with the right M_Key that follows requests which the device must drop.
pub const HANDLED: Label<NodeInfo> = Label::new("right key, the port has handled the requests before");

impl Tester<'_> {
    /// Gets an attribute at each modifier, with several requests outstanding at once. Repeats a request while the
    /// device answers busy. After a timeout with several requests outstanding, repeats each unanswered request
    /// once, one at a time. Returns the modifiers whose requests stayed unanswered, or were answered busy to the
    /// end.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn get_many<A: Attribute>(
        &mut self,
        label: Label<A>,
        key: MKey,
        modifiers: impl Iterator<Item = u32>,
    ) -> Step<Vec<u32>> {
        let blank = self.mad::<A>(Method::GET, 0).with_m_key(key);
        let mads = modifiers.map(move |modifier| with_modifier(blank, modifier));
        self.many(label, mads, SILENCES)
    }

    /// Sets an attribute at each modifier, like [`Tester::get_many`]. Returns the modifiers whose requests stayed
    /// unanswered, or were answered busy to the end.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn set_many<A: Settable>(
        &mut self,
        label: Label<A>,
        _guard: &Guarded<A>,
        key: MKey,
        what: impl Iterator<Item = (u32, Quiet<A>)>,
    ) -> Step<Vec<u32>> {
        let blank = self.mad::<A>(Method::SET, 0).with_m_key(key);
        let mads = what.map(move |(modifier, value)| with_modifier(blank, modifier).with_data(value.get().bytes()));
        self.many(label, mads, SILENCES)
    }

    /// Sends the same Get `count` times, with an M_Key that the device must reject. Several Gets are outstanding at
    /// once. Waits until the silence period of each Get has passed.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn provoke_many<A: Attribute>(&mut self, label: Label<A>, key: MKey, count: u64) -> Step {
        let mad = self.mad::<A>(Method::GET, 0).with_m_key(key);
        let mads = (0..count).map(move |_| mad);
        self.many(label, mads, usize::MAX).map(|_| ())
    }

    /// Returns how many MADs of a series may be outstanding at once.
    #[must_use]
    pub fn window(&self) -> usize {
        self.window
    }

    /// Limits how many MADs may be outstanding at once from now on, and never raises the limit. VL 15 has no flow
    /// control, so a port drops MADs that exceed its buffers.
    pub fn narrow(&mut self, window: usize) {
        self.window = window.clamp(1, self.window);
    }

    /// Sends requests that the device must drop, and does not wait for their silence: [`Tester::wait_out`] waits for all
    /// silences together. A Get with the right M_Key follows every few requests, because its response shows that the
    /// port's buffers are free again. Repeats a request if the device answers busy.
    pub(crate) fn soon(&mut self, label: &'static str, mut mads: Vec<Mad>) -> Step {
        for attempt in 0..BUSY_TRIES {
            let earlier = self.states.len() as u32;
            for some in mads.chunks(self.window) {
                if self.outstanding.len() + some.len() > MOST_SILENT {
                    self.wait_out(Duration::ZERO)?;
                }
                for mad in some {
                    self.launch(label, attempt, mad)?;
                }
                self.get(HANDLED, self.key())?;
            }
            mads = self.take_answered(earlier);
            if mads.is_empty() {
                break;
            }
            self.pause(busy_pause(attempt))?;
        }
        Ok(())
    }

    /// Returns the outstanding requests whose number is greater than `earlier`.
    fn outstanding_after(&self, earlier: u32) -> impl Iterator<Item = &Outstanding> {
        self.outstanding.iter().filter(move |out| out.number > earlier)
    }

    /// Removes the answered requests whose number is greater than `earlier`. Returns those that were answered busy.
    fn take_answered(&mut self, earlier: u32) -> Vec<Mad> {
        let (states, mut busy) = (&self.states, Vec::new());
        self.outstanding.retain(|out| {
            let is_ours = out.number > earlier;
            if is_ours && out.answer.is_some_and(|(mad, _)| mad.status() == Status::BUSY) {
                busy.push(out.request);
            }
            !is_ours || states[out.number as usize - 1] == State::Waiting
        });
        busy
    }

    pub(crate) fn many<A>(
        &mut self,
        label: Label<A>,
        mut mads: impl Iterator<Item = Mad>,
        bearable: usize,
    ) -> Step<Vec<u32>> {
        // A port whose buffers are full may drop one of several outstanding requests. If a request times out, the
        // series repeats it and sends all further requests one at a time.
        let expects_answers = bearable != usize::MAX;
        let (mut silent, mut arrivals, mut exhausted) = (Vec::new(), 0, false);
        // Requests to which the device answered busy are repeated after all others.
        let (mut attempt, mut again, mut busy) = (0, VecDeque::new(), Vec::new());
        let (mut dropped, mut alone_from) = (VecDeque::<Mad>::new(), 0);
        // Earlier requests may still be outstanding: see `provoke_soon`.
        let earlier = self.states.len() as u32;
        loop {
            while !exhausted && self.outstanding_after(earlier).count() < self.window && silent.len() < bearable {
                let next = match dropped.pop_front() {
                    Some(mad) => Some((attempt + 1, mad)),
                    None if attempt == 0 => mads.next().map(|mad| (0, mad)),
                    None => again.pop_front().map(|mad| (attempt, mad)),
                };
                match next {
                    Some((attempt, mad)) => {
                        self.launch(label.name, attempt, &mad)?;
                    }
                    None => exhausted = true,
                }
            }
            let Some(first) = self.outstanding_after(earlier).next() else {
                if busy.is_empty() || attempt + 1 == BUSY_TRIES || !exhausted {
                    break;
                }
                self.pause(busy_pause(attempt))?;
                (attempt, again, exhausted) = (attempt + 1, core::mem::take(&mut busy).into(), false);
                continue;
            };
            let deadline: Time = first.deadline;
            if arrivals % FLUSH_EVERY == 0 {
                self.sink.flush();
            }
            arrivals += 1;
            match self.rig.wait(deadline) {
                Arrival::Deadline => {
                    let waiting = self.outstanding_after(earlier).map(|out| (out.number, out.request));
                    let waiting: Vec<_> = waiting.collect();
                    self.expire();
                    let states = &self.states;
                    let expired: Vec<_> = waiting
                        .into_iter()
                        .filter(|(n, _)| states[*n as usize - 1] == State::Silent)
                        .collect();
                    if expects_answers && self.window > 1 && !expired.is_empty() {
                        (self.window, alone_from) = (1, states.len() + 1);
                    }
                    for (number, mad) in expired {
                        if (number as usize) < alone_from {
                            dropped.push_back(mad);
                            exhausted = false;
                        } else {
                            silent.push(mad.modifier());
                        }
                    }
                }
                other => self.take(other)?,
            }
            busy.extend(self.take_answered(earlier));
        }
        self.sink.flush();
        silent.extend(busy.iter().map(Mad::modifier));
        if silent.len() >= bearable && !exhausted {
            self.note(format!(
                "\"{}\" ended after {} unanswered requests",
                label.name,
                silent.len()
            ));
            // The series ends here, because each further request would probably take a silence period. If the
            // device no longer answers at all, this call ends the procedure too.
            self.still_there()?;
        }
        Ok(silent)
    }
}

fn with_modifier(mut mad: Mad, modifier: u32) -> Mad {
    mad.bytes_mut()[20..24].copy_from_slice(&modifier.to_be_bytes());
    mad
}
