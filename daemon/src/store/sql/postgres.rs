//! PostgreSQL: one database for the daemons of several hosts.
//!
//! One thread at a time uses a connection, and blocks until the response arrives. The runtime only does the I/O. A
//! database that is unreachable or doesn't respond in time counts as away.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use tokio::runtime::Handle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};
use tokio_postgres::{Client, Config, NoTls, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;
use verbatim_run::boot_ns;
use verbatim_run::state::StateDirectory;

use super::connection::{Connection, Database, Outlives, Row, Value, values};
use super::spool::Spool;
use super::writer::Writer;
use super::{SqlStore, postgres_schema as schema, version};
use crate::store::StoreError;

/// The instructions for starting with an empty database, for error messages.
const ANEW: &str = "create another, empty database, name it in the configurations of all daemons that share this one, and \
                    start them again";
/// The time limit of a statement. After this time, the database counts as away.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// The time limit of connecting.
const CONNECTS_WITHIN: Duration = Duration::from_secs(3);
/// A reading of the database's clock is inaccurate if it takes longer than this time, in nanoseconds.
const TOLD_WITHIN_NS: u64 = 20_000_000;
/// The pause after a failed attempt to connect. Calls during the pause fail with the error of that attempt.
const TRIED_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// A host counts as away after this time without a heartbeat, in nanoseconds: 5 missed heartbeats.
pub(super) const SILENT_NS: u64 = 10_000_000_000;
/// The maximum number of hosts that share a database. Each host has its own 256 serial numbers for the ids of one
/// millisecond.
const HOSTS: u64 = 256;

/// The address of a database and its connection parameters.
#[derive(Clone)]
pub struct Address {
    config: Config,
    tls: Option<Arc<ClientConfig>>,
    /// The description of the address in errors, without secrets.
    place: String,
}

impl fmt::Debug for Address {
    /// Writes the description, which omits the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

impl Address {
    /// Parses a URL, such as `postgres://verbatim@db.lab/verbatim` or `postgres:///verbatim?host=/run/postgresql`.
    ///
    /// # Errors
    /// When the URL is invalid. The error shows the expected form, but never the URL, which may hold a password.
    pub fn new(url: &str, over_tls: bool) -> Result<Self, String> {
        const EXPECTED: &str = "expected a URL such as \"postgres://verbatim@db.lab/verbatim\", or \
                                \"postgres:///verbatim?host=/run/postgresql&user=verbatim\" for a server on this host";
        let mut config = Config::from_str(url).map_err(|error| {
            let why = std::error::Error::source(&error).map_or_else(String::new, |why| format!(" ({why})"));
            format!("{EXPECTED}; it is not a valid URL{why}")
        })?;
        let is_local = |host: &Host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => name
                .parse()
                .map_or(name == "localhost", |ip: std::net::IpAddr| ip.is_loopback()),
        };
        if config.get_hosts().is_empty() {
            return Err(format!("{EXPECTED}; it names no host"));
        }
        if !over_tls && !config.get_hosts().iter().all(is_local) {
            return Err(
                "the daemon reaches a database of another host over TLS only: name certificates in [store_tls] (ca, \
                 cert, key)"
                    .into(),
            );
        }
        if over_tls {
            config.ssl_mode(SslMode::Require);
        }
        config.application_name("verbatimd").connect_timeout(CONNECTS_WITHIN);
        config.tcp_user_timeout(ANSWERS_WITHIN).keepalives_idle(ANSWERS_WITHIN);
        let hosts: Vec<String> = config
            .get_hosts()
            .iter()
            .map(|host| match host {
                Host::Tcp(name) => name.clone(),
                Host::Unix(path) => path.display().to_string(),
            })
            .collect();
        let name = config.get_dbname().or(config.get_user()).unwrap_or_default();
        let place = format!("postgres database {name:?} at {}", hosts.join(", "));
        Ok(Self {
            config,
            tls: None,
            place,
        })
    }

    /// Sets the TLS configuration.
    #[must_use]
    pub fn with_tls(mut self, tls: Arc<ClientConfig>) -> Self {
        let mut tls = (*tls).clone();
        // The protocol inside TLS is PostgreSQL's, not HTTP.
        tls.alpn_protocols = vec![b"postgresql".to_vec()];
        self.tls = Some(Arc::new(tls));
        self
    }

    /// Returns whether the address holds a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    fn away(&self, what: &dyn fmt::Display) -> StoreError {
        StoreError::Away {
            place: self.place.clone(),
            what: what.to_string(),
        }
    }

    fn failed(&self, error: &tokio_postgres::Error) -> StoreError {
        let Some(of) = error.as_db_error() else {
            let why =
                std::error::Error::source(error).map_or_else(|| error.to_string(), |why| format!("{error}: {why}"));
            return self.away(&why);
        };
        let code = of.code();
        let kind = match code {
            code if code.code().starts_with("57P") || code.code().starts_with("08") => return self.away(&of),
            // The server refuses the connection. Its administrator must act, so the database counts as away until
            // then.
            code if code.code().starts_with("28") || *code == SqlState::TOO_MANY_CONNECTIONS => return self.away(&of),
            code if *code == SqlState::DISK_FULL => std::io::ErrorKind::StorageFull,
            code if *code == SqlState::T_R_DEADLOCK_DETECTED => std::io::ErrorKind::Deadlock,
            _ => std::io::ErrorKind::Other,
        };
        StoreError::Io {
            path: self.place.clone().into(),
            source: std::io::Error::new(kind, format!("{of} ({})", code.code())),
        }
    }
}

