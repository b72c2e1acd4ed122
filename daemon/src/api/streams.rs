//! Answers that go on: how many there may be at once, and how long a reader may take nothing.

use std::collections::HashMap;
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
use crate::access::Identity;

/// Answers that go on, to one identity and to all: each has a task, what it made ready, and perhaps an open file.
const EACH: usize = 512;
const ALL: usize = 4096;
/// A reader who takes nothing for that long has to come again: what it holds is for others.
const PATIENCE: Duration = Duration::from_secs(60);

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams(Arc<Mutex<HashMap<Identity, usize>>>);

/// The place of one, free again when this is dropped.
#[derive(Debug)]
struct Place {
    streams: Streams,
    who: Identity,
}

/// The end that is written to.
#[derive(Debug)]
pub(super) struct Out<T> {
    sender: mpsc::Sender<Result<T, Status>>,
    slow: Arc<AtomicBool>,
    patience: Duration,
    _place: Place,
}

/// The end that somebody reads over the network.
#[derive(Debug)]
pub struct Answer<T> {
    receiver: mpsc::Receiver<Result<T, Status>>,
    slow: Arc<AtomicBool>,
}

/// The reader left, or took nothing for too long.
#[derive(Debug)]
pub(super) struct Gone;

impl Streams {
    fn taken(&self) -> MutexGuard<'_, HashMap<Identity, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, of which so many messages are made ready before they are taken.
    pub(super) fn open<T>(&self, who: &Identity, ahead: usize) -> Result<(Out<T>, Answer<T>), Status> {
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
        Ok((out, Answer { receiver, slow }))
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
    /// Sends a message, or the error that ends it.
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

    /// The reader leaves.
    pub(super) async fn closed(&self) {
        self.sender.closed().await;
    }
}

impl<T> Stream for Answer<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match ready!(self.receiver.poll_recv(context)) {
            // Never as if that had been all.
            None if self.slow.swap(false, Ordering::AcqRel) => Poll::Ready(Some(Err(errors::too_slow(PATIENCE)))),
            next => Poll::Ready(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt;

    use super::*;

    #[test]
    fn one_identity_has_so_many_and_leaves_room_for_others() {
        let (streams, many, other) = (Streams::default(), Identity::User(1), Identity::User(2));
        let mut held: Vec<_> = (0..EACH).map(|_| streams.open::<()>(&many, 1).unwrap().0).collect();
        let refused = streams.open::<()>(&many, 1).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        assert!(streams.open::<()>(&other, 1).is_ok());
        held.pop();
        assert!(streams.open::<()>(&many, 1).is_ok());
        drop(held);
        assert!(streams.taken().is_empty());
    }

    #[tokio::test]
    async fn a_reader_who_takes_nothing_is_told_and_its_place_is_free() {
        let (streams, who) = (Streams::default(), Identity::User(1));
        let (mut out, mut answer) = streams.open(&who, 1).unwrap();
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
