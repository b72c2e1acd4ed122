//! The sink for the entries of a running test.

use verbatim_record::{Entry, FileSink, Sink, Tracing};

use verbatim_record_proto::v1::StepStarted;
use verbatim_record_proto::v1::run_event::Event;

/// Indexes entries for the judge, writes them to the bundle, and reports steps. Does not keep the entries, because the
/// longest tests would need hundreds of MiB in the daemon.
pub(super) struct RunSink<'a, 'b> {
    pub(super) tracing: Tracing,
    pub(super) file: Option<FileSink>,
    pub(super) step: Option<u32>,
    pub(super) report: &'a mut (dyn FnMut(Event) + 'b),
}

impl Sink for RunSink<'_, '_> {
    fn put(&mut self, entry: Entry) {
        if let Some(file) = &mut self.file {
            file.put(entry.clone());
        }
        if let Some(label) = step_of(&entry)
            && self.step != Some(label)
        {
            self.step = Some(label);
            if let Some(name) = self.tracing.label(label) {
                let step = name.into();
                (self.report)(Event::StepStarted(StepStarted { step }));
            }
        }
        self.tracing.put(entry);
    }

    fn flush(&mut self) {
        if let Some(file) = &mut self.file {
            file.flush();
        }
    }

    fn error(&self) -> Option<String> {
        self.file.as_ref().and_then(Sink::error)
    }
}

/// Returns the label of the step that starts with this entry. Frames that the tester sends by itself have no label.
fn step_of(entry: &Entry) -> Option<u32> {
    match entry {
        Entry::Sent(sent) => Some(sent.label),
        Entry::VerbsAsked(asked) => Some(asked.label),
        Entry::Frame(frame) if !frame.received => Some(frame.label).filter(|label| *label != 0),
        _ => None,
    }
}