/// State that all connections share.
#[derive(Debug)]
struct Server {
    address: Address,
    runtime: Handle,
    /// The database's clock minus this host's boot clock, in nanoseconds.
    ahead_ns: AtomicI64,
}

#[derive(Debug)]
struct Shared(Arc<Server>);

impl Database for Shared {
    fn reader(&self) -> Result<Box<dyn Connection>, StoreError> {
        let mut link = Link::new(&self.0);
        link.connect()?;
        Ok(Box::new(link))
    }

    fn damaged(&self, what: String) -> StoreError {
        StoreError::Damaged {
            path: self.0.address.place.clone().into(),
            what,
        }
    }

    fn now_ns(&self) -> u64 {
        boot_ns().saturating_add_signed(self.0.ahead_ns.load(Ordering::Relaxed))
    }

    fn set_clock(&self, now_ns: u64, boot_ns: u64) {
        self.0
            .ahead_ns
            .store(now_ns.wrapping_sub(boot_ns).cast_signed(), Ordering::Relaxed);
    }
}

/// A connection that reconnects after a loss.
pub(super) struct Link {
    server: Arc<Server>,
    client: Option<Client>,
    statements: HashMap<String, Statement>,
    /// The time and the error of the last failed attempt to connect.
    failed: Option<(Instant, String)>,
    /// Whether a transaction is open. A transaction cannot continue on a new connection.
    within: bool,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({:?})", self.server.address)
    }
}

impl Link {
    fn new(server: &Arc<Server>) -> Self {
        Self {
            server: Arc::clone(server),
            client: None,
            statements: HashMap::new(),
            failed: None,
            within: false,
        }
    }

    fn connect(&mut self) -> Result<(), StoreError> {
        if self.client.as_ref().is_some_and(|client| !client.is_closed()) {
            return Ok(());
        }
        let address = &self.server.address;
        if self.within {
            return Err(address.away(&"the connection was lost"));
        }
        if let Some((_, why)) = self.failed.as_ref().filter(|(at, _)| at.elapsed() < TRIED_AGAIN_AFTER) {
            return Err(address.away(why));
        }
        self.statements.clear();
        let (config, runtime) = (&address.config, self.server.runtime.clone());
        let connected = runtime.block_on(within(CONNECTS_WITHIN, async {
            Ok(match &address.tls {
                Some(tls) => {
                    let tls = MakeRustlsConnect::new((**tls).clone());
                    let (client, connection) = config.connect(tls).await?;
                    // The task ends with the client, and calls of the client return the connection's errors.
                    tokio::spawn(connection);
                    client
                }
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    tokio::spawn(connection);
                    client
                }
            })
        }));
        let connected = match connected {
            Ok(connected) => connected.map_err(|error: tokio_postgres::Error| address.failed(&error)),
            Err(_) => Err(address.away(&format!(
                "it did not accept the connection within {} s",
                CONNECTS_WITHIN.as_secs()
            ))),
        };
        match connected {
            Ok(client) => {
                self.client = Some(client);
                self.failed = None;
                Ok(())
            }
            Err(error) => {
                let why = match &error {
                    StoreError::Away { what, .. } => what.clone(),
                    other => other.to_string(),
                };
                self.failed = Some((Instant::now(), why));
                Err(error)
            }
        }
    }

    /// Runs work on the connection until it completes or the database counts as away.
    fn run<T>(
        &mut self,
        work: impl AsyncFnOnce(&Client, &mut HashMap<String, Statement>) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        self.connect()?;
        let address = &self.server.address;
        let Some(client) = &self.client else {
            return Err(address.away(&"there is no connection"));
        };
        let work = within(ANSWERS_WITHIN, work(client, &mut self.statements));
        let done = match self.server.runtime.block_on(work) {
            Ok(done) => done.map_err(|error| address.failed(&error)),
            Err(_) => Err(address.away(&format!("no answer within {} s", ANSWERS_WITHIN.as_secs()))),
        };
        if let Err(StoreError::Away { .. }) = &done {
            self.client = None;
        }
        done
    }

    /// Runs several statements without parameters.
    pub(super) fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        self.run(async |client, _| client.batch_execute(sql).await)
    }
}

