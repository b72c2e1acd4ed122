//! Access control: identities of clients, their roles per rig, and proofs of passed checks.
//!
//! | role | may |
//! |---|---|
//! | viewer | see a rig, its runs and their results, without M_Keys |
//! | operator | also see M_Keys, read records, run tests on the rig, and end own runs |
//! | admin | also end the runs of others, and restore the rig |
//!
//! Every operation that changes something needs a [`May`], and only the checks in this module create a [`May`].

mod audit;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use nix::unistd::{Uid, User};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::sync::watch;
use tonic::Request;

pub use audit::{Act, Audit};
pub use table::{Grant, Role, Table, Who, names};

/// The identity of all viewers of the web page.
const WEB: &str = "web";

/// The identity of a client, the same on each of its connections. Runs and leases belong to an identity.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Identity {
    /// A user of this host. The kernel reports the user id for the peer of the unix socket.
    User(u32),
    /// The name in a client certificate, from [`verbatim_tls::name_of`].
    Certificate(String),
    /// A viewer of the daemon's web page. The page has no sign-in, so all its viewers share this identity.
    Web,
}

impl Identity {
    /// Returns the name to show to people: the user name, if this host knows the user id, and otherwise the text of
    /// `Display`. May block while the host looks up the user.
    #[must_use]
    pub fn in_words(&self) -> String {
        // Only found names are cached: an unknown user may get a name later.
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
    /// Writes `uid:1000`, `cert:NAME` or `web`, the form in the daemon's configuration, its log and its store.
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

/// The sender of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The sender's identity.
    pub who: Identity,
    /// The primary group of the client's process when it connected; `None` for a network connection.
    pub gid: Option<u32>,
    /// The client's network address, or "unix".
    pub from: String,
}

impl Caller {
    /// Returns the sender of a request. The connection has stored the sender in the request's extensions.
    ///
    /// # Errors
    /// When the connection has stored no sender.
    pub fn of<T>(request: &Request<T>) -> Result<Self, Denied> {
        request.extensions().get().cloned().ok_or(Denied::Unknown)
    }

    /// Returns the caller for a user of this host.
    #[must_use]
    pub fn user(uid: u32, gid: u32) -> Self {
        Self {
            who: Identity::User(uid),
            gid: Some(gid),
            from: "unix".into(),
        }
    }
}

/// The reason why a request is denied.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Denied {
    /// The sender is unknown.
    #[error("the sender of this request is unknown; connect through the daemon's socket or with a certificate")]
    Unknown,
    /// The sender has no role at all.
    #[error(
        "{who} has no role at this daemon; ask its administrator for a [[role]] with who = [\"{who}\"] in its \
         configuration"
    )]
    Nobody {
        /// The sender.
        who: Identity,
    },
    /// The sender's role on the rig is too low.
    #[error(
        "{who} may not {what}: this needs the role {needed} on the rig, and {who} has {has}. Ask the daemon's \
         administrator"
    )]
    Role {
        /// The sender.
        who: Identity,
        /// The denied act.
        what: String,
        /// The lowest role that may do the act.
        needed: Role,
        /// The sender's role on the rig, in words.
        has: &'static str,
    },
    /// The run or lease belongs to another identity.
    #[error("{who} may not {what}; ask {owner}")]
    NotOwner {
        /// The sender.
        who: Identity,
        /// The denied act, such as "end this run".
        what: String,
        /// The identities that may do the act, in words.
        owner: String,
    },
}

/// Permission to see a rig and its runs.
#[derive(Clone, Copy, Debug)]
pub enum View {}
/// Permission to see the M_Keys of a rig's devices, and to read the records of its runs.
#[derive(Clone, Copy, Debug)]
pub enum Read {}
/// Permission to run tests on a rig.
#[derive(Clone, Copy, Debug)]
pub enum Operate {}
/// Permission to end runs and leases on a rig, and to restore the rig.
#[derive(Clone, Copy, Debug)]
pub enum End {}

/// The proof that a caller may do something on a rig. Only the checks of [`Access`] create it.
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
        write!(f, "permission of {} on {}", self.caller.who, self.rig)
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

    /// Returns the identity of the caller.
    #[must_use]
    pub fn who(&self) -> &Identity {
        &self.caller.who
    }

    /// Returns the caller.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Returns the name of the rig.
    #[must_use]
    pub fn rig(&self) -> &str {
        &self.rig
    }
}

/// The access checks. The table of roles can be replaced at any time.
#[derive(Debug)]
pub struct Access {
    table: watch::Sender<Arc<Table>>,
}

impl Access {
    /// Creates the checks for a table of roles.
    #[must_use]
    pub fn new(table: Table) -> Self {
        Self {
            table: watch::Sender::new(Arc::new(table)),
        }
    }

