//! The daemon's configuration, `verbatimd.toml`: where it listens over a network, and who may do what.
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
//! ```

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use nix::unistd::{Group, User, geteuid};
use serde::Deserialize;
use toml::Spanned;
use verbatim_tls::{Gate, ServerFiles};

use crate::access::{Grant, Role, Table, Who};

/// Where it is looked for when none is named.
const USUAL: &str = "/etc/verbatim/verbatimd.toml";
/// The only version of this form.
const VERSION: i64 = 1;

/// A configuration that was read.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file; none when there is none.
    pub path: Option<PathBuf>,
    /// Where to listen over a network.
    pub listen: Option<Listen>,
    /// Who may do what.
    pub roles: Table,
}

/// Where to listen over a network, and the certificates for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listen {
    /// The address.
    pub address: SocketAddr,
    /// The certificates.
    pub files: ServerFiles,
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("the configuration {path} cannot be read ({source}); name a file that this user may read with --config")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is no TOML, or has keys that there are not.
    #[error("{path}: {what}")]
    Form {
        /// The file.
        path: PathBuf,
        /// Where, and what.
        what: String,
    },
    /// Something in it cannot be.
    #[error("{path}, line {line}: {what}")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// What is expected, and what is there.
        what: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    config_version: Spanned<i64>,
    listen: Option<Spanned<RawListen>>,
    #[serde(default)]
    role: Vec<Spanned<RawRole>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawListen {
    address: Spanned<String>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    client_ca: Option<PathBuf>,
    crl: Option<PathBuf>,
    /// There is no choice; who looks for one is told.
    tls: Option<Spanned<bool>>,
    plaintext: Option<Spanned<bool>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRole {
    role: Role,
    who: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    rigs: Vec<String>,
}

/// Why plain TCP is not offered.
pub(crate) const NO_PLAIN_TCP: &str = "plain TCP is not offered, on a loopback address neither: every process of every user of this host reaches one, and \
     whoever reaches the daemon could use its devices under any name. Use the unix socket on this host, and TLS with \
     certificates (cert, key, client_ca; `verbatim pki init DIR` makes them) from others";

/// What is wrong, and at which byte.
type Wrong = (usize, String);

impl Config {
    /// The configuration of this file; without one the usual file's, and without that none.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn load(given: Option<&Path>) -> Result<Self, ConfigError> {
        let path = given.unwrap_or(Path::new(USUAL));
        match std::fs::read_to_string(path) {
            Ok(text) => Self::read(path, &text),
            Err(error) if given.is_none() && error.kind() == std::io::ErrorKind::NotFound => Ok(Self {
                path: None,
                listen: None,
                roles: Table::usual(geteuid().as_raw()),
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
                    format!("config_version: expected {VERSION}, seen {version}"),
                ));
            }
            // Files are named from where the configuration is.
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
                    "no [[role]] names a certificate, so that nobody could do anything over the network; add one, such as \
                     role = \"operator\", who = [\"cert:alice\"]"
                        .into(),
                ));
            }
            let owner = geteuid().as_raw();
            let roles = if grants.is_empty() {
                Table::usual(owner)
            } else {
                Table::new(owner, grants)
            };
            Ok((listen, roles))
        };
        let (listen, roles) = read().map_err(|(at, what): Wrong| ConfigError::Wrong {
            path: path.into(),
            line: 1 + text[..at.min(text.len())].matches('\n').count(),
            what,
        })?;
        Ok(Self {
            path: Some(path.into()),
            listen,
            roles,
        })
    }

    /// The files that it is made of.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.path.iter().cloned().collect();
        if let Some(Listen { files: tls, .. }) = &self.listen {
            files.extend([&tls.cert, &tls.key, &tls.client_ca].map(Clone::clone));
            files.extend(tls.crl.clone());
        }
        files
    }

    /// Whether its certificates could be used.
    ///
    /// # Errors
    /// Which file is wrong, and why.
    pub fn look(&self) -> Result<(), verbatim_tls::TlsError> {
        self.listen
            .as_ref()
            .map_or(Ok(()), |listen| Gate::open(&listen.files).map(drop))
    }
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
    let plain = [(&raw.tls, false), (&raw.plaintext, true)];
    if let Some(asks) = plain
        .iter()
        .find_map(|(key, plain)| key.as_ref().filter(|key| key.get_ref() == plain))
    {
        return Err((asks.span().start, NO_PLAIN_TCP.into()));
    }
    let (Some(cert), Some(key), Some(client_ca)) = (&raw.cert, &raw.key, &raw.client_ca) else {
        return Err((at, format!("[listen] needs cert, key and client_ca: {NO_PLAIN_TCP}")));
    };
    let address = raw.address.get_ref().parse().map_err(|_| {
        let seen = raw.address.get_ref();
        let what = format!(
            "address: expected IP:PORT, such as \"0.0.0.0:7443\" or \"[::]:7443\", seen {seen:?}; a name is not looked up"
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
        .find(|pattern| pattern.trim_end_matches('*').contains('*'))
    {
        let what = format!("rigs: expected names, or their beginnings with * behind, seen {pattern:?}");
        return Err((raw.who.span().start, what));
    }
    Ok(Grant {
        role: raw.role,
        who: raw.who.get_ref().iter().map(who).collect::<Result<_, _>>()?,
        rigs: raw.rigs.clone(),
    })
}

const WHO: &str = "\"cert:NAME\", \"cert:*\", \"user:NAME\", \"uid:NUMBER\", \"user:*\", \"group:NAME\"";

fn who(text: &str) -> Result<Who, String> {
    let unknown = |kind: &str| format!("who: there is no {kind} {text:?} on this host; {WHO} name somebody");
    match text.split_once(':') {
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
mod tests {
    use super::*;
    use crate::access::{Caller, Identity};

    fn read(text: &str) -> Result<Config, String> {
        let text = format!("config_version = 1\n{text}");
        Config::read(Path::new("/etc/v/c.toml"), &text).map_err(|error| error.to_string())
    }

    const ROLE: &str = "\n[[role]]\nrole = \"operator\"\nwho = [\"cert:alice\"]\nrigs = [\"bench-*\"]\n";

    #[test]
    fn files_are_named_from_where_the_configuration_is() {
        let listen =
            "[listen]\naddress = \"127.0.0.1:7443\"\ncert = \"s.pem\"\nkey = \"/k.pem\"\nclient_ca = \"ca.pem\"\n";
        let config = read(&format!("{listen}{ROLE}")).unwrap();
        let files = config.listen.unwrap().files;
        assert_eq!(files.cert, Path::new("/etc/v/s.pem"));
        assert_eq!((files.key.as_path(), files.crl), (Path::new("/k.pem"), None));
        let alice = Caller {
            who: Identity::Certificate("alice".into()),
            gid: None,
            from: String::new(),
        };
        assert_eq!(config.roles.role(&alice, "bench-1"), Some(Role::Operator));
        assert_eq!(config.roles.role(&alice, "other"), None);
    }

    #[test]
    fn plain_tcp_is_refused_with_the_reason_on_a_loopback_address_too() {
        for asks in [
            "[listen]\naddress = \"127.0.0.1:7443\"\n",
            "[listen]\naddress = \"0.0.0.0:7443\"\ncert = \"c\"\nkey = \"k\"\n",
            "[listen]\naddress = \"127.0.0.1:1\"\ntls = false\ncert = \"c\"\nkey = \"k\"\nclient_ca = \"a\"\n",
            "[listen]\naddress = \"127.0.0.1:1\"\nplaintext = true\n",
        ] {
            let error = read(&format!("{asks}{ROLE}")).unwrap_err();
            assert!(
                error.contains("plain TCP is not offered, on a loopback address neither"),
                "{error}"
            );
            assert!(error.contains("/etc/v/c.toml, line "), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let listen = "[listen]\naddress = \"127.0.0.1:1\"\ncert = \"c\"\nkey = \"k\"\nclient_ca = \"a\"\n";
        let error = read(listen).unwrap_err();
        assert!(
            error.contains("line 2") && error.contains("no [[role]] names a certificate"),
            "{error}"
        );
        let error = read("[[role]]\nrole = \"operator\"\nwho = [\n \"alice\"]\n").unwrap_err();
        assert!(error.contains("line 5") && error.contains("cert:NAME"), "{error}");
        let error = read("[[role]]\nrole = \"boss\"\nwho = [\"uid:1\"]\n").unwrap_err();
        assert!(error.contains("line 3") && error.contains("viewer"), "{error}");
        let error = read("[[role]]\nrole = \"admin\"\nwho = [\"group:no-such-group\"]\n").unwrap_err();
        assert!(error.contains("there is no group"), "{error}");
        let error = read("colour = 1\n").unwrap_err();
        assert!(error.contains("colour"), "{error}");
        let error = Config::read(Path::new("c"), "config_version = 2\n")
            .unwrap_err()
            .to_string();
        assert!(error.contains("expected 1, seen 2"), "{error}");
    }

    #[test]
    fn without_a_file_the_owner_of_the_daemon_is_admin() {
        let directory = tempfile::tempdir().unwrap();
        let absent = directory.path().join("absent.toml");
        assert!(Config::load(Some(&absent)).is_err());
        let config = read("").unwrap();
        let own = Caller::user(geteuid().as_raw(), 0);
        assert_eq!(config.roles.role(&own, "r"), Some(Role::Admin));
    }
}
