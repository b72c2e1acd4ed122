//! Response streams, with limits of their number and of the time that a client may stall. A stream ends when its
//! client loses the role that it needs.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio_stream::Stream;
use tonic::Status;

use super::errors;
use crate::access::{Denied, Identity};

/// The maximum number of open response streams of one identity; `ALL` is the maximum of all identities together.
/// Each stream has a task, buffered messages, and perhaps an open file.
const EACH: usize = 512;
const ALL: usize = 4096;
/// If the client reads no message for this time, the stream ends and frees its resources.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of open streams of each identity.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams(Arc<Mutex<HashMap<Identity, usize>>>);

/// The slot of a stream, which is freed on drop.
#[derive(Debug)]
struct Place {
    streams: Streams,
    who: Identity,
}

/// The daemon's end of a stream.
#[derive(Debug)]
pub(super) struct Out<T> {
    sender: mpsc::Sender<Result<T, Status>>,
    slow: Arc<AtomicBool>,
    patience: Duration,
    _place: Place,
}

/// The response stream that the client reads.
pub struct Answer<T> {
    receiver: mpsc::Receiver<Result<T, Status>>,
    slow: Arc<AtomicBool>,
    /// Completes when the client may no longer read the stream; `None` afterwards.
    denied: Option<Pin<Box<dyn Future<Output = Denied> + Send>>>,
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("slow", &self.slow)
            .finish_non_exhaustive()
    }
}

/// The error of a stream whose client has left or stalled for too long.
#[derive(Debug)]
pub(super) struct Gone;

impl Streams {
    fn taken(&self) -> MutexGuard<'_, HashMap<Identity, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a stream that buffers at most `ahead` messages. The stream ends when `denied` completes.
    pub(super) fn open<T>(
        &self,
        who: &Identity,
        ahead: usize,
        denied: impl Future<Output = Denied> + Send + 'static,
    ) -> Result<(Out<T>, Answer<T>), Status> {
        let mut taken = self.taken();
        let own = taken.get(who).copied().unwrap_or(0);
        if own >= EACH || taken.values().sum::<usize>() >= ALL {
            return Err(errors::too_many_streams(who, own));
        }
        taken.insert(who.clone(), own + 1);
        drop(taken);
        let (sender, receiver) = mpsc::channel(ahead);
        let slow = Arc::new(AtomicBool::new(false));
        let out = Out {
            sender,
            slow: Arc::clone(&slow),
            patience: PATIENCE,
            _place: Place {
                streams: self.clone(),
                who: who.clone(),
            },
        };
        let answer = Answer {
            receiver,
            slow,
            denied: Some(Box::pin(denied)),
        };
        Ok((out, answer))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.streams.taken();
        if let Some(own) = taken.get_mut(&self.who) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.who);
            }
        }
    }
}

impl<T> Out<T> {
    /// Sends a message, or the error that ends the stream.
    pub(super) async fn send(&self, message: Result<T, Status>) -> Result<(), Gone> {
        match self.sender.send_timeout(message, self.patience).await {
            Ok(()) => Ok(()),
            Err(SendTimeoutError::Timeout(_)) => {
                self.slow.store(true, Ordering::Release);
                Err(Gone)
            }
            Err(SendTimeoutError::Closed(_)) => Err(Gone),
        }
    }

    /// Waits until the client leaves.
    pub(super) async fn closed(&self) {
        self.sender.closed().await;
    }
}

impl<T> Stream for Answer<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(denied) = &mut self.denied else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(denied) = denied.as_mut().poll(context) {
            self.denied = None;
            self.receiver.close();
            return Poll::Ready(Some(Err(errors::denied(&denied))));
        }
        match ready!(self.receiver.poll_recv(context)) {
            // A stream that ended because its client stalled must not look complete.
            None if self.slow.swap(false, Ordering::AcqRel) => Poll::Ready(Some(Err(errors::too_slow(PATIENCE)))),
            next => Poll::Ready(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio_stream::StreamExt;

    use super::*;

    #[test]
    fn streams_are_limited_per_identity() {
        let (streams, many, other) = (Streams::default(), Identity::User(1), Identity::User(2));
        let mut held: Vec<_> = (0..EACH)
            .map(|_| streams.open::<()>(&many, 1, pending()).unwrap().0)
            .collect();
        let refused = streams.open::<()>(&many, 1, pending()).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        assert!(streams.open::<()>(&other, 1, pending()).is_ok());
        held.pop();
        assert!(streams.open::<()>(&many, 1, pending()).is_ok());
        drop(held);
        assert!(streams.taken().is_empty());
    }

    #[tokio::test]
    async fn stalled_reader_gets_an_error() {
        let (streams, who) = (Streams::default(), Identity::User(1));
        let (mut out, mut answer) = streams.open(&who, 1, pending()).unwrap();
        out.patience = Duration::ZERO;
        out.send(Ok(1)).await.unwrap();
        assert!(out.send(Ok(2)).await.is_err());
        drop(out);
        assert!(streams.taken().is_empty());
        assert_eq!(answer.next().await.unwrap().unwrap(), 1);
        let told = answer.next().await.unwrap().unwrap_err();
        assert_eq!(told.code(), tonic::Code::Unavailable);
        assert!(answer.next().await.is_none());
    }
}
