//! Tables of what the fields of an attribute may hold, a row a field.

use core::fmt;

use verbatim_wire::{Attribute, Field};

use super::Findings;
use crate::trace::Exchange;

/// What a field may hold: `("BaseVersion", Legal::Is(1))` is a row.
#[derive(Clone, Copy, Debug)]
pub enum Legal {
    /// This.
    Is(u64),
    /// One of these, the ends too.
    Within(u64, u64),
    /// This or more.
    AtLeast(u64),
    /// Anything but 0.
    NotZero,
}

impl Legal {
    /// Whether a value is legal.
    #[must_use]
    pub fn holds(self, value: u64) -> bool {
        match self {
            Self::Is(wanted) => value == wanted,
            Self::Within(least, most) => (least..=most).contains(&value),
            Self::AtLeast(least) => value >= least,
            Self::NotZero => value != 0,
        }
    }
}

impl fmt::Display for Legal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(value) => write!(f, "{value}"),
            Self::Within(least, most) => write!(f, "{least} to {most}"),
            Self::AtLeast(least) => write!(f, "at least {least}"),
            Self::NotZero => write!(f, "not 0"),
        }
    }
}

impl Findings<'_> {
    /// The fields of an attribute must hold what the table allows; the evidence is the exchange that showed it.
    #[track_caller]
    pub fn legal<A: Attribute>(
        &mut self,
        statement: &str,
        exchange: &Exchange,
        seen: &A,
        table: &[(&'static str, Legal)],
    ) {
        for (name, legal) in table {
            let field: &Field = A::field(name);
            self.claim(statement, field.name)
                .by(exchange)
                .saw(field.words(seen.bytes()))
                .must(legal, legal.holds(field.bits(seen.bytes(), 0)));
        }
    }
}
