//! Where the entries of a running test go.

use verbatim_record::{Entry, FileSink, Sink, Tracing};

use verbatim_record_proto::v1::StepStarted;
use verbatim_record_proto::v1::run_event::Event;

/// Indexes entries for the judge, writes them into the bundle, and reports steps. Nobody keeps them: of the longest tests that
/// would be hundreds of MiB, in the daemon.
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

/// The label of the step that begins with this entry; what the tester answers by itself has none.
fn step_of(entry: &Entry) -> Option<u32> {
    match entry {
        Entry::Sent(sent) => Some(sent.label),
        Entry::VerbsAsked(asked) => Some(asked.label),
        Entry::Frame(frame) if !frame.received => Some(frame.label).filter(|label| *label != 0),
        _ => None,
    }
}
