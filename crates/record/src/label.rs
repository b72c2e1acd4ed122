//! Labels: typed names of exchanges, which connect a procedure with its judge.

use core::fmt;
use core::marker::PhantomData;

/// The type of labels of frames that the tester sends: `Label<Frames>`.
#[derive(Debug)]
pub enum Frames {}

/// The type of labels of verbs commands: `Label<Verbs>`.
#[derive(Debug)]
pub enum Verbs {}

/// The type of labels of waits: `Label<Wait>`.
#[derive(Debug)]
pub enum Wait {}

/// A typed name of an exchange, or of a series of exchanges that differ in their AttributeModifier. Frames, verbs
/// commands and waits also have labels.
///
/// A procedure sends requests under a label; the judge looks up requests and responses by the label. A change of a
/// test's labels makes a new revision of the test.
pub struct Label<A> {
    /// The label's text, such as "right key, before".
    pub name: &'static str,
    attribute: PhantomData<fn() -> A>,
}

impl<A> Label<A> {
    /// Creates a label with this text.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            attribute: PhantomData,
        }
    }
}

impl<A> Clone for Label<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Label<A> {}

impl<A> fmt::Debug for Label<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.name)
    }
}
