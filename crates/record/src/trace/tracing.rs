//! Builds a trace entry by entry.

use std::sync::Arc;

use super::{Exchange, Trace, TraceError};
use crate::entry::{Entry, Sink};

/// A sink that builds a [`Trace`]. The longest tests have hundreds of thousands of packets. With this sink, a judge of
/// a running test need not keep the test's entries.
#[derive(Debug, Default)]
pub struct Tracing {
    trace: Option<Trace>,
    /// The labels' texts; label n is at index n − 1.
    names: Vec<Arc<str>>,
    /// The number of accepted entries.
    taken: usize,
    error: Option<TraceError>,
}

impl Sink for Tracing {
    fn put(&mut self, entry: Entry) {
        // After an error there is no trace, so later entries are ignored.
        if self.error.is_none() {
            self.error = self.take(entry).err();
            self.taken += 1;
        }
    }

    fn flush(&mut self) {}
}

impl Tracing {
    /// Returns the trace of all entries so far.
    ///
    /// # Errors
    /// Returns an error when no entry has arrived, the first entry is not `Begin`, or an entry refers to an
    /// undefined item.
    pub fn trace(&self) -> Result<&Trace, TraceError> {
        match (&self.error, &self.trace) {
            (Some(error), _) => Err(error.clone()),
            (None, Some(trace)) => Ok(trace),
            (None, None) => Err(TraceError::NoBegin),
        }
    }

    /// Returns the trace of all entries.
    ///
    /// # Errors
    /// Returns the errors of [`Tracing::trace`].
    pub fn into_trace(self) -> Result<Trace, TraceError> {
        match self.error {
            Some(error) => Err(error),
            None => self.trace.ok_or(TraceError::NoBegin),
        }
    }

    /// Returns the text of a label by its number.
    #[must_use]
    pub fn label(&self, number: u32) -> Option<&str> {
        let at = (number as usize).checked_sub(1)?;
        self.names.get(at).map(|name| &**name)
    }

