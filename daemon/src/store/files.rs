//! Runs in files: `runs/ID/` with `run.json`, `events.log` and the record.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use verbatim_proto::v1::run_event::Event;
use verbatim_proto::v1::{Outcome, RunEvent, RunState, Verdict};
use verbatim_run::RunId;

use super::{EventReader, Filter, RunStore, StoreError, StoredRun};
use crate::access::Identity;
use crate::framing::{self, FrameError, FramesOfFile};

/// How directories begin in which a capture is made.
pub(crate) const CAPTURE_PLACE: &str = ".capture-";

/// Events read at once.
const BATCH: usize = 256;

/// Runs in a directory, and what is needed of them to find them in memory.
#[derive(Debug)]
pub struct FileStore {
    directory: PathBuf,
    index: Mutex<Index>,
}

#[derive(Debug, Default)]
struct Index {
    runs: BTreeMap<RunId, Known>,
    requests: HashMap<(Identity, String), RunId>,
    /// Runs whose last state could not be written.
    unwritten: HashMap<RunId, StoredRun>,
}

#[derive(Debug)]
struct Known {
    rig: String,
    state: RunState,
    outcome: Option<Outcome>,
}

impl Index {
    fn put(&mut self, run: &StoredRun) {
        let known = Known {
            rig: run.spec.rig.clone(),
            state: run.state,
            outcome: run.outcome,
        };
        self.runs.insert(run.id.clone(), known);
        if !run.request_id.is_empty() {
            let request = (run.owner.clone(), run.request_id.clone());
            self.requests.insert(request, run.id.clone());
        }
    }
}

fn io(path: &Path) -> impl FnOnce(io::Error) -> StoreError + '_ {
    move |source| StoreError::Io {
        path: path.into(),
        source,
    }
}

impl FileStore {
    /// Opens the store in a directory, which is made if absent. Runs that cannot be read are left out, each with a line
    /// in the log.
    ///
    /// # Errors
    /// When the directory cannot be made or listed.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(directory).map_err(io(directory))?;
        let mut index = Index::default();
        for entry in fs::read_dir(directory).map_err(io(directory))? {
            let name = entry.map_err(io(directory))?.file_name();
            if name.to_string_lossy().starts_with(CAPTURE_PLACE) {
                // Of a daemon that was killed while it made one.
                let _ = fs::remove_dir_all(directory.join(&name));
                continue;
            }
            let Some(id) = name.to_str().and_then(|name| name.parse::<RunId>().ok()) else {
                tracing::warn!(path = %directory.join(&name).display(), "not a run's directory: left alone");
                continue;
            };
            match read(&directory.join(id.as_str()).join("run.json"), &id) {
                Ok(run) => index.put(&run),
                Err(error) => tracing::warn!(run = %id, %error, "the run is left out"),
            }
        }
        Ok(Self {
            directory: directory.into(),
            index: Mutex::new(index),
        })
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, id: &RunId, name: &str) -> PathBuf {
        self.directory.join(id.as_str()).join(name)
    }

    /// A frame file for appending.
    fn appendable(path: &Path) -> io::Result<File> {
        File::options().read(true).append(true).create(true).open(path)
    }
}

fn open_if_there(path: &Path) -> Result<Option<File>, StoreError> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(io(path)(source)),
    }
}

fn frame_error(path: &Path, error: FrameError) -> StoreError {
    match error {
        FrameError::Io(source) => io(path)(source),
        FrameError::Damaged { .. } => StoreError::Damaged {
            path: path.into(),
            what: error.to_string(),
        },
    }
}

fn read(path: &Path, id: &RunId) -> Result<StoredRun, StoreError> {
    let text = fs::read(path).map_err(io(path))?;
    let damaged = |what: String| StoreError::Damaged {
        path: path.into(),
        what,
    };
    let run: StoredRun = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    if run.schema != StoredRun::SCHEMA {
        return Err(damaged(format!(
            "its schema is {:?}, this program knows {:?}",
            run.schema,
            StoredRun::SCHEMA
        )));
    }
    if run.id != *id {
        return Err(damaged(format!("it is of run {}, expected {id}", run.id)));
    }
    Ok(run)
}

/// Writes a file so that after a crash at any instant it is the old one or the new one.
fn replace(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let part = path.with_extension("part");
    let write = || {
        let mut file = File::create(&part)?;
        file.write_all(content)?;
        file.sync_data()?;
        fs::rename(&part, path)
    };
    write().map_err(|source| {
        let _ = fs::remove_file(&part);
        io(path)(source)
    })
}

fn pretty(run: &StoredRun) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(run).expect("plain data");
    text.push(b'\n');
    text
}

