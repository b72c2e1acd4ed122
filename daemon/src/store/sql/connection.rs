//! The interface to a database: connections, rows and values.

use std::fmt;

use crate::store::StoreError;

/// The value of a column or of a statement's parameter.
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

/// A row, whose columns are read from left to right.
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

    /// Returns a number, with 0 in place of a negative number; `None` for NULL.
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

/// Builds the list of a statement's parameters, starting with `$1`.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::store::sql::connection::Value::from($value)),*] };
}
pub(super) use values;

/// The worst failure that a committed write survives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Outlives {
    /// A crash of the daemon. Until the next synced write, a power loss may lose this write.
    Crash,
    /// A power loss of the database's host: the commit syncs the log.
    PowerLoss,
}

/// A connection, which runs one statement at a time.
pub(super) trait Connection: Send + fmt::Debug {
    /// Runs a statement, and returns the number of changed rows.
    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, StoreError>;

    /// Runs a statement, and returns its rows.
    fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, StoreError>;

    /// Begins a transaction that writes.
    fn begin(&mut self, outlives: Outlives) -> Result<(), StoreError>;

    /// Returns the suffix of a SELECT that locks its rows for writing, and skips rows that other connections have
    /// locked.
    fn or_skip(&self) -> &'static str {
        ""
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        self.execute("COMMIT", &[]).map(drop)
    }

    fn rollback(&mut self) {
        // A failed rollback means that no transaction was open, or that the connection is lost.
        let _ = self.execute("ROLLBACK", &[]);
    }

    /// Returns the first row, if there is one.
    fn first(&mut self, sql: &str, values: &[Value]) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, values)?.into_iter().next())
    }
}

/// A database, which makes connections.
pub(super) trait Database: Send + Sync + fmt::Debug {
    /// Makes a connection for reading.
    fn reader(&self) -> Result<Box<dyn Connection>, StoreError>;

    /// Returns the error of damaged data.
    fn damaged(&self, what: String) -> StoreError;

    /// Checks the whole database for damage, which may take long.
    fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the nanoseconds since 1970 on the clock by which leases expire.
    fn now_ns(&self) -> u64 {
        verbatim_run::now_ns()
    }

    /// Sets the clock: `now_ns` is the database's time in nanoseconds since 1970 at the time `boot_ns` of this host's
    /// boot clock.
    fn set_clock(&self, _now_ns: u64, _boot_ns: u64) {}
}
