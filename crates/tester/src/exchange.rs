//! Exchanges: a request, its deadline, and its response.

use core::time::Duration;

use verbatim_record::{Arrived, Entry, Label, Match, Role, Sent, Span, Time, nearly_an_answer, unlike_an_answer};
use verbatim_wire::trap::m_key_of;
use verbatim_wire::{Attribute, AttributeId, Mad, Method, PortInfo, Status};

use crate::rig::Arrival;
use crate::stop::{Step, Stop};
use crate::tester::{Answer, Tester};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Waiting,
    Answered,
    Silent,
}

#[derive(Debug)]
pub(crate) struct Outstanding {
    pub(crate) number: u32,
    pub(crate) request: Mad,
    pub(crate) deadline: Time,
    pub(crate) answer: Option<(Mad, Span)>,
    /// Whether the tester's own port answers.
    pub(crate) own: bool,
}

/// Maximum number of requests to a device that keeps answering busy. The pauses between the requests add up to 7.7 s.
pub(crate) const BUSY_TRIES: u32 = 12;
/// Shortest and longest pause before the next request to a busy device. The pause doubles after each busy
/// response, up to the longest pause.
const BUSY_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(1280));

/// Returns the pause before the next request to a busy device, after `times` earlier pauses.
pub(crate) fn busy_pause(times: u32) -> Duration {
    let (first, most) = BUSY_PAUSE;
    first.saturating_mul(1 << times.min(16)).min(most)
}

