//! The files of a run's record, for clients to read.

use std::fs::{self, File};
use std::io::{self, Seek};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use nix::fcntl::OFlag;
use tonic::Status;
use verbatim_proto::v1::{Artifact, ReadArtifactResponse};
use verbatim_record::{Bundle, BundleError};

use super::errors;
use super::streams::Out;
use crate::store::captures;

/// The size of a chunk in bytes.
const CHUNK: usize = 64 << 10;
/// The number of chunks that the daemon reads ahead of the client.
pub(super) const AHEAD: usize = 2;
/// The name of the capture file, which the daemon makes when a client reads it.
pub(super) const CAPTURE: &str = "run.pcapng";
/// The end of the name of a compressed record. Clients read the record under its name without `.zst`.
const PACKED: &str = ".rec.zst";

/// Returns the files of a record, sorted by name. The list is empty if the directory does not exist yet.
pub(super) fn list(directory: &Path) -> Result<Vec<Artifact>, Status> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(directory, &error)),
    };
    let mut artifacts = Vec::new();
    for entry in entries.flatten() {
        let (name, metadata) = (entry.file_name().into_string(), entry.metadata());
        if let (Ok(name), Ok(metadata)) = (name, metadata)
            && metadata.is_file()
            && is_name(&name)
        {
            let size_bytes = metadata.len();
            artifacts.push(Artifact { name, size_bytes });
        }
    }
    if artifacts.iter().any(|artifact| artifact.name.ends_with(PACKED)) {
        // List a compressed record as a plain record.
        let bundle = Bundle::open_unread(directory).map_err(|error| errors::internal(&error.to_string()))?;
        let is_packed = |name: &str| bundle.files().any(|file| name.strip_suffix(".zst") == Some(&file.name));
        artifacts.retain(|artifact| !is_packed(&artifact.name) && !artifact.name.ends_with(".rec"));
        artifacts.extend(
            bundle
                .files()
                .filter(|file| file.name.ends_with(".rec"))
                .map(|file| Artifact {
                    name: file.name.clone(),
                    size_bytes: file.bytes,
                }),
        );
    }
    artifacts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(artifacts)
}

/// Returns whether `name` is the capture of a record without a capture file. The daemon then makes the capture.
pub(super) fn is_capture_to_make(directory: &Path, name: &str) -> bool {
    name == CAPTURE && !fs::symlink_metadata(directory.join(name)).is_ok_and(|metadata| metadata.is_file())
}

/// Opens a file of a record.
pub(super) fn open(directory: &Path, name: &str) -> Result<File, Status> {
    if !is_name(name) {
        return Err(errors::invalid_field(
            "artifact",
            format!("expected the name of a file within the run, such as \"manifest.json\", seen {name:?}"),
        ));
    }
    let path = directory.join(name);
    let found = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file());
    if !found && name.ends_with(".rec") && directory.join(format!("{name}.zst")).exists() {
        return unpacked(directory, name);
    }
    if !found {
        return Err(unknown(name));
    }
    let opened = File::options()
        .read(true)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(&path);
    opened.map_err(|error| unreadable(&path, &error))
}

/// Returns a compressed record as a plain file without a name.
fn unpacked(directory: &Path, name: &str) -> Result<File, Status> {
    let wrong = |error: BundleError| errors::internal(&error.to_string());
    let bundle = Bundle::open_unread(directory).map_err(wrong)?;
    let mut records = bundle.each_record();
    let Some(record) = records.find(|record| record.name() == name) else {
        return Err(unknown(name));
    };
    let beside = captures(directory.ancestors().nth(3).unwrap_or(directory));
    let plain = || {
        fs::create_dir_all(&beside)?;
        let mut plain = tempfile::tempfile_in(&beside)?;
        io::copy(&mut record.open().map_err(io::Error::other)?, &mut plain)?;
        plain.rewind()?;
        Ok(plain)
    };
    plain().map_err(|error| unreadable(&beside, &error))
}

fn unknown(name: &str) -> Status {
    let message = format!("the run has no file {name:?}; ListArtifacts lists its files");
    errors::not_found("ARTIFACT_UNKNOWN", name, &message)
}

