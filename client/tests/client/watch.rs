//! A watcher gets each event once, in order, whatever happens to its connection.

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
async fn a_watcher_goes_on_from_its_last_event_when_a_stream_breaks_or_closes() {
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
async fn an_event_that_comes_again_is_dropped_and_one_that_is_missing_is_fetched() {
    let place = Place::new();
    let told = Told::default();
    told.watch(&[1, 1, 2, 1, 2, 4], None).watch(&[2, 3, 4, 5, 6], None);
    let _serving = place.serve(&told);
    assert_eq!(cursors(watch(&place).await).await.unwrap(), whole());
    assert_eq!(*told.watched.lock().unwrap(), [0, 2]);
}

#[tokio::test]
async fn events_that_the_server_has_lost_are_an_error_and_not_passed_over() {
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
async fn a_watcher_that_has_seen_the_end_already_gets_nothing_and_no_error() {
    let place = Place::new();
    let told = Told::default();
    *told.ended.lock().unwrap() = true;
    told.watch(&[], None).watch(&[], None);
    let _serving = place.serve(&told);
    let watch = Client::connect(place.address()).await.unwrap().watch(&run(), LAST);
    assert_eq!(cursors(watch).await.unwrap(), [0_u64; 0]);
}

#[tokio::test]
async fn a_run_that_ends_while_a_stream_closes_is_still_seen_to_end() {
    let place = Place::new();
    let told = Told::default();
    *told.ended.lock().unwrap() = true;
    told.watch(&[1, 2, 3], None).watch(&[4, 5, 6], None);
    let _serving = place.serve(&told);
    assert_eq!(cursors(watch(&place).await).await.unwrap(), whole());
}

#[tokio::test]
async fn a_run_that_does_not_exist_is_an_error_at_once() {
    let place = Place::new();
    let told = Told::default();
    told.watch(&[], Some(Status::not_found("there is no run 1")));
    let _serving = place.serve(&told);
    let error = cursors(watch(&place).await).await.unwrap_err();
    assert!(matches!(error, Error::NotFound(_)), "{error}");
}

#[tokio::test]
async fn a_server_that_stays_away_ends_the_watch_with_the_cursor_to_go_on_from() {
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
async fn a_server_that_is_killed_and_started_again_is_found_again() {
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
    // The next server comes only when the watcher has found that there is none.
    while broken.recv().await == Some(false) {}
    told.scripts.lock().unwrap().clear();
    told.watch(&[2, 3, 4, 5, 6], None);
    let _again = place.serve(&told);
    assert_eq!(rest.await.unwrap().unwrap().last(), Some(&LAST));
}

#[tokio::test]
async fn a_wait_for_an_event_may_be_given_up_and_taken_up_again() {
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
            // Ready at once: whatever the watcher waited for is dropped each time.
            () = tokio::task::yield_now() => {}
        }
    }
    assert_eq!(seen, whole());
}
