//! The table of roles: which identity has which role on which rigs. This module does no I/O.

use std::fmt;

use serde::Deserialize;

use super::{Caller, Identity};

/// A role on a rig. Each role includes the rights of the roles before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// May see the rig, its runs and their results.
    Viewer,
    /// May run tests on the rig.
    Operator,
    /// May end the runs of others, and restore the rig.
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

/// The identities that a grant applies to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Who {
    /// A user of this host, by user id.
    User(u32),
    /// A group of this host. A user matches if the group is the primary group of the user's process, or if the group
    /// lists the user.
    Group {
        /// The group id.
        gid: u32,
        /// The ids of the users that the group's entry lists.
        members: Vec<u32>,
    },
    /// Every user of this host that may connect to the socket.
    AnyUser,
    /// The certificate with this name.
    Certificate(String),
    /// Every certificate that the CA of the clients has signed.
    AnyCertificate,
    /// The viewers of the web page.
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

/// A role for some identities on some rigs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The role.
    pub role: Role,
    /// The identities that get the role.
    pub who: Vec<Who>,
    /// The names of the rigs, or beginnings of names followed by `*`. Empty for all rigs.
    pub rigs: Vec<String>,
}

impl Grant {
    fn is_for(&self, caller: &Caller) -> bool {
        self.who.iter().any(|who| who.is(caller))
    }
}

/// The grants of roles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    owner: u32,
    grants: Vec<Grant>,
}

impl Table {
    /// Creates a table with these grants. The user `owner`, who runs the daemon, and the superuser are always
    /// admins.
    #[must_use]
    pub fn new(owner: u32, grants: Vec<Grant>) -> Self {
        Self { owner, grants }
    }

    /// Returns the default table: every user who can connect to the socket is an operator. `owner` is the user who
    /// runs the daemon.
    #[must_use]
    pub fn usual(owner: u32) -> Self {
        let operators = Grant {
            role: Role::Operator,
            who: vec![Who::AnyUser],
            rigs: Vec::new(),
        };
        Self::new(owner, vec![operators])
    }

    /// Adds grants to the table.
    #[must_use]
    pub fn and(mut self, more: Vec<Grant>) -> Self {
        self.grants.extend(more);
        self
    }

    fn owns(&self, caller: &Caller) -> bool {
        matches!(caller.who, Identity::User(uid) if uid == self.owner || uid == 0)
    }

    /// Returns whether the caller has a role on any rig.
    pub(super) fn knows(&self, caller: &Caller) -> bool {
        self.owns(caller) || self.grants.iter().any(|grant| grant.is_for(caller))
    }

    /// Returns the caller's highest role on a rig.
    #[must_use]
    pub fn role(&self, caller: &Caller, rig: &str) -> Option<Role> {
        if self.owns(caller) {
            return Some(Role::Admin);
        }
        let given = |grant: &&Grant| grant.is_for(caller) && (grant.rigs.is_empty() || names(&grant.rigs, rig));
        self.grants.iter().filter(given).map(|grant| grant.role).max()
    }

    /// Returns whether the caller is an admin of any rig.
    #[must_use]
    pub fn has_admin(&self, caller: &Caller) -> bool {
        self.owns(caller)
            || self
                .grants
                .iter()
                .any(|grant| grant.role == Role::Admin && grant.is_for(caller))
    }

    /// Returns the patterns of the rigs that the caller may see; `None` for all rigs.
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

/// Returns whether a rig's name matches one of the patterns. A pattern is a name, or the beginning of a name followed
/// by `*`.
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
    fn default_roles_are_admin_and_operator() {
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
    fn highest_matching_role_counts() {
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
    fn sees_rigs_of_own_roles() {
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