    fn take(&mut self, entry: Entry) -> Result<(), TraceError> {
        let dangling = |what, number| TraceError::Dangling {
            entry: self.taken,
            what,
            number,
        };
        let Some(trace) = &mut self.trace else {
            let Entry::Begin(begin) = entry else {
                return Err(TraceError::NoBegin);
            };
            self.trace = Some(Trace::of(*begin));
            return Ok(());
        };
        match entry {
            Entry::Begin(_) | Entry::End { .. } | Entry::Journal { .. } => {}
            Entry::Label { number, name, role } => {
                if number as usize != self.names.len() + 1 {
                    return Err(dangling("label", number));
                }
                let name: Arc<str> = name.into();
                trace.labels.insert(Arc::clone(&name), (role, Vec::new()));
                self.names.push(name);
            }
            Entry::Sent(sent) => {
                if sent.exchange as usize != trace.exchanges.len() + 1 {
                    return Err(dangling("exchange", sent.exchange));
                }
                let name = (sent.label as usize)
                    .checked_sub(1)
                    .and_then(|at| self.names.get(at))
                    .ok_or_else(|| dangling("label", sent.label))?;
                if let Some((_, exchanges)) = trace.labels.get_mut(name) {
                    exchanges.push(trace.exchanges.len());
                }
                trace.exchanges.push(Exchange {
                    number: sent.exchange,
                    label: Arc::clone(name),
                    attempt: sent.attempt,
                    sent: sent.at,
                    request: sent.mad,
                    port: sent.port,
                    dlid: sent.dlid,
                    arrivals: Vec::new(),
                    silence: None,
                    returned: None,
                });
            }
            Entry::Arrived(arrived) if arrived.exchange == 0 => trace.unasked.push(*arrived),
            Entry::Arrived(arrived) => {
                let number = arrived.exchange;
                let arrivals = &mut trace
                    .numbered(number)
                    .ok_or_else(|| dangling("exchange", number))?
                    .arrivals;
                if arrivals.is_empty() {
                    // Most exchanges have one arrival. The default capacity of four would take most of a long record's
                    // memory.
                    arrivals.reserve_exact(1);
                }
                arrivals.push(*arrived);
            }
            Entry::Silence {
                exchange,
                at,
                resp_time,
                subnet_timeout,
            } => {
                trace
                    .numbered(exchange)
                    .ok_or_else(|| dangling("exchange", exchange))?
                    .silence = Some((at, resp_time, subnet_timeout));
            }
            Entry::Returned { exchange, at, errno } => {
                trace
                    .numbered(exchange)
                    .ok_or_else(|| dangling("exchange", exchange))?
                    .returned = Some((at, errno));
            }
            Entry::Frame(_)
            | Entry::VerbsAsked(_)
            | Entry::VerbsAnswered(_)
            | Entry::VerbsTold(_)
            | Entry::Waited(_)
            | Entry::RoundTrips(_) => trace
                .timeline
                .take(entry, &self.names)
                .map_err(|(what, number)| dangling(what, number))?,
            Entry::Note(note) => trace.notes.push(note.text),
            Entry::Stopped(stopped) => trace.stopped = Some(stopped),
            Entry::Restored(restored) => trace.restored.push(restored),
            Entry::Reset(reset) => trace.resets.push(*reset),
            Entry::KernelReport(report) => trace.kernel_reports.push(report),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use verbatim_wire::Mad;

    use super::*;
    use crate::entry::{Arrived, Begin, Match, Role, Sent};
    use crate::time::Span;

    fn sent(exchange: u32, label: u32) -> Entry {
        Entry::Sent(Box::new(Sent {
            exchange,
            label,
            attempt: 0,
            port: 0,
            at: Span::default(),
            mad: Mad::default(),
            dlid: None,
        }))
    }

    fn tracing() -> Tracing {
        let mut tracing = Tracing::default();
        tracing.put(Entry::Begin(Box::default()));
        tracing.put(Entry::Label {
            number: 1,
            name: "the only".into(),
            role: Role::Test,
        });
        tracing
    }

    #[test]
    fn single_arrival_allocates_one_slot() {
        let mut tracing = tracing();
        tracing.put(sent(1, 1));
        tracing.put(Entry::Arrived(Box::new(Arrived {
            exchange: 1,
            how: Match::Answer,
            port: 0,
            at: Span::default(),
            mad: Mad::default(),
        })));
        let trace = tracing.into_trace().unwrap();
        assert_eq!(trace.exchanges[0].arrivals.len(), 1);
        assert_eq!(trace.exchanges[0].arrivals.capacity(), 1);
    }

    #[test]
    fn exchanges_share_label_text() {
        let mut tracing = tracing();
        tracing.put(sent(1, 1));
        tracing.put(sent(2, 1));
        assert_eq!(tracing.label(1), Some("the only"));
        assert_eq!(tracing.label(0), None);
        assert_eq!(tracing.label(2), None);
        let trace = tracing.trace().unwrap();
        assert!(Arc::ptr_eq(&trace.exchanges[0].label, &trace.exchanges[1].label));
    }

    #[test]
    fn undefined_label_ends_the_trace() {
        let mut tracing = tracing();
        tracing.put(sent(1, 7));
        tracing.put(sent(1, 1));
        let dangling = TraceError::Dangling {
            entry: 2,
            what: "label",
            number: 7,
        };
        assert_eq!(tracing.trace().unwrap_err(), dangling);
        assert_eq!(tracing.into_trace().unwrap_err(), dangling);
    }

    #[test]
    fn trace_needs_begin_first() {
        assert_eq!(Tracing::default().trace().unwrap_err(), TraceError::NoBegin);
        let mut tracing = Tracing::default();
        tracing.put(sent(1, 1));
        tracing.put(Entry::Begin(Box::<Begin>::default()));
        assert_eq!(tracing.trace().unwrap_err(), TraceError::NoBegin);
    }
}
