//! Tables of what the fields of an attribute may hold, a row a field.

use verbatim_wire::{Attribute, Field};

use super::Findings;
use crate::trace::Exchange;

/// What one field may hold: `field("BaseVersion").is(1)`.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    field: &'static str,
    legal: Legal,
}

#[derive(Clone, Copy, Debug)]
enum Legal {
    Is(u64),
    Within(u64, u64),
    AtLeast(u64),
    NotZero,
}

/// A field by its name in the architecture; what it may hold follows.
#[must_use]
pub const fn field(name: &'static str) -> FieldName {
    FieldName(name)
}

/// A field of a [`Row`] in the making.
#[derive(Clone, Copy, Debug)]
pub struct FieldName(&'static str);

impl FieldName {
    const fn row(self, legal: Legal) -> Row {
        Row { field: self.0, legal }
    }

    /// It is this.
    #[must_use]
    pub const fn is(self, value: u64) -> Row {
        self.row(Legal::Is(value))
    }

    /// It is one of these, the ends too.
    #[must_use]
    pub const fn within(self, least: u64, most: u64) -> Row {
        self.row(Legal::Within(least, most))
    }

    /// It is this or more.
    #[must_use]
    pub const fn at_least(self, least: u64) -> Row {
        self.row(Legal::AtLeast(least))
    }

    /// It is anything but 0.
    #[must_use]
    pub const fn not_zero(self) -> Row {
        self.row(Legal::NotZero)
    }
}

impl Legal {
    fn words(self) -> String {
        match self {
            Self::Is(value) => value.to_string(),
            Self::Within(least, most) => format!("{least} to {most}"),
            Self::AtLeast(least) => format!("at least {least}"),
            Self::NotZero => "not 0".into(),
        }
    }

    fn holds(self, value: u64) -> bool {
        match self {
            Self::Is(wanted) => value == wanted,
            Self::Within(least, most) => (least..=most).contains(&value),
            Self::AtLeast(least) => value >= least,
            Self::NotZero => value != 0,
        }
    }
}

impl Findings<'_> {
    /// The fields of an attribute must hold what the table allows; the evidence is the exchange that showed it.
    pub fn legal<A: Attribute>(&mut self, statement: &str, exchange: &Exchange, seen: &A, rows: &[Row]) {
        for row in rows {
            let field: &Field = A::field(row.field);
            self.claim(statement, field.name)
                .by(exchange)
                .saw(field.words(seen.bytes()))
                .must(row.legal.words(), row.legal.holds(field.bits(seen.bytes(), 0)));
        }
    }
}
