//! Who may do what: identities, roles per rig, and proofs that a check was made.
//!
//! | role | may |
//! |---|---|
//! | viewer | see a rig, its runs and what they left |
//! | operator | also run tests on it, and end runs of its own |
//! | admin | also end others' runs, and restore the rig |
//!
//! What changes anything takes a [`May`], which nothing but a check here makes.

mod audit;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use nix::unistd::{Uid, User};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tonic::Request;

pub use audit::{Act, Audit};
pub use table::{Grant, Role, Table, Who, names};

/// What the page's viewers are called.
const WEB: &str = "web";

/// Who somebody is, whatever connection they come by: the owner of runs.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Identity {
    /// A user of this host, as the kernel tells of who has the other end of the unix socket.
    User(u32),
    /// The name in a certificate, which [`verbatim_tls::name_of`] takes out.
    Certificate(String),
    /// Whoever looks at the daemon's page: it has no name, and may be a viewer alone.
    Web,
}

impl Identity {
    /// The name for people: that of a user of this host, if it has one; a certificate as `cert:NAME`. Blocks where the
    /// host asks a directory for its users.
    #[must_use]
    pub fn in_words(&self) -> String {
        // A user keeps its name; one without may get one.
        static NAMES: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());
        let Self::User(uid) = self else {
            return self.to_string();
        };
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = names.get(uid) {
            return name.clone();
        }
        match User::from_uid(Uid::from_raw(*uid)) {
            Ok(Some(user)) => names.entry(*uid).or_insert(user.name).clone(),
            Ok(None) | Err(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Identity {
    /// `uid:1000`, `cert:NAME` or `web`, as in the daemon's configuration, its log and its store.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => write!(f, "uid:{uid}"),
            Self::Certificate(name) => write!(f, "cert:{name}"),
            Self::Web => f.write_str(WEB),
        }
    }
}

impl FromStr for Identity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected uid:NUMBER or cert:NAME, seen {text:?}");
        match text.split_once(':') {
            None if text == WEB => Ok(Self::Web),
            Some(("uid", uid)) => uid.parse().map(Self::User).map_err(|_| wrong()),
            Some(("cert", name)) if !name.is_empty() => Ok(Self::Certificate(name.into())),
            _ => Err(wrong()),
        }
    }
}

impl Serialize for Identity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Identity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Who sent a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// Who.
    pub who: Identity,
    /// The group that its process had when it connected; none over a network.
    pub gid: Option<u32>,
    /// Where from: an address, or "unix".
    pub from: String,
}

impl Caller {
    /// Who sent this one, as the connection that it came by tells.
    ///
    /// # Errors
    /// When no connection told.
    pub fn of<T>(request: &Request<T>) -> Result<Self, Denied> {
        request.extensions().get().cloned().ok_or(Denied::Unknown)
    }

    /// A user of this host.
    #[must_use]
    pub fn user(uid: u32, gid: u32) -> Self {
        Self {
            who: Identity::User(uid),
            gid: Some(gid),
            from: "unix".into(),
        }
    }
}

/// Why somebody may not.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Denied {
    /// It is not known who it is.
    #[error("it is not known who sent this; connect by the daemon's socket or with a certificate")]
    Unknown,
    /// Nobody gave it any role.
    #[error(
        "{who} has no role at this daemon; ask who runs it for one: a [[role]] with who = [\"{who}\"] in its configuration"
    )]
    Nobody {
        /// Who.
        who: Identity,
    },
    /// It has not the role.
    #[error("{what} takes the role {needed} on it; {who} has {has}. Ask who runs the daemon")]
    Role {
        /// Who.
        who: Identity,
        /// What was to be done.
        what: String,
        /// The role that it takes.
        needed: Role,
        /// Its role there, in words.
        has: &'static str,
    },
    /// It is another's.
    #[error("{what} takes its owner, {owner}, or an admin of the rig; {who} is neither. Ask one of them")]
    NotOwner {
        /// Who.
        who: Identity,
        /// What was to be done.
        what: String,
        /// Whose it is, in words.
        owner: String,
    },
}

/// Seeing a rig and its runs.
#[derive(Clone, Copy, Debug)]
pub enum View {}
/// Running tests on a rig.
#[derive(Clone, Copy, Debug)]
pub enum Operate {}
/// Ending what is somebody's on a rig, and restoring it.
#[derive(Clone, Copy, Debug)]
pub enum End {}

/// Proof that somebody may do something on a rig: the checks of [`Access`] make it, and nothing else.
pub struct May<A> {
    caller: Caller,
    rig: String,
    act: PhantomData<A>,
}

impl<A> Clone for May<A> {
    fn clone(&self) -> Self {
        Self::of(&self.caller, &self.rig)
    }
}

impl<A> fmt::Debug for May<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} may on {}", self.caller.who, self.rig)
    }
}

impl<A> May<A> {
    fn of(caller: &Caller, rig: &str) -> Self {
        Self {
            caller: caller.clone(),
            rig: rig.into(),
            act: PhantomData,
        }
    }

    /// Who may.
    #[must_use]
    pub fn who(&self) -> &Identity {
        &self.caller.who
    }

    /// Who may, and where from.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// On which rig.
    #[must_use]
    pub fn rig(&self) -> &str {
        &self.rig
    }
}

/// The checks, by a table of roles that can be replaced while they are made.
#[derive(Debug)]
pub struct Access {
    table: RwLock<Arc<Table>>,
}