/// Returns whether `name` can only name a file directly in the record's directory.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

pub(super) fn unreadable(path: &Path, error: &io::Error) -> Status {
    errors::internal(&format!(
        "{}: {error}; mend the permissions of the state directory",
        path.display()
    ))
}

/// Sends the content of a file as fast as the client takes it. A stalled client uses a descriptor and two chunks, but
/// no thread. Drops `keep` at the end.
pub(super) fn send<K: Send + 'static>(file: Arc<File>, keep: K, sender: Out<ReadArtifactResponse>) {
    // Reads of one identity take turns with its other calls, also if it is an admin.
    let who = super::caller();
    tokio::spawn(super::as_caller(who, false, async move {
        let _keep = keep;
        let mut at = 0;
        loop {
            // Other clients may read the same file at other places.
            let of = Arc::clone(&file);
            let read = super::blocking(move || {
                let mut data = vec![0; CHUNK];
                let count = of.read_at(&mut data, at)?;
                data.truncate(count);
                Ok::<_, io::Error>(data)
            });
            let chunk = match read.await {
                Err(status) => Err(status),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(Err(error)) => Err(errors::internal(&format!("reading stopped: {error}; read it again"))),
                Ok(Ok(data)) if data.is_empty() => return,
                Ok(Ok(data)) => {
                    at += data.len() as u64;
                    // An error means that the client has disconnected.
                    if sender.send(Ok(ReadArtifactResponse { data })).await.is_err() {
                        return;
                    }
                    continue;
                }
            };
            let _ = sender.send(chunk).await;
            return;
        }
    }));
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use tokio_stream::StreamExt as _;

    use super::*;
    use crate::access::Identity;
    use crate::api::streams::Streams;
    use crate::api::{BLOCKING, IN_WORK_EACH, as_caller};

    #[tokio::test]
    async fn reads_of_an_admin_take_turns() {
        let (admin, other) = (Identity::User(4711), Identity::User(4712));
        let mut in_work = Vec::new();
        for _ in 0..IN_WORK_EACH {
            in_work.push(BLOCKING.take(Some(&admin)).await);
        }
        let streams = Streams::default();
        let reads = async |who: &Identity| {
            let (out, answer) = streams.open(who, 1, pending()).unwrap();
            let mut file = tempfile::tempfile().unwrap();
            io::Write::write_all(&mut file, b"content").unwrap();
            as_caller(Some(who.clone()), true, async { send(Arc::new(file), (), out) }).await;
            answer
        };
        let mut admins = reads(&admin).await;
        assert!(reads(&other).await.next().await.unwrap().is_ok());
        let mut next = pin!(admins.next());
        let mut context = Context::from_waker(Waker::noop());
        assert!(next.as_mut().poll(&mut context).is_pending(), "the admin does not wait");
        in_work.pop();
        assert_eq!(next.await.unwrap().unwrap().data, b"content");
    }

    #[test]
    fn name_cannot_leave_the_record() {
        let directory = tempfile::tempdir().unwrap();
        let record = directory.path().join("record");
        fs::create_dir(&record).unwrap();
        fs::write(directory.path().join("run.json"), "secret").unwrap();
        fs::write(record.join("a"), "b").unwrap();
        std::os::unix::fs::symlink("../run.json", record.join("link")).unwrap();
        for wrong in [
            "",
            ".",
            "..",
            "../run.json",
            "/etc/passwd",
            "a/../../run.json",
            ".hidden",
            "a\0",
        ] {
            let status = open(&record, wrong).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument, "{wrong}");
        }
        assert_eq!(open(&record, "link").unwrap_err().code(), tonic::Code::NotFound);
        assert_eq!(open(&record, "b").unwrap_err().code(), tonic::Code::NotFound);
        assert!(open(&record, "a").is_ok());
        let names: Vec<String> = list(&record)
            .unwrap()
            .into_iter()
            .map(|artifact| artifact.name)
            .collect();
        assert_eq!(names, ["a"]);
    }
}
