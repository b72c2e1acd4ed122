//! The daemon's configuration, `verbatimd.toml`: the network address to listen at, the roles of users, and how long
//! files are kept.
//!
//! ```toml
//! config_version = 1
//!
//! [listen]
//! address = "0.0.0.0:7443"
//! cert = "server.pem"
//! key = "server-key.pem"
//! client_ca = "ca.pem"
//! crl = "crl.pem"
//!
//! [[role]]
//! role = "operator"
//! who = ["cert:alice", "group:rdma"]
//! rigs = ["bench-*"]
//!
//! [keep]
//! days = 90                 # delete the files of unpinned runs that ended more than 90 days ago
//! gib = 50                  # then the oldest files, until the rest takes at most 50 GiB
//!
//! [limits]
//! connections = 1024         # of all; a new connection above it closes the one that was silent longest
//! connections_each = 128     # of one identity; above it, likewise
//! connection_s = 3600        # a connection of this age takes no more calls; the client then opens another
//! calls_each = 32            # of one identity, running at a time; above it, a call waits
//! client_gone_s = 60         # a waiting run leaves the queue when its client has been disconnected for that long
//! reserved_h = 72            # hours that one identity may request for one rig, over all its waiting leases
//!
//! [metrics]
//! address = "127.0.0.1:9464" # http://127.0.0.1:9464/metrics, for Prometheus and all others who can connect
//!
//! [web]
//! address = "127.0.0.1:8080" # the web page; needs a [[role]] with role = "viewer", who = ["web"]: its rigs are shown
//! names = ["lab.example"]    # other names of this host in the URLs of browsers
//! ```
//!
//! These keys may stand before the tables:
//!
//! * `log = "info,verbatim_daemon::sched=debug"` selects the content of the log. SIGHUP makes the daemon read it again,
//!   like the rest of the file.
//! * `store = "postgres://…"` is the database that the daemons of several hosts share.
//! * `host = "NAME"` is the name of this host in the shared database.
//!
//! The table `[store_tls]` names the certificates for a database server on another host.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{Group, User, geteuid};
use serde::Deserialize;
use toml::Spanned;
use tracing_subscriber::filter::Targets;
use verbatim_tls::{ClientFiles, Gate, ServerFiles, TlsError};

use crate::access::{Grant, Role, Table, Who};
use crate::log::filter;
use crate::serve::Limits;
use crate::store::Address;
use crate::store::retention::Retention;

/// Path of the configuration when the command line names none.
const USUAL: &str = "/etc/verbatim/verbatimd.toml";
/// The only version of the format that this program reads.
const VERSION: i64 = 1;

/// A parsed configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Path of the file; `None` without a file.
    pub path: Option<PathBuf>,
    /// The network address to listen at.
    pub listen: Option<Listen>,
    /// The roles of users.
    pub roles: Table,
    /// The filter of the log; `None` to use `RUST_LOG`.
    pub log: Option<Targets>,
    /// The address at which Prometheus reads the metrics.
    pub metrics: Option<SocketAddr>,
    /// The address and names of the web page.
    pub web: Option<PageAt>,
    /// The limits of age and size for the files of runs.
    pub keep: Retention,
    /// Limits of connections and calls of clients.
    pub limits: Limits,
    /// The database that several daemons share.
    pub store: Option<SharedStore>,
}

/// A database that several daemons share.
#[derive(Clone, Debug)]
pub struct SharedStore {
    /// The server's address.
    pub address: Address,
    /// The certificates for a server on another host.
    pub tls: Option<ClientFiles>,
    /// The name of this host in the shared database.
    pub host: String,
}

impl SharedStore {
    /// Returns the address with its certificates, whose files are read now.
    ///
    /// # Errors
    /// When a certificate file is wrong; the error names it.
    pub fn address(&self) -> Result<Address, TlsError> {
        match &self.tls {
            Some(files) => Ok(self.address.clone().with_tls(verbatim_tls::client(files)?)),
            None => Ok(self.address.clone()),
        }
    }
}

