//! A watch returns each event once and in order, even if its connection fails.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{LAST, Place, Told};
use tonic::Status;
use verbatim_client::{Client, Error, RunName, Watch};

fn run() -> RunName {
    "1".parse().unwrap()
}

async fn watch(place: &Place) -> Watch {
    Client::connect(place.address()).await.unwrap().watch(&run(), 0)
}

async fn cursors(mut watch: Watch) -> Result<Vec<u64>, Error> {
    let mut seen = Vec::new();
    while let Some(event) = watch.next().await {
        seen.push(event?.cursor);
    }
    Ok(seen)
}

fn whole() -> Vec<u64> {
    (1..=LAST).collect()
}

#[tokio::test]
async fn watch_resumes_after_broken_or_closed_stream() {
    let place = Place::new();
    let told = Told::default();
    told.watch(&[1, 2], Some(Status::unavailable("stopping")))
        .watch(&[3], None)
        .watch(&[], Some(Status::resource_exhausted("too slow")))
        .watch(&[4, 5, 6], None);
    let _serving = place.serve(&told);
    let breaks = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&breaks);
    let watch = watch(&place).await.on_break(move |_| *counted.lock().unwrap() += 1);
    assert_eq!(cursors(watch).await.unwrap(), whole());
    assert_eq!(*told.watched.lock().unwrap(), [0, 2, 3, 3]);
    assert_eq!(*breaks.lock().unwrap(), 3);
}

#[tokio::test]
async fn drops_repeated_and_fetches_missing_events() {
    let place = Place::new();
    let told = Told::default();
    told.watch(&[1, 1, 2, 1, 2, 4], None).watch(&[2, 3, 4, 5, 6], None);
    let _serving = place.serve(&told);
    assert_eq!(cursors(watch(&place).await).await.unwrap(), whole());
    assert_eq!(*told.watched.lock().unwrap(), [0, 2]);
}

#[tokio::test]
async fn events_lost_at_the_server_are_an_error() {
    let place = Place::new();
    let told = Told::default();
    told.watch(&[1, 4], None).watch(&[4, 5, 6], None);
    let _serving = place.serve(&told);
    let error = cursors(watch(&place).await).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Gap {
                expected: 2,
                seen: 4,
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn watch_from_the_last_event_ends_without_error() {
    let place = Place::new();
    let told = Told::default();
    *told.ended.lock().unwrap() = true;
    told.watch(&[], None).watch(&[], None);
    let _serving = place.serve(&told);
    let watch = Client::connect(place.address()).await.unwrap().watch(&run(), LAST);
    assert_eq!(cursors(watch).await.unwrap(), [0_u64; 0]);
}

#[tokio::test]
async fn run_end_during_stream_close_is_seen() {
    let place = Place::new();
    let told = Told::default();
    *told.ended.lock().unwrap() = true;
    told.watch(&[1, 2, 3], None).watch(&[4, 5, 6], None);
    let _serving = place.serve(&told);
    assert_eq!(cursors(watch(&place).await).await.unwrap(), whole());
}

#[tokio::test]
async fn unknown_run_fails_at_once() {
    let place = Place::new();
    let told = Told::default();
    told.watch(&[], Some(Status::not_found("there is no run 1")));
    let _serving = place.serve(&told);
    let error = cursors(watch(&place).await).await.unwrap_err();
    assert!(matches!(error, Error::NotFound(_)), "{error}");
}

#[tokio::test]
async fn absent_server_ends_the_watch_with_its_cursor() {
    let place = Place::new();
    let told = Told::default();
    told.watch(&[1, 2], Some(Status::unavailable("stopping")));
    let _serving = place.serve(&told);
    let watch = watch(&place).await.patience(Duration::from_millis(50));
    let error = cursors(watch).await.unwrap_err();
    assert!(matches!(error, Error::Lost { cursor: 2, .. }), "{error}");
    assert!(error.to_string().contains("--cursor 2"), "{error}");
}

#[tokio::test]
async fn watch_finds_a_restarted_server() {
    let place = Place::new();
    let told = Told::default();
    told.watch(&[1, 2], Some(Status::unavailable("stopping")));
    let serving = place.serve(&told);
    let (broke, mut broken) = tokio::sync::mpsc::unbounded_channel();
    let mut watch = watch(&place).await.on_break(move |error| {
        let absent = matches!(error, Error::Absent { .. });
        broke.send(absent).unwrap_or_default();
    });
    assert_eq!(watch.next().await.unwrap().unwrap().cursor, 1);
    serving.kill().await;
    std::fs::remove_file(place.socket()).unwrap();
    let rest = tokio::spawn(cursors(watch));
    // Start the next server only after the watch has found no server.
    while broken.recv().await == Some(false) {}
    told.scripts.lock().unwrap().clear();
    told.watch(&[2, 3, 4, 5, 6], None);
    let _again = place.serve(&told);
    assert_eq!(rest.await.unwrap().unwrap().last(), Some(&LAST));
}

#[tokio::test]
async fn dropped_wait_for_an_event_can_resume() {
    let place = Place::new();
    let told = Told::default();
    told.watch(&[1], Some(Status::unavailable("stopping")))
        .watch(&[2, 3], Some(Status::unavailable("stopping")))
        .watch(&[4, 5, 6], None);
    let _serving = place.serve(&told);
    let mut watch = watch(&place).await;
    let mut seen = Vec::new();
    loop {
        tokio::select! {
            biased;
            event = watch.next() => match event {
                Some(event) => seen.push(event.unwrap().cursor),
                None => break,
            },
            // This branch is always ready, so it drops the future of the other branch each time.
            () = tokio::task::yield_now() => {}
        }
    }
    assert_eq!(seen, whole());
}
