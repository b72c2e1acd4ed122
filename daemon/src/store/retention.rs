//! Selects the runs whose files are deleted, by age and by size, oldest first.
//!
//! Only files are deleted: the run, its verdicts and its events stay in the list. A pinned run keeps its files.

use std::time::Duration;

use verbatim_run::RunId;

/// The limits on the files of runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    /// How long the files of a run are kept after its end; `None` for no limit.
    pub age: Option<Duration>,
    /// The limit of the total size of all files in bytes. Above the limit, the oldest files are deleted.
    pub bytes: Option<u64>,
}

/// The files of an ended run that is not pinned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Files {
    /// The run.
    pub run: RunId,
    /// When the run ended, in nanoseconds since 1970.
    pub ended_ns: u64,
    /// The size of the files in bytes.
    pub bytes: u64,
}

impl Default for Retention {
    /// Returns the limits of a daemon whose configuration sets none.
    fn default() -> Self {
        Self {
            age: None,
            bytes: Some(20 << 30),
        }
    }
}

impl Retention {
    /// Returns the runs whose files must be deleted now. `files` is in the order in which the runs ended.
    #[must_use]
    pub fn go(&self, now_ns: u64, files: &[Files]) -> Vec<RunId> {
        let oldest = self.age.map_or(0, |age| {
            now_ns.saturating_sub(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX))
        });
        let mut bytes: u64 = files.iter().map(|files| files.bytes).sum();
        let mut go = Vec::new();
        for files in files {
            let too_much = self.bytes.is_some_and(|most| bytes > most);
            if files.ended_ns < oldest || too_much && files.bytes > 0 {
                bytes -= files.bytes;
                go.push(files.run.clone());
            }
        }
        go
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(number: u64, ended_s: u64, bytes: u64) -> Files {
        Files {
            run: RunId::new(number * 1_000_000, 0),
            ended_ns: ended_s * 1_000_000_000,
            bytes,
        }
    }

    fn go(retention: Retention, files: &[Files]) -> Vec<usize> {
        let go = retention.go(1000 * 1_000_000_000, files);
        let place = |run: &RunId| files.iter().position(|files| files.run == *run).unwrap();
        go.iter().map(place).collect()
    }

    #[test]
    fn by_default_size_is_limited_but_not_age() {
        let all = [files(1, 0, 1 << 30), files(2, 1, 20 << 30)];
        assert_eq!(go(Retention::default(), &all), [0]);
        assert!(go(Retention::default(), &all[1..]).is_empty());
    }

    #[test]
    fn deletes_old_files_then_oldest_until_fit() {
        let all = [
            files(1, 100, 10),
            files(2, 500, 0),
            files(3, 600, 10),
            files(4, 900, 10),
        ];
        let age = Some(Duration::from_secs(450));
        assert_eq!(go(Retention { age, bytes: None }, &all), [0, 1]);
        assert_eq!(
            go(
                Retention {
                    age: None,
                    bytes: Some(20)
                },
                &all
            ),
            [0]
        );
        assert_eq!(
            go(
                Retention {
                    age: None,
                    bytes: Some(9)
                },
                &all
            ),
            [0, 2, 3]
        );
        assert_eq!(go(Retention { age, bytes: Some(10) }, &all), [0, 1, 2]);
    }
}
