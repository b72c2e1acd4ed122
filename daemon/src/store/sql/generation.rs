//! Generations: how often a rig's journal has changed, and how many runs were created. An older copy of the database
//! has smaller generations than the journals and the state directory.

use std::collections::BTreeMap;

use super::connection::values;
use super::{Connection, SqlStore, seal};
use crate::store::StoreError;

/// The statement that makes the table, also in a database of an earlier version of the daemon.
pub(super) const TABLE: &str = "CREATE TABLE IF NOT EXISTS generation (name TEXT PRIMARY KEY, body TEXT NOT NULL)";

/// Returns the name of a generation of a host.
fn of_host(host: &str, name: &str) -> String {
    format!("{host}/{name}")
}

pub(super) fn set(db: &mut dyn Connection, host: &str, name: &str, generation: u64) -> Result<(), StoreError> {
    let name = of_host(host, name);
    let body = seal::document(&name, &BTreeMap::from([("generation", generation)]));
    let sql =
        "INSERT INTO generation (name, body) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET body = excluded.body";
    db.execute(sql, values![name, body]).map(drop)
}

/// Adds 1 to a generation.
pub(super) fn add(db: &mut dyn Connection, host: &str, name: &str) -> Result<(), StoreError> {
    let key = of_host(host, name);
    let row = db.first("SELECT body FROM generation WHERE name = $1", values![key.as_str()])?;
    let before = row.and_then(|mut row| opened(&key, &row.text()).ok());
    set(db, host, name, before.unwrap_or(0) + 1)
}

fn opened(name: &str, body: &str) -> Result<u64, String> {
    let of: BTreeMap<String, u64> = seal::open_document(name, body)?;
    of.get("generation")
        .copied()
        .ok_or_else(|| "it has no generation".into())
}

impl SqlStore {
    pub(super) fn all_generations(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        let rows = self.read(|db| db.query("SELECT name, body FROM generation", &[]))?;
        let mut all = BTreeMap::new();
        for mut row in rows {
            let (key, body) = (row.text(), row.text());
            if let Some(name) = key.strip_prefix(&of_host(&self.host, "")) {
                let generation = opened(&key, &body);
                let generation =
                    generation.map_err(|what| self.database.damaged(format!("generation {key}: {what}")))?;
                all.insert(name.to_owned(), generation);
            }
        }
        Ok(all)
    }
}