/// Limits the duration of `work`. Async, because the timer must be created inside the runtime.
async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, tokio::time::error::Elapsed> {
    tokio::time::timeout(limit, work).await
}

async fn prepared<'s>(
    client: &Client,
    statements: &'s mut HashMap<String, Statement>,
    sql: &str,
) -> Result<&'s Statement, tokio_postgres::Error> {
    if !statements.contains_key(sql) {
        statements.insert(sql.into(), client.prepare(sql).await?);
    }
    Ok(&statements[sql])
}

impl Connection for Link {
    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, StoreError> {
        self.run(async |client, statements| {
            let statement = prepared(client, statements, sql).await?;
            client.execute_raw(statement, values).await
        })
    }

    fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        let rows = self.run(async |client, statements| {
            let statement = prepared(client, statements, sql).await?;
            client.query(statement, &values).await
        })?;
        Ok(rows.iter().map(row).collect())
    }

    fn begin(&mut self, _: Outlives) -> Result<(), StoreError> {
        self.within = false;
        self.batch("BEGIN")?;
        self.within = true;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        let done = self.batch("COMMIT");
        self.within = false;
        done
    }

    fn rollback(&mut self) {
        if self.within && self.batch("ROLLBACK").is_err() {
            self.client = None;
        }
        self.within = false;
    }

    fn or_skip(&self) -> &'static str {
        " FOR UPDATE SKIP LOCKED"
    }
}

fn row(of: &tokio_postgres::Row) -> Row {
    let value = |(at, column): (usize, &tokio_postgres::Column)| {
        let value = match *column.type_() {
            Type::INT8 => of.get::<_, Option<i64>>(at).map(Value::Int),
            Type::INT4 => of.get::<_, Option<i32>>(at).map(Value::from),
            Type::BYTEA => of.get::<_, Option<Vec<u8>>>(at).map(Value::Bytes),
            Type::TEXT => of.get::<_, Option<String>>(at).map(Value::Text),
            // `void`, the result type of `pg_advisory_xact_lock`.
            _ => None,
        };
        value.unwrap_or(Value::Null)
    };
    let values: Vec<Value> = of.columns().iter().enumerate().map(value).collect();
    Row(values.into_iter())
}