/// The address and names of the web page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageAt {
    /// The address to listen at.
    pub address: SocketAddr,
    /// Names of this host in the URLs of browsers, besides its addresses.
    pub names: Vec<String>,
}

/// The network address to listen at, and the certificates for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listen {
    /// The address to listen at.
    pub address: SocketAddr,
    /// The files of the certificates.
    pub files: ServerFiles,
}

/// An error in a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration {path} cannot be read ({source}); use --config to name a file that this user may read")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is not valid TOML, or has unknown keys.
    #[error("{path}: {what}")]
    Form {
        /// The file.
        path: PathBuf,
        /// The place and the error.
        what: String,
    },
    /// A value is not allowed.
    #[error("{path}, line {line}: {what}")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The expected value and the value in the file.
        what: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    config_version: Spanned<i64>,
    store: Option<Spanned<String>>,
    host: Option<Spanned<String>>,
    store_tls: Option<RawStoreTls>,
    listen: Option<Spanned<RawListen>>,
    #[serde(default)]
    role: Vec<Spanned<RawRole>>,
    log: Option<Spanned<String>>,
    metrics: Option<RawMetrics>,
    web: Option<Spanned<RawWeb>>,
    #[serde(default)]
    keep: RawKeep,
    #[serde(default)]
    limits: RawLimits,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawLimits {
    connections: Option<Spanned<usize>>,
    connections_each: Option<Spanned<usize>>,
    connection_s: Option<Spanned<usize>>,
    calls_each: Option<Spanned<usize>>,
    client_gone_s: Option<Spanned<usize>>,
    reserved_h: Option<Spanned<usize>>,
}

