//! What the statements need of a database.

use std::fmt;

use crate::store::StoreError;

/// What stands in a column, or for a parameter.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

macro_rules! value_from {
    ($($of:ty, $from:ident => $value:expr;)*) => {$(
        impl From<$of> for Value {
            fn from($from: $of) -> Self {
                $value
            }
        }
    )*};
}

value_from! {
    &str, text => Self::Text(text.into());
    String, text => Self::Text(text);
    i32, number => Self::Int(number.into());
    bool, flag => Self::Int(flag.into());
    u64, number => Self::Int(i64::try_from(number).unwrap_or(i64::MAX));
    usize, number => Self::Int(i64::try_from(number).unwrap_or(i64::MAX));
    Vec<u8>, bytes => Self::Bytes(bytes);
    Option<u64>, number => number.map_or(Self::Null, Self::from);
}

/// A row, taken from left to right.
#[derive(Debug)]
pub(super) struct Row(pub(super) std::vec::IntoIter<Value>);

impl Row {
    pub(super) fn text(&mut self) -> String {
        match self.0.next() {
            Some(Value::Text(text)) => text,
            _ => String::new(),
        }
    }

    pub(super) fn bytes(&mut self) -> Vec<u8> {
        match self.0.next() {
            Some(Value::Bytes(bytes)) => bytes,
            _ => Vec::new(),
        }
    }

    /// A number that is not negative; none where there is none.
    pub(super) fn number(&mut self) -> Option<u64> {
        match self.0.next() {
            Some(Value::Int(number)) => Some(u64::try_from(number).unwrap_or(0)),
            _ => None,
        }
    }

    pub(super) fn flag(&mut self) -> bool {
        self.number().is_some_and(|number| number != 0)
    }
}

/// The values of a statement's parameters, `$1` first.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::store::sql::connection::Value::from($value)),*] };
}
pub(super) use values;

/// What a write has outlived for certain when it is answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Outlives {
    /// The end of the daemon. The next synced write makes it last.
    Crash,
    /// A loss of the power of whoever keeps it: the log is synced.
    PowerLoss,
}

/// A connection, on which one thing is done after the other.
pub(super) trait Connection: Send + fmt::Debug {
    /// Runs a statement; how many rows it changed.
    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, StoreError>;

    /// The rows that a statement comes to.
    fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, StoreError>;

    /// Begins a transaction in which something is to be written.
    fn begin(&mut self, outlives: Outlives) -> Result<(), StoreError>;

    /// What follows a SELECT of a row that is to be written, unless somebody else is about to.
    fn or_skip(&self) -> &'static str {
        ""
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        self.execute("COMMIT", &[]).map(drop)
    }

    fn rollback(&mut self) {
        // What cannot be rolled back was never begun, or its connection is gone.
        let _ = self.execute("ROLLBACK", &[]);
    }

    /// The first row, if there is one.
    fn first(&mut self, sql: &str, values: &[Value]) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, values)?.into_iter().next())
    }
}

/// Where connections come from.
pub(super) trait Database: Send + Sync + fmt::Debug {
    /// One to read by.
    fn reader(&self) -> Result<Box<dyn Connection>, StoreError>;

    /// That what is kept cannot be understood.
    fn damaged(&self, what: String) -> StoreError;

    /// Looks at all of it, which takes its time.
    fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Nanoseconds since 1970 on the clock by which leases expire.
    fn now_ns(&self) -> u64 {
        verbatim_run::now_ns()
    }

    /// Takes what its clock says now: nanoseconds since 1970, at an instant of the host's own clock.
    fn set_clock(&self, _now_ns: u64, _boot_ns: u64) {}
}