impl ToSql for Value {
    fn to_sql(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) => number.to_sql(of, out),
            Self::Text(text) => text.to_sql(of, out),
            Self::Bytes(bytes) => bytes.to_sql(of, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl SqlStore {
    /// Opens the store of this host in a database that several hosts share. The files of this host's runs are in the
    /// host's own state directory. `clients` is the daemon's network address, to show to people. Blocks, so do not call
    /// this function from a thread of the runtime.
    ///
    /// # Errors
    /// When the database cannot be reached, has another version, or already has another host with this name.
    pub fn postgres(
        address: Address,
        host: &str,
        clients: &str,
        state: &StateDirectory,
        runtime: Handle,
    ) -> Result<Self, StoreError> {
        let runs = state.runs();
        let of_io = |path: &Path| {
            let path = path.to_path_buf();
            move |source| StoreError::Io { path, source }
        };
        std::fs::create_dir_all(&runs).map_err(of_io(&runs))?;
        let server = Arc::new(Server {
            address,
            runtime,
            ahead_ns: AtomicI64::new(0),
        });
        let database = Shared(Arc::clone(&server));
        let mut link = Link::new(&server);
        let found = schema::make(&mut link)?;
        version::check(Path::new(&server.address.place), found, ANEW)?;
        read_clock(&database, &mut link)?;
        let own = state.path().join("host-id");
        let id = host_id(&own).map_err(of_io(&own))?;
        link.begin(Outlives::PowerLoss)?;
        let number = register(&mut link, host, clients, &id, database.now_ns());
        match &number {
            Ok(_) => link.commit()?,
            Err(_) => link.rollback(),
        }
        let number = number?;
        let spool = Arc::new(Spool::open(state.path())?);
        spool.write_to(&mut link)?;
        let writer = Writer::start(Box::new(link), Some(Arc::clone(&spool))).map_err(of_io(&runs))?;
        let store = Self {
            database: Box::new(database),
            runs,
            writer,
            readers: Default::default(),
            unwritten: Default::default(),
            host: host.into(),
            serials: number * 256..=number * 256 + 255,
            spool: Some(spool),
        };
        store.remove_doomed();
        store.remove_places_of_captures();
        Ok(store)
    }
}

/// Reads the database's clock.
pub(super) fn read_clock(database: &dyn Database, db: &mut dyn Connection) -> Result<(), StoreError> {
    let before = boot_ns();
    let sql = "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint";
    let now_us = db.first(sql, &[])?.and_then(|mut row| row.number()).unwrap_or(0);
    let took = boot_ns() - before;
    // The database read its clock between `before` and now. If that took long, the reading is inaccurate, so keep
    // the earlier reading. Without an earlier reading, `now_ns` is the time since this host's boot, far below the
    // database's time: then accept any reading.
    if took < TOLD_WITHIN_NS || database.now_ns() < now_us * 500 {
        database.set_clock(now_us * 1000, before + took / 2);
    }
    Ok(())
}

/// Returns the id that distinguishes this state directory from the state directories of other hosts. Creates the id on
/// first use.
fn host_id(path: &Path) -> std::io::Result<String> {
    match std::fs::read_to_string(path) {
        Ok(id) if !id.trim().is_empty() => return Ok(id.trim().into()),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let id = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    std::fs::write(path, &id)?;
    Ok(id.trim().into())
}

/// Registers this host, and returns its number.
fn register(db: &mut Link, host: &str, clients: &str, id: &str, now_ns: u64) -> Result<u16, StoreError> {
    db.query("LOCK TABLE host IN EXCLUSIVE MODE", &[])?;
    let row = db.first("SELECT number, seen_ns, state FROM host WHERE name = $1", values![host])?;
    let number = match row {
        Some(mut row) => {
            let (number, seen_ns) = (row.number().unwrap_or(0), row.number().unwrap_or(0));
            let silent_ns = now_ns.saturating_sub(seen_ns);
            if row.text() != id && silent_ns < SILENT_NS {
                return Err(StoreError::TwoHosts {
                    host: host.into(),
                    silent_s: silent_ns / 1_000_000_000,
                });
            }
            number
        }
        None => {
            let row = db.first("SELECT COALESCE(MAX(number) + 1, 0) FROM host", &[])?;
            row.and_then(|mut row| row.number()).unwrap_or(0)
        }
    };
    let number = u16::try_from(number).ok().filter(|number| u64::from(*number) < HOSTS);
    let Some(number) = number else {
        return Err(StoreError::Damaged {
            path: db.server.address.place.clone().into(),
            what: format!("it has {HOSTS} hosts, which is the limit; DELETE FROM host those that no longer exist"),
        });
    };
    let sql = "INSERT INTO host (name, number, state, seen_ns, address) VALUES ($1, $2, $3, $4, $5) \
               ON CONFLICT (name) DO UPDATE SET state = excluded.state, seen_ns = excluded.seen_ns, \
               address = excluded.address";
    db.execute(sql, values![host, i32::from(number), id, now_ns, clients])?;
    Ok(number)
}
