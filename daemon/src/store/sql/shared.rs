//! Communication between the daemons of several hosts through their shared database.

use std::collections::BTreeMap;

use super::SqlStore;
use super::connection::values;
use super::postgres::{SILENT_NS, read_clock};
use crate::store::{Elsewhere, Lab, LeaseStore as _, RUNS, RemoteRequest, StoreError, StoredLease, StoredRun};

impl Lab for SqlStore {
    fn host(&self) -> &str {
        &self.host
    }

    fn beat(&self) -> Result<(), StoreError> {
        self.read(|db| read_clock(self.database.as_ref(), db))?;
        let (host, now_ns) = (self.host.clone(), self.now_ns());
        self.write(move |db| {
            let sql = "UPDATE host SET seen_ns = $2 WHERE name = $1";
            db.execute(sql, values![host.as_str(), now_ns]).map(drop)
        })
    }

    fn show(&self, rigs: &BTreeMap<String, Vec<u8>>, gone: &[String]) -> Result<(), StoreError> {
        let (host, rigs, gone) = (self.host.clone(), rigs.clone(), gone.to_vec());
        self.write(move |db| {
            for rig in &gone {
                db.execute(
                    "DELETE FROM rig WHERE name = $1 AND host = $2",
                    values![rig.as_str(), host.as_str()],
                )?;
            }
            for (rig, body) in &rigs {
                let sql = "INSERT INTO rig (name, host, body) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET \
                           body = excluded.body WHERE rig.host = excluded.host";
                db.execute(sql, values![rig.as_str(), host.as_str(), body.clone()])?;
            }
            Ok(())
        })
    }

    fn claim(&self, rigs: &[String], only: bool) -> Result<(), StoreError> {
        let (host, rigs, now_ns) = (self.host.clone(), rigs.to_vec(), self.now_ns());
        let silent = now_ns.saturating_sub(SILENT_NS);
        self.write(move |db| {
            if only {
                db.execute("DELETE FROM rig WHERE host = $1", values![host.as_str()])?;
            }
            for rig in &rigs {
                let sql = "SELECT rig.host, host.address FROM rig JOIN host ON host.name = rig.host \
                           WHERE rig.name = $1 AND rig.host <> $3 AND (host.seen_ns > $2 OR EXISTS \
                           (SELECT 1 FROM lease WHERE lease.rig = $1 AND lease.state = 2 AND lease.host = rig.host))";
                if let Some(mut row) = db.first(sql, values![rig.as_str(), silent, host.as_str()])? {
                    return Err(StoreError::RigOfAnother {
                        rig: rig.clone(),
                        host: row.text(),
                    });
                }
                let sql = "INSERT INTO rig (name, host, body) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET \
                           host = excluded.host, body = excluded.body WHERE rig.host <> excluded.host";
                db.execute(sql, values![rig.as_str(), host.as_str(), Vec::new()])?;
            }
            Ok(())
        })
    }

    fn elsewhere(&self) -> Result<Vec<Elsewhere>, StoreError> {
        let sql = "SELECT rig.name, rig.host, host.address, host.seen_ns, rig.body FROM rig JOIN host ON host.name = rig.host \
                   WHERE rig.host <> $1 ORDER BY rig.name";
        let rows = self.read(|db| db.query(sql, values![self.host.as_str()]))?;
        let silent_ns = |seen_ns: u64| self.now_ns().saturating_sub(seen_ns);
        let rig = |mut row: super::Row| Elsewhere {
            rig: row.text(),
            host: row.text(),
            address: row.text(),
            silent_ns: row.number().map(silent_ns).filter(|silent| *silent > SILENT_NS),
            body: row.bytes(),
        };
        Ok(rows.into_iter().map(rig).collect())
    }

    fn post(&self, run: Option<&StoredRun>, lease: &StoredLease) -> Result<(), StoreError> {
        let (run, lease, own) = (run.cloned(), lease.clone(), self.host.clone());
        self.write(move |db| {
            if let Some(run) = &run {
                super::history::put(db, run)?;
                super::generation::add(db, &own, RUNS)?;
            }
            super::leases::put(db, &lease).map(drop)
        })
    }

    fn posted(&self) -> Result<Vec<StoredLease>, StoreError> {
        let sql = "SELECT id, body FROM lease WHERE state = 1 AND posted = 1 AND host IN ('', $1) ORDER BY id";
        self.found(sql, values![self.host.as_str()])
    }

    fn remote_request(&self, host: &str, remote_request: &RemoteRequest) -> Result<(), StoreError> {
        let (host, body) = (
            host.to_string(),
            serde_json::to_string(remote_request).expect("plain data"),
        );
        let sql = "INSERT INTO wish (host, body) VALUES ($1, $2)";
        self.write(move |db| db.execute(sql, values![host.as_str(), body.as_str()]).map(drop))
    }

    fn remote_requests(&self) -> Result<Vec<RemoteRequest>, StoreError> {
        let host = self.host.clone();
        let bodies = self.write(move |db| {
            let sql = format!(
                "SELECT number, body FROM wish WHERE host = $1 ORDER BY number{}",
                db.or_skip()
            );
            let rows = db.query(&sql, values![host.as_str()])?;
            let remote_requests: Vec<(u64, String)> = rows
                .into_iter()
                .map(|mut row| (row.number().unwrap_or(0), row.text()))
                .collect();
            for (number, _) in &remote_requests {
                db.execute("DELETE FROM wish WHERE number = $1", values![*number])?;
            }
            Ok(remote_requests)
        })?;
        let remote_request = |(_, body): (u64, String)| {
            let remote_request = serde_json::from_str(&body);
            remote_request
                .inspect_err(|error| tracing::error!(%error, "a request of another host is not understood"))
                .ok()
        };
        Ok(bodies.into_iter().filter_map(remote_request).collect())
    }
}
