//! Storage of leases.

use std::ops::RangeInclusive;

use verbatim_proto::v1::LeaseState;
use verbatim_run::RunId;

use super::connection::values;
use super::{Connection, Op, SqlStore, Value, seal};
use crate::access::Identity;
use crate::store::{Lab, LeaseId, LeaseStore, StoreError, StoredLease};

impl LeaseStore for SqlStore {
    fn put(&self, lease: &StoredLease) -> Result<u64, StoreError> {
        let lease = self.held_here(lease);
        if lease.state == LeaseState::Ended {
            return self.note(Op::Lease(Box::new(lease.clone()))).map(|()| lease.token);
        }
        self.write(move |db| put(db, &lease))
    }

    fn lease(&self, id: &LeaseId) -> Result<StoredLease, StoreError> {
        let found = self.found("SELECT id, body FROM lease WHERE id = $1", values![id.as_str()])?;
        found.into_iter().next().ok_or_else(|| StoreError::NoLease(id.clone()))
    }

    fn lease_of_request(&self, owner: &Identity, request_id: &str) -> Result<Option<StoredLease>, StoreError> {
        let sql = "SELECT id, body FROM lease WHERE owner = $1 AND request_id = $2 AND request_id <> ''";
        let found = self.found(sql, values![owner.to_string(), request_id])?;
        Ok(found.into_iter().next())
    }

    fn leases(&self, ended: bool, at_most: usize) -> Result<Vec<StoredLease>, StoreError> {
        let sql = if ended {
            "SELECT id, body FROM lease ORDER BY id DESC LIMIT $1"
        } else {
            "SELECT id, body FROM lease WHERE state <> 3 ORDER BY id DESC LIMIT $1"
        };
        self.found(sql, values![at_most])
    }

    fn unended(&self) -> Result<Vec<StoredLease>, StoreError> {
        let sql = "SELECT id, body FROM lease WHERE state <> 3 AND host = $1";
        self.found(sql, values![self.host.as_str()])
    }

    fn take_back(&self, id: &LeaseId) -> Result<(), StoreError> {
        let (id, host) = (id.clone(), self.host.clone());
        self.write(move |db| {
            let sql = "SELECT id, body FROM lease WHERE id = $1 AND state = 2 AND host = $2";
            let Some(mut row) = db.first(sql, values![id.as_str(), host.as_str()])? else {
                return Ok(());
            };
            let (id, body) = (row.text(), row.text());
            let Ok(lease) = seal::open_document::<StoredLease>(&id, &body) else {
                return Ok(());
            };
            // A lease that any host may take returns to the shared queue.
            let for_any = lease.posted && lease.run.is_none();
            let waits = StoredLease {
                state: LeaseState::Pending,
                host: if for_any { String::new() } else { lease.host.clone() },
                rig: String::new(),
                granted_ns: None,
                until_ns: None,
                ..lease
            };
            let sql = "UPDATE lease SET state = 1, rig = '', host = $2, body = $3 WHERE id = $1";
            let body = seal::document(&id, &waits);
            db.execute(sql, values![id.as_str(), waits.host.as_str(), body])
                .map(drop)
        })
    }

    fn forget_ended(&self, before_ns: u64) -> Result<u64, StoreError> {
        // Ids sort by creation time.
        let (before, host) = (RunId::new(before_ns, 0), self.host.clone());
        let sql = "DELETE FROM lease WHERE state = 3 AND id < $1 AND host IN ('', $2)";
        self.write(move |db| db.execute(sql, values![before.as_str(), host.as_str()]))
    }

    fn last_token(&self) -> Result<u64, StoreError> {
        let row = self.read(|db| db.first("SELECT value FROM counter WHERE name = 'token'", &[]))?;
        Ok(row.and_then(|mut row| row.number()).unwrap_or(0))
    }

    fn now_ns(&self) -> u64 {
        self.database.now_ns()
    }

    fn serials(&self) -> RangeInclusive<u16> {
        self.serials.clone()
    }

    fn lab(&self) -> Option<&dyn Lab> {
        (!self.host.is_empty()).then_some(self)
    }
}

impl SqlStore {
    /// Returns the lease with its host set to this host, unless the lease waits for the first host with a free
    /// rig.
    fn held_here(&self, lease: &StoredLease) -> StoredLease {
        let mut lease = lease.clone();
        let has_a_rig = lease.state == LeaseState::Active || !lease.rig.is_empty();
        if lease.host.is_empty() && (!lease.posted || has_a_rig) {
            lease.host.clone_from(&self.host);
        }
        lease
    }

    pub(super) fn found(&self, sql: &str, values: &[Value]) -> Result<Vec<StoredLease>, StoreError> {
        let rows = self.read(|db| db.query(sql, values))?;
        let understood = |mut row: super::Row| {
            let (id, body) = (row.text(), row.text());
            let lease = seal::open_document(&id, &body);
            lease.map_err(|error| self.database.damaged(format!("lease {id}: {error}")))
        };
        rows.into_iter().map(understood).collect()
    }
}

/// Stores the current state of a lease, and returns its token.
pub(super) fn put(db: &mut dyn Connection, lease: &StoredLease) -> Result<u64, StoreError> {
    let mut lease = lease.clone();
    if lease.state == LeaseState::Active {
        let taken = "SELECT 1 FROM lease WHERE rig = $1 AND state = 2 AND id <> $2";
        if db
            .first(taken, values![lease.rig.as_str(), lease.id.as_str()])?
            .is_some()
        {
            return Err(StoreError::Held(lease.rig));
        }
        let own = values![lease.id.as_str(), lease.host.as_str()];
        if lease.posted {
            // If another host has locked the row, that host is taking the lease, so don't wait for the lock.
            let sql = format!(
                "SELECT 1 FROM lease WHERE id = $1 AND host IN ('', $2) AND state <> 3{}",
                db.or_skip()
            );
            if db.first(&sql, own)?.is_none() {
                return Err(StoreError::Taken(lease.id));
            }
        }
        let held = db.first("SELECT token FROM lease WHERE id = $1 AND state = 2", &own[..1])?;
        lease.token = match held.and_then(|mut row| row.number()) {
            // A renewal keeps its token. With another token, this is a new grant: the lease has waited again since
            // the stored grant.
            Some(token) if token == lease.token => token,
            _ => {
                let sql = "UPDATE counter SET value = CASE WHEN value < $1 THEN $1 ELSE value + 1 END \
                           WHERE name = 'token' RETURNING value";
                let row = db.first(sql, values![lease.token])?;
                row.and_then(|mut row| row.number()).unwrap_or(lease.token)
            }
        };
    }
    let sql = "INSERT INTO lease (id, host, owner, state, rig, token, request_id, posted, body) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO UPDATE SET \
               host = excluded.host, state = excluded.state, rig = excluded.rig, token = excluded.token, \
               body = excluded.body WHERE lease.state <> 3 AND lease.host IN ('', excluded.host)";
    let values = values![
        lease.id.as_str(),
        lease.host.as_str(),
        lease.owner.to_string(),
        i32::from(lease.state),
        lease.rig.as_str(),
        lease.token,
        lease.request_id.as_str(),
        lease.posted,
        seal::document(lease.id.as_str(), &lease),
    ];
    db.execute(sql, values)?;
    Ok(lease.token)
}