impl RawLimits {
    fn limits(&self) -> Result<Limits, Wrong> {
        let number = |name: &str, of: &Option<Spanned<usize>>, range: RangeInclusive<usize>, usual: usize| {
            let Some(of) = of else { return Ok(usual) };
            match of.get_ref() {
                number if range.contains(number) => Ok(*number),
                number => Err((
                    of.span().start,
                    format!("{name}: expected {} to {}, seen {number}", range.start(), range.end()),
                )),
            }
        };
        let usual = Limits::default();
        let connections = number("connections", &self.connections, 2..=100_000, usual.connections)?;
        let each = usual.connections_each.min(connections);
        let hour = 3600;
        let oldest = number("connection_s", &self.connection_s, 1..=7 * 24 * hour, hour)?;
        let gone = usize::try_from(usual.client_gone.as_secs()).unwrap_or(usize::MAX);
        let gone = number("client_gone_s", &self.client_gone_s, 1..=24 * hour, gone)?;
        let reserved = usize::try_from(usual.reserved_each.as_secs()).unwrap_or(usize::MAX) / hour;
        let reserved_h = number("reserved_h", &self.reserved_h, 1..=366 * 24, reserved)?;
        Ok(Limits {
            reserved_each: Duration::from_secs((reserved_h * hour) as u64),
            client_gone: Duration::from_secs(gone as u64),
            oldest_connection: Duration::from_secs(oldest as u64),
            connections,
            connections_each: number("connections_each", &self.connections_each, 1..=connections, each)?,
            calls_each: number("calls_each", &self.calls_each, 1..=1000, usual.calls_each)?,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMetrics {
    address: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWeb {
    address: Spanned<String>,
    #[serde(default)]
    names: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStoreTls {
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawKeep {
    days: Option<u32>,
    gib: Option<u32>,
}

impl RawKeep {
    fn retention(&self) -> Retention {
        Retention {
            age: self
                .days
                .map(|days| Duration::from_secs(u64::from(days) * 24 * 60 * 60)),
            bytes: self.gib.map(|gib| u64::from(gib) << 30).or(Retention::default().bytes),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawListen {
    address: Spanned<String>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    client_ca: Option<PathBuf>,
    crl: Option<PathBuf>,
    /// Accepted only so that `tls = false` gets a helpful error: TLS cannot be switched off.
    tls: Option<Spanned<bool>>,
    plaintext: Option<Spanned<bool>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRole {
    role: Role,
    who: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    rigs: Vec<Spanned<String>>,
}

pub(crate) const NO_PLAIN_TCP: &str = "plain TCP is not offered, not even on a loopback address: any process of this \
     host could use the devices under any name. On this host use the unix socket; from other hosts use TLS with \
     certificates (cert, key, client_ca; `verbatim pki init DIR` makes them)";

/// The byte offset of an error, and its text.
type Wrong = (usize, String);

impl Config {
    /// Loads the configuration from `given`, or from the usual path. Without a file at the usual path, returns the
    /// defaults.
    ///
    /// # Errors
    /// When the file cannot be read or is wrong; the error names the place.
    pub fn load(given: Option<&Path>) -> Result<Self, ConfigError> {
        let path = given.unwrap_or(Path::new(USUAL));
        match std::fs::read_to_string(path) {
            Ok(text) => Self::read(path, &text),
            Err(error) if given.is_none() && error.kind() == std::io::ErrorKind::NotFound => Ok(Self {
                path: None,
                listen: None,
                roles: Table::usual(geteuid().as_raw()),
                log: None,
                metrics: None,
                web: None,
                keep: Retention::default(),
                limits: Limits::default(),
                store: None,
            }),
            Err(source) => Err(ConfigError::Read {
                path: path.into(),
                source,
            }),
        }
    }

    fn read(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let raw: Raw = toml::from_str(text).map_err(|error| ConfigError::Form {
            path: path.into(),
            what: error.to_string().trim_end().into(),
        })?;
        let read = || {
            let version = *raw.config_version.get_ref();
            if version != VERSION {
                return Err((
                    raw.config_version.span().start,
                    format!(
                        "config_version: expected {VERSION}, seen {version}; use a newer verbatimd, or write the file \
                         for version {VERSION}"
                    ),
                ));
            }
            // Paths in the configuration are relative to its directory.
            let beside = path.parent().unwrap_or(Path::new("."));
            let listen = raw
                .listen
                .as_ref()
                .map(|listen| self::listen(listen, beside))
                .transpose()?;
            let grants: Vec<Grant> = raw.role.iter().map(grant).collect::<Result<_, _>>()?;
            if let Some(at) = &raw.listen
                && !grants.iter().any(of_a_certificate)
            {
                return Err((
                    at.span().start,
                    "no [[role]] names a certificate, so no client could use the daemon over the network; add one, \
                     such as role = \"operator\", who = [\"cert:alice\"]"
                        .into(),
                ));
            }
            let web = raw.web.as_ref().map(|of| web(of, &grants)).transpose()?;
            let owner = geteuid().as_raw();
            // If no [[role]] is for users or certificates, the default roles of this host's users stay in force.
            let only_web = grants.iter().all(|grant| grant.who.iter().all(|who| *who == Who::Web));
            let roles = match only_web {
                true => Table::usual(owner).and(grants),
                false => Table::new(owner, grants),
            };
            let metrics = raw.metrics.as_ref();
            let metrics = metrics
                .map(|of| parse_address(&of.address, "metrics", 9464))
                .transpose()?;
            let log = |log: &Spanned<String>| {
                filter("log", log.get_ref()).map_err(|error| (log.span().start, format!("{error:#}")))
            };
            let log = raw.log.as_ref().map(log).transpose()?;
            Ok((
                listen,
                roles,
                (metrics, web, log, raw.limits.limits()?),
                store(&raw, path)?,
            ))
        };
        let (listen, roles, (metrics, web, log, limits), store) =
            read().map_err(|(at, what): Wrong| ConfigError::Wrong {
                path: path.into(),
                line: 1 + text[..at.min(text.len())].matches('\n').count(),
                what,
            })?;
        Ok(Self {
            path: Some(path.into()),
            listen,
            roles,
            log,
            metrics,
            web,
            keep: raw.keep.retention(),
            limits,
            store,
        })
    }

    /// Returns the paths of the configuration and of the files in `[listen]`.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.path.iter().cloned().collect();
        if let Some(Listen { files: tls, .. }) = &self.listen {
            files.extend([&tls.cert, &tls.key, &tls.client_ca].map(Clone::clone));
            files.extend(tls.crl.clone());
        }
        files
    }

    /// Checks that the certificates can be used.
    ///
    /// # Errors
    /// When a certificate file is wrong; the error names it.
    pub fn look(&self) -> Result<(), TlsError> {
        self.store.as_ref().map_or(Ok(()), |store| store.address().map(drop))?;
        self.listen
            .as_ref()
            .map_or(Ok(()), |listen| Gate::open(&listen.files).map(drop))
    }
}

/// Parses the `address` in the table `[metrics]` or `[web]`. `port` is the example port in the error message.
fn parse_address(address: &Spanned<String>, table: &str, port: u16) -> Result<SocketAddr, Wrong> {
    let text = address.get_ref();
    text.parse().map_err(|_| {
        let what = format!(
            "{table}.address: expected an IP address and a port, such as 127.0.0.1:{port} (only this host) or \
             0.0.0.0:{port}, seen {text:?}"
        );
        (address.span().start, what)
    })
}

/// Checks the `[web]` table: at least one `[[role]]` must be for the page, and each role for the page must be `viewer`.
fn web(raw: &Spanned<RawWeb>, grants: &[Grant]) -> Result<PageAt, Wrong> {
    let at = raw.span().start;
    let mut of_web = grants.iter().filter(|grant| grant.who.contains(&Who::Web)).peekable();
    if of_web.peek().is_none() {
        let what = "[web]: no [[role]] has who = [\"web\"], so the page would show nothing; add one with role = \
                    \"viewer\" and the rigs that every visitor of the page may see";
        return Err((at, what.into()));
    }
    if let Some(grant) = of_web.find(|grant| grant.role != Role::Viewer) {
        let what = format!(
            "[[role]] with who = [\"web\"]: expected role = \"viewer\", seen {:?}; the page has no login and is \
             read-only",
            grant.role.to_string()
        );
        return Err((at, what));
    }
    Ok(PageAt {
        address: parse_address(&raw.get_ref().address, "web", 8080)?,
        names: raw.get_ref().names.clone(),
    })
}

/// Checks `store`, `host` and `[store_tls]`.
fn store(raw: &Raw, path: &Path) -> Result<Option<SharedStore>, Wrong> {
    let Some(url) = &raw.store else {
        let alone = raw.host.as_ref().map(|host| host.span().start);
        return match alone {
            Some(at) => Err((
                at,
                "host: the name of this host in a shared database needs the key store, which names the database".into(),
            )),
            None => Ok(None),
        };
    };
    let wrong = |what: String| (url.span().start, format!("store: {what}"));
    let address = Address::new(url.get_ref(), raw.store_tls.is_some()).map_err(wrong)?;
    let open = std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o007 != 0);
    if address.has_password() && open {
        let what = "the URL contains a password, and every user of this host may read this file; chmod o= FILE";
        return Err(wrong(what.into()));
    }
    let (host, at) = match &raw.host {
        Some(host) => (host.get_ref().clone(), host.span().start),
        None => {
            let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            (name.trim().to_string(), url.span().start)
        }
    };
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if host.is_empty() || host.len() > 64 || !host.chars().all(is_allowed) {
        let what = format!("host: expected 1 to 64 letters, digits, \"-\", \"_\" or \".\", seen {host:?}");
        return Err((at, what));
    }
    let beside = path.parent().unwrap_or(Path::new("."));
    let tls = raw.store_tls.as_ref().map(|raw| ClientFiles {
        ca: beside.join(&raw.ca),
        cert: beside.join(&raw.cert),
        key: beside.join(&raw.key),
    });
    Ok(Some(SharedStore { address, tls, host }))
}

fn of_a_certificate(grant: &Grant) -> bool {
    grant
        .who
        .iter()
        .any(|who| matches!(who, Who::Certificate(_) | Who::AnyCertificate))
}

fn listen(raw: &Spanned<RawListen>, beside: &Path) -> Result<Listen, Wrong> {
    let at = raw.span().start;
    let raw = raw.get_ref();
    let plaintext_keys = [(&raw.tls, false), (&raw.plaintext, true)];
    if let Some(asks) = plaintext_keys
        .iter()
        .find_map(|(key, value)| key.as_ref().filter(|key| key.get_ref() == value))
    {
        return Err((asks.span().start, NO_PLAIN_TCP.into()));
    }
    let (Some(cert), Some(key), Some(client_ca)) = (&raw.cert, &raw.key, &raw.client_ca) else {
        return Err((at, format!("[listen] needs cert, key and client_ca: {NO_PLAIN_TCP}")));
    };
    let address = raw.address.get_ref().parse().map_err(|_| {
        let seen = raw.address.get_ref();
        let what = format!(
            "address: expected IP:PORT, such as \"0.0.0.0:7443\" or \"[::]:7443\", seen {seen:?}; host names are not \
             resolved"
        );
        (raw.address.span().start, what)
    })?;
    Ok(Listen {
        address,
        files: ServerFiles {
            cert: beside.join(cert),
            key: beside.join(key),
            client_ca: beside.join(client_ca),
            crl: raw.crl.as_ref().map(|crl| beside.join(crl)),
        },
    })
}

fn grant(raw: &Spanned<RawRole>) -> Result<Grant, Wrong> {
    let raw = raw.get_ref();
    if raw.who.get_ref().is_empty() {
        return Err((raw.who.span().start, format!("who: expected at least one of {WHO}")));
    }
    let who = |given: &Spanned<String>| who(given.get_ref()).map_err(|what| (given.span().start, what));
    if let Some(pattern) = raw
        .rigs
        .iter()
        .find(|pattern| pattern.get_ref().trim_end_matches('*').contains('*'))
    {
        let what = format!(
            "rigs: expected a name, or a prefix and a final * (such as \"lab-*\"), seen {:?}",
            pattern.get_ref()
        );
        return Err((pattern.span().start, what));
    }
    Ok(Grant {
        role: raw.role,
        who: raw.who.get_ref().iter().map(who).collect::<Result<_, _>>()?,
        rigs: raw.rigs.iter().map(|pattern| pattern.get_ref().clone()).collect(),
    })
}

const WHO: &str = "\"cert:NAME\", \"cert:*\", \"user:NAME\", \"uid:NUMBER\", \"user:*\", \"group:NAME\", \"web\"";

fn who(text: &str) -> Result<Who, String> {
    let unknown = |kind: &str| format!("who: there is no {kind} {text:?} on this host; expected one of {WHO}");
    match text.split_once(':') {
        None if text == "web" => Ok(Who::Web),
        Some(("cert", "*")) => Ok(Who::AnyCertificate),
        Some(("cert", name)) if !name.is_empty() => Ok(Who::Certificate(name.into())),
        Some(("user", "*")) => Ok(Who::AnyUser),
        Some(("user", name)) => match User::from_name(name) {
            Ok(Some(user)) => Ok(Who::User(user.uid.as_raw())),
            _ => Err(unknown("user")),
        },
        Some(("uid", uid)) => uid
            .parse()
            .map(Who::User)
            .map_err(|_| format!("who: expected {WHO}, seen {text:?}")),
        Some(("group", name)) => match Group::from_name(name) {
            Ok(Some(group)) => {
                let uid = |name: &String| User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
                Ok(Who::Group {
                    gid: group.gid.as_raw(),
                    members: group.mem.iter().filter_map(uid).collect(),
                })
            }
            _ => Err(unknown("group")),
        },
        _ => Err(format!("who: expected {WHO}, seen {text:?}")),
    }
}
#[cfg(test)]
mod tests;