    /// Replaces the table of roles.
    pub fn replace(&self, table: Table) {
        self.table.send_replace(Arc::new(table));
    }

    /// Returns the current table of roles.
    #[must_use]
    pub fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.borrow())
    }

    /// Waits until `check` fails, now or after a change of the roles.
    pub fn denied(
        self: &Arc<Self>,
        check: impl Fn(&Self) -> Result<(), Denied> + Send + 'static,
    ) -> impl Future<Output = Denied> + Send + 'static {
        let (access, mut changes) = (Arc::clone(self), self.table.subscribe());
        async move {
            loop {
                changes.mark_unchanged();
                if let Err(denied) = check(&access) {
                    return denied;
                }
                // Never an error: `access` owns the sender.
                let _ = changes.changed().await;
            }
        }
    }

    /// Checks that the caller has any role on any rig.
    ///
    /// # Errors
    /// When the caller has no role.
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

    /// Checks that the caller may see a rig and its runs.
    ///
    /// # Errors
    /// When the caller has no role on the rig.
    pub fn view(&self, caller: &Caller, rig: &str) -> Result<May<View>, Denied> {
        self.role(caller, rig, Role::Viewer, "see")
    }

    /// Checks that the caller may see the M_Keys of a rig's devices, and read the records of its runs.
    ///
    /// # Errors
    /// When the caller is not an operator or admin of the rig.
    pub fn read(&self, caller: &Caller, rig: &str) -> Result<May<Read>, Denied> {
        self.role(caller, rig, Role::Operator, "read records (they contain M_Keys) of")
    }

    /// Checks that the caller may run tests on a rig.
    ///
    /// # Errors
    /// When the caller is not an operator or admin of the rig.
    pub fn operate(&self, caller: &Caller, rig: &str) -> Result<May<Operate>, Denied> {
        self.role(caller, rig, Role::Operator, "run tests on")
    }

    /// Checks that the caller is `owner` or an admin of the rig: they may end its runs and leases, and restore it. If
    /// `owner` is `None`, only an admin may. `what` names the act in the error.
    ///
    /// # Errors
    /// When the caller has no role on the rig, or is not `owner` or an admin of the rig.
    pub fn end(&self, caller: &Caller, rig: &str, owner: Option<&Identity>, what: &str) -> Result<May<End>, Denied> {
        self.view(caller, rig)?;
        if owner == Some(&caller.who) || self.table().role(caller, rig) == Some(Role::Admin) {
            return Ok(May::of(caller, rig));
        }
        Err(Denied::NotOwner {
            who: caller.who.clone(),
            what: what.into(),
            owner: owner.map_or_else(
                || "an admin of the rig".into(),
                |owner| format!("the owner, {owner}, or an admin of the rig"),
            ),
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
    fn role_applies_to_named_rigs_only() {
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
    fn only_owner_or_admin_may_end() {
        let access = access();
        let owner = Identity::Certificate("alice".into());
        let end = |who: &str, rig: &str| access.end(&cert(who), rig, Some(&owner), "end this run").map(drop);
        assert_eq!(end("alice", "bench-1"), Ok(()));
        assert_eq!(end("dave", "bench-1"), Ok(()));
        assert!(end("dave", "bench-2").is_err());
        let error = end("bob", "bench-1").unwrap_err().to_string();
        assert!(
            error.contains("ask the owner, cert:alice, or an admin of the rig"),
            "{error}"
        );
        assert!(access.end(&cert("alice"), "bench-1", None, "restore").is_err());
    }

    #[test]
    fn error_tells_how_to_get_a_role() {
        let error = access().any(&cert("eve")).unwrap_err().to_string();
        assert!(error.contains("who = [\"cert:eve\"]"), "{error}");
        // Roles of certificates do not apply to users of this host.
        assert!(access().any(&Caller::user(1000, 1000)).is_err());
    }

    #[test]
    fn user_id_becomes_host_user_name() {
        assert_eq!(Identity::User(0).in_words(), "root");
        assert_eq!(Identity::User(4_000_000_123).in_words(), "uid:4000000123");
        assert_eq!(Identity::Certificate("alice".into()).in_words(), "cert:alice");
    }

    #[test]
    fn identity_survives_round_trip() {
        for identity in [Identity::User(7), Identity::Certificate("a b:c".into())] {
            let text = serde_json::to_string(&identity).unwrap();
            assert_eq!(serde_json::from_str::<Identity>(&text).unwrap(), identity);
        }
        for wrong in ["1000", "\"\"", "\"uid:x\"", "\"cert:\"", "\"alice\""] {
            assert!(serde_json::from_str::<Identity>(wrong).is_err(), "{wrong}");
        }
    }
}
