//! Which roles who has on which rigs. Pure.

use std::fmt;

use serde::Deserialize;

use super::{Caller, Identity};

/// What somebody may do on a rig; each may what the ones before may.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// See it, its runs and what they left.
    Viewer,
    /// Run tests on it.
    Operator,
    /// End others' runs, and restore it.
    Admin,
}

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whom a role is given to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Who {
    /// A user of this host.
    User(u32),
    /// The members of a group of this host: whose process has it as its own when it connects, and these.
    Group {
        /// Its number.
        gid: u32,
        /// The users that the group's entry lists.
        members: Vec<u32>,
    },
    /// Every user of this host that may connect to the socket.
    AnyUser,
    /// A certificate with this name.
    Certificate(String),
    /// Every certificate that the CA of the clients signed.
    AnyCertificate,
    /// Whoever looks at the page.
    Web,
}

impl Who {
    fn is(&self, caller: &Caller) -> bool {
        match (self, &caller.who) {
            (Self::User(uid), Identity::User(who)) => uid == who,
            (Self::Group { gid, members }, Identity::User(who)) => caller.gid == Some(*gid) || members.contains(who),
            (Self::Certificate(name), Identity::Certificate(who)) => name == who,
            (Self::Web, Identity::Web)
            | (Self::AnyUser, Identity::User(_))
            | (Self::AnyCertificate, Identity::Certificate(_)) => true,
            _ => false,
        }
    }
}

/// A role for some, on some rigs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The role.
    pub role: Role,
    /// For whom.
    pub who: Vec<Who>,
    /// On which rigs: names, or their beginnings with `*` behind; on all when empty.
    pub rigs: Vec<String>,
}

impl Grant {
    fn is_for(&self, caller: &Caller) -> bool {
        self.who.iter().any(|who| who.is(caller))
    }
}

/// The roles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    owner: u32,
    grants: Vec<Grant>,
}

impl Table {
    /// These roles. Who owns the daemon's process, and the superuser, are admins besides.
    #[must_use]
    pub fn new(owner: u32, grants: Vec<Grant>) -> Self {
        Self { owner, grants }
    }

    /// Without a configuration: whoever the socket's mode lets in is an operator.
    #[must_use]
    pub fn usual(owner: u32) -> Self {
        let operators = Grant {
            role: Role::Operator,
            who: vec![Who::AnyUser],
            rigs: Vec::new(),
        };
        Self::new(owner, vec![operators])
    }

    /// These roles, too.
    #[must_use]
    pub fn and(mut self, more: Vec<Grant>) -> Self {
        self.grants.extend(more);
        self
    }

    fn owns(&self, caller: &Caller) -> bool {
        matches!(caller.who, Identity::User(uid) if uid == self.owner || uid == 0)
    }

    /// Whether somebody has a role on any rig.
    pub(super) fn knows(&self, caller: &Caller) -> bool {
        self.owns(caller) || self.grants.iter().any(|grant| grant.is_for(caller))
    }

    /// Somebody's role on a rig: the highest that it is given.
    #[must_use]
    pub fn role(&self, caller: &Caller, rig: &str) -> Option<Role> {
        if self.owns(caller) {
            return Some(Role::Admin);
        }
        let given = |grant: &&Grant| grant.is_for(caller) && (grant.rigs.is_empty() || names(&grant.rigs, rig));
        self.grants.iter().filter(given).map(|grant| grant.role).max()
    }

    /// Whether somebody is an admin of any rig.
    #[must_use]
    pub fn has_admin(&self, caller: &Caller) -> bool {
        self.owns(caller)
            || self
                .grants
                .iter()
                .any(|grant| grant.role == Role::Admin && grant.is_for(caller))
    }

    /// The rigs that somebody may see, as patterns; none for all.
    #[must_use]
    pub fn sees(&self, caller: &Caller) -> Option<Vec<String>> {
        if self.owns(caller) {
            return None;
        }
        let of_it: Vec<&Grant> = self.grants.iter().filter(|grant| grant.is_for(caller)).collect();
        let all = of_it.iter().any(|grant| grant.rigs.is_empty());
        (!all).then(|| of_it.into_iter().flat_map(|grant| grant.rigs.clone()).collect())
    }
}

/// Whether one of these names, or beginnings with `*` behind, is that of a rig.
#[must_use]
pub fn names(patterns: &[String], rig: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(beginning) => rig.starts_with(beginning),
        None => pattern == rig,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_configuration_the_owner_is_admin_and_who_may_connect_operator() {
        let table = Table::usual(1000);
        let role = |uid| table.role(&Caller::user(uid, 5), "r");
        assert_eq!(role(1000), Some(Role::Admin));
        assert_eq!(role(0), Some(Role::Admin));
        assert_eq!(role(1001), Some(Role::Operator));
        let over_the_network = Caller {
            who: Identity::Certificate("x".into()),
            gid: None,
            from: String::new(),
        };
        assert_eq!(table.role(&over_the_network, "r"), None);
    }

    #[test]
    fn the_highest_role_counts_and_a_group_is_known_by_process_or_entry() {
        let group = Who::Group {
            gid: 44,
            members: vec![7],
        };
        let grant = |role, who, rigs: &[&str]| Grant {
            role,
            who: vec![who],
            rigs: rigs.iter().map(ToString::to_string).collect(),
        };
        let table = Table::new(
            1,
            vec![
                grant(Role::Admin, Who::User(9), &["a*"]),
                grant(Role::Viewer, Who::AnyUser, &[]),
                grant(Role::Operator, group, &["b"]),
            ],
        );
        let role = |uid, gid, rig| table.role(&Caller::user(uid, gid), rig);
        assert_eq!(role(9, 9, "abc"), Some(Role::Admin));
        assert_eq!(role(9, 9, "b"), Some(Role::Viewer));
        assert_eq!(role(7, 9, "b"), Some(Role::Operator));
        assert_eq!(role(8, 44, "b"), Some(Role::Operator));
        assert_eq!(role(8, 9, "b"), Some(Role::Viewer));
    }

    #[test]
    fn what_somebody_sees_is_all_or_what_its_roles_name() {
        let grant = |who, rigs: &[&str]| Grant {
            role: Role::Viewer,
            who: vec![who],
            rigs: rigs.iter().map(ToString::to_string).collect(),
        };
        let table = Table::new(
            1,
            vec![
                grant(Who::User(7), &["a"]),
                grant(Who::User(7), &["b*"]),
                grant(Who::User(8), &[]),
            ],
        );
        assert_eq!(table.sees(&Caller::user(7, 7)), Some(vec!["a".into(), "b*".into()]));
        assert_eq!(table.sees(&Caller::user(8, 8)), None);
        assert_eq!(table.sees(&Caller::user(1, 1)), None);
        assert_eq!(table.sees(&Caller::user(9, 9)), Some(vec![]));
    }
}
