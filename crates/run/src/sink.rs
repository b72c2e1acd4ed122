//! Where the entries of a running test go.

use verbatim_record::{Entry, FileSink, Sink};

use crate::execute::Event;

/// Keeps entries for the judge and for the bundle, and reports steps.
pub(super) struct RunSink<'a, 'b> {
    pub(super) entries: Vec<Entry>,
    pub(super) file: Option<FileSink>,
    pub(super) step: Option<u32>,
    pub(super) report: &'a mut (dyn FnMut(Event<'_>) + 'b),
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
            let name = self.entries.iter().find_map(|known| match known {
                Entry::Label { number, name, .. } if *number == label => Some(name),
                _ => None,
            });
            if let Some(name) = name {
                (self.report)(Event::Step(name));
            }
        }
        self.entries.push(entry);
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