impl RunStore for FileStore {
    fn create(&self, run: &StoredRun) -> Result<(), StoreError> {
        let directory = self.directory.join(run.id.as_str());
        fs::create_dir(&directory).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => StoreError::Exists(run.id.clone()),
            _ => io(&directory)(source),
        })?;
        replace(&directory.join("run.json"), &pretty(run)).inspect_err(|_| {
            let _ = fs::remove_dir_all(&directory);
        })?;
        self.index().put(run);
        Ok(())
    }

    fn update(&self, run: &StoredRun) -> Result<(), StoreError> {
        let written = replace(&self.path(&run.id, "run.json"), &pretty(run));
        let mut index = self.index();
        index.put(run);
        match &written {
            Ok(()) => index.unwritten.remove(&run.id),
            Err(_) => index.unwritten.insert(run.id.clone(), run.clone()),
        };
        written
    }

    fn append(&self, id: &RunId, events: &[RunEvent]) -> Result<(), StoreError> {
        let path = self.path(id, "events.log");
        Self::appendable(&path)
            .and_then(|mut file| framing::append(&mut file, events.iter()))
            .map_err(io(&path))
    }

    fn mend_events(&self, id: &RunId) -> Result<u64, StoreError> {
        let path = self.path(id, "events.log");
        let Some(file) = open_if_there(&path)? else {
            return Ok(0);
        };
        let mut frames = FramesOfFile::<RunEvent>::new(file);
        let mut last = 0;
        loop {
            match frames.next() {
                Ok(Some(event)) => last = event.cursor,
                Ok(None) => break,
                Err(FrameError::Io(source)) => return Err(io(&path)(source)),
                Err(FrameError::Damaged { at, what }) => {
                    tracing::warn!(run = %id, path = %path.display(), "events from byte {at} on are lost: {what}");
                    break;
                }
            }
        }
        let file = Self::appendable(&path).map_err(io(&path))?;
        file.set_len(frames.position()).map_err(io(&path))?;
        Ok(last)
    }

    fn get(&self, id: &RunId) -> Result<StoredRun, StoreError> {
        {
            let index = self.index();
            if let Some(run) = index.unwritten.get(id) {
                return Ok(run.clone());
            }
            if !index.runs.contains_key(id) {
                return Err(StoreError::Unknown(id.clone()));
            }
        }
        read(&self.path(id, "run.json"), id)
    }

    fn of_request(&self, owner: &Identity, request_id: &str) -> Result<Option<StoredRun>, StoreError> {
        let id = self
            .index()
            .requests
            .get(&(owner.clone(), request_id.to_string()))
            .cloned();
        id.map(|id| self.get(&id)).transpose()
    }

    fn list(&self, filter: &Filter, after: Option<&RunId>, at_most: usize) -> Vec<StoredRun> {
        let ids: Vec<RunId> = {
            let index = self.index();
            let newest_first = index.runs.iter().rev();
            newest_first
                .filter(|(id, _)| after.is_none_or(|after| *id < after))
                .filter(|(_, known)| filter.takes(&known.rig, known.state, known.outcome))
                .take(at_most)
                .map(|(id, _)| id.clone())
                .collect()
        };
        let read = |id: &RunId| {
            self.get(id)
                .inspect_err(|error| tracing::warn!(run = %id, %error, "the run is left out"))
        };
        ids.iter().filter_map(|id| read(id).ok()).collect()
    }

    fn verdicts(&self, id: &RunId) -> Result<Vec<Verdict>, StoreError> {
        let mut events = self.events(id, 0)?;
        let mut verdicts = Vec::new();
        loop {
            let read = events.next(BATCH)?;
            if read.is_empty() {
                return Ok(verdicts);
            }
            verdicts.extend(read.into_iter().filter_map(|event| match event.event {
                Some(Event::TestEnded(ended)) => ended.verdict,
                _ => None,
            }));
        }
    }

    fn events(&self, id: &RunId, after: u64) -> Result<Box<dyn EventReader>, StoreError> {
        Ok(Box::new(Reader {
            path: self.path(id, "events.log"),
            frames: None,
            after,
        }))
    }

    fn record(&self, id: &RunId) -> PathBuf {
        self.path(id, "record")
    }
}

/// Reads `events.log`.
#[derive(Debug)]
struct Reader {
    path: PathBuf,
    frames: Option<FramesOfFile<RunEvent>>,
    after: u64,
}

impl EventReader for Reader {
    fn next(&mut self, at_most: usize) -> Result<Vec<RunEvent>, StoreError> {
        if self.frames.is_none() {
            self.frames = open_if_there(&self.path)?.map(FramesOfFile::new);
        }
        let Some(frames) = &mut self.frames else {
            return Ok(Vec::new());
        };
        let mut events = Vec::new();
        while events.len() < at_most
            && let Some(event) = frames.next().map_err(|error| frame_error(&self.path, error))?
        {
            if event.cursor > self.after {
                self.after = event.cursor;
                events.push(event);
            }
        }
        Ok(events)
    }
}
