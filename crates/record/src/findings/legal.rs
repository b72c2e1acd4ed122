//! Tables of the legal values of an attribute's fields, one row per field.

use core::fmt;

use verbatim_wire::{Attribute, Field};

use super::Findings;
use crate::trace::Exchange;

/// The legal values of a field. A table's row is `("BaseVersion", Legal::Is(1))`.
#[derive(Clone, Copy, Debug)]
pub enum Legal {
    /// Only this value.
    Is(u64),
    /// A value of this range, both ends included.
    Within(u64, u64),
    /// This value or more.
    AtLeast(u64),
    /// Any value but 0.
    NotZero,
}

impl Legal {
    /// Returns whether a value is legal.
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
    /// Checks each field of the table in a received attribute. The evidence is the exchange.
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