impl Access {
    /// Checks by this table.
    #[must_use]
    pub fn new(table: Table) -> Self {
        Self {
            table: RwLock::new(Arc::new(table)),
        }
    }

    /// Checks by another table from now on.
    pub fn replace(&self, table: Table) {
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
    }

    /// The table as it is now.
    #[must_use]
    pub fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Somebody with any role on any rig.
    ///
    /// # Errors
    /// When it has none.
    pub fn any(&self, caller: &Caller) -> Result<(), Denied> {
        if self.table().knows(caller) {
            Ok(())
        } else {
            Err(Denied::Nobody {
                who: caller.who.clone(),
            })
        }
    }

    fn role<A>(&self, caller: &Caller, rig: &str, needed: Role, what: &str) -> Result<May<A>, Denied> {
        self.any(caller)?;
        let role = self.table().role(caller, rig);
        if role >= Some(needed) {
            return Ok(May::of(caller, rig));
        }
        Err(Denied::Role {
            who: caller.who.clone(),
            what: format!("{what} rig {rig:?}"),
            needed,
            has: role.map_or("none", Role::name),
        })
    }

    /// To see a rig, its runs and what they left.
    ///
    /// # Errors
    /// When it has no role there.
    pub fn view(&self, caller: &Caller, rig: &str) -> Result<May<View>, Denied> {
        self.role(caller, rig, Role::Viewer, "seeing")
    }

    /// To run tests on a rig.
    ///
    /// # Errors
    /// When it is no operator there.
    pub fn operate(&self, caller: &Caller, rig: &str) -> Result<May<Operate>, Denied> {
        self.role(caller, rig, Role::Operator, "running tests on")
    }

    /// To end what is somebody's on a rig, or to restore the rig: as its owner, or as an admin of the rig. `what` says
    /// what, for the error.
    ///
    /// # Errors
    /// When it is neither.
    pub fn end(&self, caller: &Caller, rig: &str, owner: Option<&Identity>, what: &str) -> Result<May<End>, Denied> {
        self.view(caller, rig)?;
        if owner == Some(&caller.who) || self.table().role(caller, rig) == Some(Role::Admin) {
            return Ok(May::of(caller, rig));
        }
        Err(Denied::NotOwner {
            who: caller.who.clone(),
            what: what.into(),
            owner: owner.map_or("nobody".into(), ToString::to_string),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cert(name: &str) -> Caller {
        Caller {
            who: Identity::Certificate(name.into()),
            gid: None,
            from: "192.0.2.1:5".into(),
        }
    }

    fn access() -> Access {
        let grant = |role, name: &str, rigs: &[&str]| Grant {
            role,
            who: vec![Who::Certificate(name.into())],
            rigs: rigs.iter().map(ToString::to_string).collect(),
        };
        Access::new(Table::new(
            0,
            vec![
                grant(Role::Viewer, "carol", &[]),
                grant(Role::Operator, "alice", &["bench-*"]),
                grant(Role::Operator, "bob", &["bench-*"]),
                grant(Role::Admin, "dave", &["bench-1"]),
            ],
        ))
    }

    #[test]
    fn a_role_holds_on_the_rigs_that_it_names() {
        let access = access();
        assert!(access.operate(&cert("alice"), "bench-1").is_ok());
        let error = access.operate(&cert("alice"), "other").unwrap_err().to_string();
        assert!(
            error.contains("cert:alice has none") && error.contains("role operator"),
            "{error}"
        );
        assert!(access.view(&cert("carol"), "other").is_ok());
        let error = access.operate(&cert("carol"), "other").unwrap_err().to_string();
        assert!(error.contains("cert:carol has viewer"), "{error}");
    }

    #[test]
    fn only_the_owner_or_an_admin_ends_what_is_somebodys() {
        let access = access();
        let owner = Identity::Certificate("alice".into());
        let end = |who: &str, rig: &str| access.end(&cert(who), rig, Some(&owner), "ending a run").map(drop);
        assert_eq!(end("alice", "bench-1"), Ok(()));
        assert_eq!(end("dave", "bench-1"), Ok(()));
        assert!(end("dave", "bench-2").is_err());
        let error = end("bob", "bench-1").unwrap_err().to_string();
        assert!(error.contains("takes its owner, cert:alice, or an admin"), "{error}");
        assert!(access.end(&cert("alice"), "bench-1", None, "restoring").is_err());
    }

    #[test]
    fn who_has_no_role_is_told_how_one_is_given() {
        let error = access().any(&cert("eve")).unwrap_err().to_string();
        assert!(error.contains("who = [\"cert:eve\"]"), "{error}");
        // A user of this host is nobody's certificate.
        assert!(access().any(&Caller::user(1000, 1000)).is_err());
    }

    #[test]
    fn a_user_has_the_name_that_the_host_knows() {
        assert_eq!(Identity::User(0).in_words(), "root");
        assert_eq!(Identity::User(4_000_000_123).in_words(), "uid:4000000123");
        assert_eq!(Identity::Certificate("alice".into()).in_words(), "cert:alice");
    }

    #[test]
    fn an_identity_is_read_as_it_is_written() {
        for identity in [Identity::User(7), Identity::Certificate("a b:c".into())] {
            let text = serde_json::to_string(&identity).unwrap();
            assert_eq!(serde_json::from_str::<Identity>(&text).unwrap(), identity);
        }
        for wrong in ["1000", "\"\"", "\"uid:x\"", "\"cert:\"", "\"alice\""] {
            assert!(serde_json::from_str::<Identity>(wrong).is_err(), "{wrong}");
        }
    }
}
