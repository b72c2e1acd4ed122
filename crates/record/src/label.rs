//! Labels: typed names of exchanges, which tie a procedure to its judge.

use core::fmt;
use core::marker::PhantomData;

/// Marks labels of frames that the tester sends: `Label<Frames>`.
#[derive(Debug)]
pub enum Frames {}

/// Marks labels of verbs commands: `Label<Verbs>`.
#[derive(Debug)]
pub enum Verbs {}

/// Marks labels of waits: `Label<Wait>`.
#[derive(Debug)]
pub enum Wait {}

/// A typed constant that names an exchange, or a series of exchanges that differ in their modifier.
///
/// A procedure sends under it, the judge looks up what was asked and answered under it. The labels of
/// a test are its contract: another set of labels is another revision of the test.
pub struct Label<A> {
    /// The words, such as "right key, before".
    pub name: &'static str,
    attribute: PhantomData<fn() -> A>,
}

impl<A> Label<A> {
    /// A label of that name.
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
