//! Reloads the configuration and the certificates at SIGHUP, and when one of the files changes. The rig file is
//! reloaded at SIGHUP only: a half-written rig file must not remove a rig.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use sd_notify::NotifyState;
use signal_hook_tokio::Signals;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_stream::StreamExt as _;
use verbatim_tls::Gate;

use super::notify;
use super::revoked::Revoked;
use crate::access::Access;
use crate::config::Config;
use crate::log;
use crate::sched::Scheduler;
use crate::store::retention::Retention;

/// Wait for this time without changes before reading, because related files are replaced one after the other.
const SETTLED: Duration = Duration::from_millis(200);
/// Read after this time even if changes go on.
const SETTLED_WITHIN: Duration = Duration::from_secs(2);

/// Reloads the files at SIGHUP and after changes. Never returns. If a file is invalid, or a change needs a restart
/// of the daemon, the old values stay in use.
pub(super) async fn read_again(
    mut config: Config,
    gate: Option<(Arc<Gate>, Revoked)>,
    (access, scheduler): (Arc<Access>, Arc<Scheduler>),
    keep: watch::Sender<Retention>,
    mut hangup: Signals,
) {
    let mut files = Watched::of(config.files());
    loop {
        tokio::select! {
            _ = hangup.next() => {
                tracing::info!("SIGHUP");
                notify::reloading();
                let scheduler = Arc::clone(&scheduler);
                let reloaded = tokio::task::spawn_blocking(move || scheduler.reload()).await;
                if let Ok(Err(error)) = reloaded {
                    tracing::error!("{error}");
                }
            }
            () = files.changed() => {}
        }
        match once(&config, gate.as_ref().map(|(gate, _)| &**gate), &access) {
            Ok(read) => {
                if let Some((gate, revoked)) = &gate {
                    revoked.keep(gate);
                }
                tracing::info!("configuration and certificates were read again");
                if read.files() != config.files() {
                    files = Watched::of(read.files());
                }
                keep.send_replace(read.keep);
                config = read;
            }
            Err(error) => tracing::error!("configuration and certificates stay as they were: {error}"),
        }
        notify::tell(&[NotifyState::Ready]);
    }
}

fn once(before: &Config, gate: Option<&Gate>, access: &Access) -> Result<Config, String> {
    let read = match &before.path {
        Some(path) => Config::load(Some(path)).map_err(|error| error.to_string())?,
        None => before.clone(),
    };
    let address = |of: &Config| {
        (
            of.listen.as_ref().map(|listen| listen.address),
            of.metrics,
            of.web.clone(),
        )
    };
    if address(&read) != address(before) {
        return Err("the address to listen on changed; restart the daemon to apply it".into());
    }
    if read.limits != before.limits {
        return Err("[limits] changed; restart the daemon to apply them".into());
    }
    if let (Some(gate), Some(listen)) = (gate, &read.listen) {
        gate.reload(&listen.files).map_err(|error| error.to_string())?;
    }
    log::change(read.log.as_ref()).map_err(|error| format!("{error:#}"))?;
    access.replace(read.roles.clone());
    Ok(read)
}

/// The watched files. inotify watches their directories, because files are usually replaced by renaming.
struct Watched {
    files: Vec<PathBuf>,
    was: Vec<Option<Vec<u8>>>,
    notify: Option<Receiver>,
}

impl Watched {
    fn of(files: Vec<PathBuf>) -> Self {
        let notify = Self::watch(&files).inspect_err(|error| {
            tracing::warn!(
                %error,
                "the daemon cannot watch configuration and certificates for changes; send SIGHUP after a change"
            );
        });
        Self {
            was: read(&files),
            files,
            notify: notify.ok().flatten(),
        }
    }

    fn watch(files: &[PathBuf]) -> std::io::Result<Option<Receiver>> {
        let directories: BTreeSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
        if directories.is_empty() {
            return Ok(None);
        }
        let notify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        for directory in directories {
            let what = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_CREATE;
            let here = directory.as_os_str().is_empty();
            notify.add_watch(if here { Path::new(".") } else { directory }, what)?;
        }
        // Only the arrival of events matters, so reading the inotify descriptor like a pipe is enough.
        Receiver::from_owned_fd_unchecked(notify.as_fd().try_clone_to_owned()?).map(Some)
    }

    /// Waits until the content of a file has changed and the changes have settled.
    async fn changed(&mut self) {
        loop {
            self.event().await;
            // Other files in the directories may change all the time, so limit this wait.
            let settled = async { while timeout(SETTLED, self.event()).await.is_ok() {} };
            let _ = timeout(SETTLED_WITHIN, settled).await;
            let is = read(&self.files);
            if is != self.was {
                self.was = is;
                return;
            }
        }
    }

    /// Waits for an event in one of the directories.
    async fn event(&mut self) {
        let mut events = [0; 4096];
        if let Some(notify) = &mut self.notify
            && notify.read(&mut events).await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}

/// Returns the contents of the files; `None` for a file that cannot be read.
fn read(files: &[PathBuf]) -> Vec<Option<Vec<u8>>> {
    files.iter().map(|file| std::fs::read(file).ok()).collect()
}