impl Tester<'_> {
    /// Sends a request and waits for its response, at most for the silence period. Repeats the request while the
    /// device answers busy, up to [`BUSY_TRIES`] times, and then returns the busy response.
    pub(crate) fn exchange<A: Attribute>(
        &mut self,
        label: Label<A>,
        attempt: u32,
        mad: &Mad,
    ) -> Step<Option<Answer<A>>> {
        Ok(self.exchange_any(label.name, attempt, mad)?.map(typed))
    }

    /// Sends a MAD of any attribute and waits for its response, like [`Tester::exchange`].
    pub(crate) fn exchange_any(&mut self, label: &'static str, attempt: u32, mad: &Mad) -> Step<Option<(Mad, Span)>> {
        for busy in 0.. {
            let answer = self.exchange_raw(label, attempt + busy, mad)?;
            if busy + 1 == BUSY_TRIES || answer.is_none_or(|(mad, _)| mad.status() != Status::BUSY) {
                return Ok(answer);
            }
            self.pause(busy_pause(busy))?;
        }
        Ok(None)
    }

    /// Sends a request once, even if the device answers busy. Waits for the response, at most for the silence
    /// period.
    pub(crate) fn exchange_once<A: Attribute>(
        &mut self,
        label: Label<A>,
        attempt: u32,
        mad: &Mad,
    ) -> Step<Option<Answer<A>>> {
        Ok(self.exchange_raw(label.name, attempt, mad)?.map(typed))
    }

    fn exchange_raw(&mut self, label: &'static str, attempt: u32, mad: &Mad) -> Step<Option<(Mad, Span)>> {
        let number = self.launch(label, attempt, mad)?;
        self.sink.flush();
        loop {
            let Some(place) = self.outstanding.iter().position(|out| out.number == number) else {
                return Ok(None);
            };
            if let Some(answer) = self.outstanding[place].answer {
                self.outstanding.remove(place);
                return Ok(Some(answer));
            }
            let arrival = self.rig.wait(self.outstanding[place].deadline);
            match arrival {
                Arrival::Deadline => self.expire(),
                other => self.take(other)?,
            }
        }
    }

    /// Sends a request with a new transaction ID and records it. Returns the number of the exchange.
    pub(crate) fn launch(&mut self, label: &'static str, attempt: u32, mad: &Mad) -> Step<u32> {
        let number = u32::try_from(self.states.len() + 1).map_err(|_| Stop::Tester("too many exchanges".into()))?;
        self.launch_as(
            label,
            attempt,
            &mad.with_transaction_id(self.id_upper << 32 | u64::from(self.id_base.wrapping_add(number))),
        )
    }

    /// Sends a request with the transaction ID that `mad` already has, and records it. Returns the number of the
    /// exchange.
    pub(crate) fn launch_as(&mut self, label: &'static str, attempt: u32, mad: &Mad) -> Step<u32> {
        let number = u32::try_from(self.states.len() + 1).map_err(|_| Stop::Tester("too many exchanges".into()))?;
        let mad = *mad;
        let label = self.number_of(label);
        let silence = self.silence();
        self.rig.answers_within(silence);
        let at = self.stimulus(&mad)?;
        let deadline = at.latest.after(silence);
        self.states.push(State::Waiting);
        self.sink.put(Entry::Sent(Box::new(Sent {
            exchange: number,
            label,
            attempt,
            port: self.leaves_by(),
            at,
            mad,
            dlid: self.goes_to(),
        })));
        self.outstanding.push_back(Outstanding {
            number,
            request: mad,
            deadline,
            answer: None,
            own: self.own,
        });
        Ok(number)
    }

    /// Records an arrival. Ends the procedure if the rig reports a stop.
    pub(crate) fn take(&mut self, arrival: Arrival) -> Step {
        match arrival {
            Arrival::Deadline => Ok(()),
            Arrival::Mad(port, at, mad) => {
                let (exchange, how) = self.relate(&mad, at);
                if how == Match::Trap {
                    self.last_trap = Some(mad);
                    self.trap_keys.push(m_key_of(&mad));
                }
                self.sink.put(Entry::Arrived(Box::new(Arrived {
                    exchange,
                    how,
                    port,
                    at,
                    mad,
                })));
                Ok(())
            }
            Arrival::Frame(port, at, bytes) => self.take_frame(port, at, bytes),
            Arrival::Packet(port, at, bytes, delimiter) => {
                self.take_native(port, at, bytes, delimiter);
                Ok(())
            }
            Arrival::Verbs(_, number, at, host_at, reply) => {
                self.take_reply(number, at, host_at, reply);
                Ok(())
            }
            Arrival::Told(side, at, host_at, event) => {
                self.take_event(side, at, host_at, event);
                Ok(())
            }
            Arrival::Returned(_, at, mad, errno) => {
                let exchange = self.exchange_of(&mad);
                if exchange != 0 {
                    self.sink.put(Entry::Returned { exchange, at, errno });
                }
                Ok(())
            }
            Arrival::Stop(stop) => {
                let gone = matches!(stop, Stop::RigGone(_));
                self.stopped.get_or_insert(stop.clone());
                // While the runner restores, only the loss of the rig can stop it.
                if self.role == Role::Runner && !gone {
                    Ok(())
                } else {
                    Err(stop)
                }
            }
        }
    }

    /// Marks each request whose deadline has passed as unanswered, and records the silence.
    pub(crate) fn expire(&mut self) {
        let now = self.rig.now();
        let (resp_time, subnet_timeout) = (self.resp_time, self.subnet_timeout);
        let (states, sink) = (&mut self.states, &mut *self.sink);
        self.outstanding.retain(|out| {
            let passed = out.deadline <= now && out.answer.is_none();
            if passed {
                states[out.number as usize - 1] = State::Silent;
                sink.put(Entry::Silence {
                    exchange: out.number,
                    at: Span::exactly(now),
                    resp_time,
                    subnet_timeout,
                });
            }
            !passed
        });
    }

    /// Returns the number of the exchange that the low 32 bits of a MAD's transaction ID identify, or 0.
    fn exchange_of(&self, mad: &Mad) -> u32 {
        let number = (mad.transaction_id() as u32).wrapping_sub(self.id_base);
        if (1..=self.states.len()).contains(&(number as usize)) {
            number
        } else {
            0
        }
    }

    fn relate(&mut self, mad: &Mad, at: Span) -> (u32, Match) {
        if mad.method() == Method::TRAP {
            return (0, Match::Trap);
        }
        let number = self.exchange_of(mad);
        if number == 0 {
            return (0, Match::Stray);
        }
        let state = self.states[number as usize - 1];
        let Some(out) = self.outstanding.iter_mut().find(|out| out.number == number) else {
            return (
                number,
                if state == State::Silent {
                    Match::Late
                } else {
                    Match::Again
                },
            );
        };
        if !is_answer(&out.request, mad) {
            self.nearly = nearly_an_answer(&out.request, mad);
            return (number, Match::Wrong);
        }
        if state == State::Answered {
            return (number, Match::Again);
        }
        out.answer = Some((*mad, at));
        let own = out.own;
        self.states[number as usize - 1] = State::Answered;
        if mad.attribute_id() == AttributeId::PORT_INFO && mad.is_smp() && mad.status() == Status::OK {
            let info: PortInfo = mad.attribute();
            if own {
                self.shown_own = info;
                return (number, Match::Answer);
            }
            self.shown.insert(mad.modifier(), info);
            // PortInfo of another port of the node does not set the response times of this port.
            let port = mad.modifier() & 0x7FFF_FFFF;
            if port == 0 || port == u32::from(info.local_port_num()) {
                self.resp_time = info.resp_time_value();
                self.subnet_timeout = self.info.subnet_timeout.unwrap_or(info.subnet_timeout());
            }
        }
        (number, Match::Answer)
    }

    pub(crate) fn number_of(&mut self, name: &'static str) -> u32 {
        self.number_as(name, self.role)
    }

    pub(crate) fn number_as(&mut self, name: &'static str, role: Role) -> u32 {
        let place = self
            .labels
            .iter()
            .position(|known| *known == (name, role))
            .unwrap_or_else(|| {
                self.labels.push((name, role));
                let number = self.labels.len() as u32;
                self.sink.put(Entry::Label {
                    number,
                    name: name.into(),
                    role,
                });
                self.labels.len() - 1
            });
        place as u32 + 1
    }
}

fn typed<A: Attribute>((mad, at): (Mad, Span)) -> Answer<A> {
    Answer {
        status: mad.status(),
        value: mad.attribute(),
        at,
    }
}

/// Whether a MAD is the response to a request, by class, attribute and modifier. The caller has already matched the
/// transaction ID.
fn is_answer(request: &Mad, mad: &Mad) -> bool {
    unlike_an_answer(request, mad).is_empty()
}
