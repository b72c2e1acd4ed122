//! Each error says what was expected, what was seen, where, and what to do next.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use crate::support::{Place, Told};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use verbatim_client::{Client, Error, RigName, RunName, fresh_id, v1};

async fn refused(place: &Place) -> Error {
    Client::connect(place.address()).await.unwrap_err()
}

#[tokio::test]
async fn tells_absent_dead_and_wrong_sockets_apart() {
    let place = Place::new();
    let absent = refused(&place).await;
    assert!(matches!(absent, Error::Absent { .. }), "{absent}");
    assert!(absent.to_string().contains("the socket does not exist") && absent.to_string().contains("verbatimd serve"));

    drop(UnixListener::bind(place.socket()).unwrap());
    let dead = refused(&place).await;
    assert!(matches!(dead, Error::Refused { .. }), "{dead}");
    assert!(dead.to_string().contains("has ended; start the daemon again"), "{dead}");

    std::fs::remove_file(place.socket()).unwrap();
    std::fs::write(place.socket(), "").unwrap();
    let file = refused(&place).await;
    assert!(matches!(file, Error::NoSocket { seen: "a file", .. }), "{file}");
}

#[test]
fn denied_socket_names_the_group_that_may() {
    let place = Place::new();
    let _listener = UnixListener::bind(place.socket()).unwrap();
    std::fs::set_permissions(place.socket(), std::fs::Permissions::from_mode(0o660)).unwrap();
    // The test may run as root, which is never denied, so create the error instead.
    let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    let words = Error::from_connect(&place.socket(), denied).to_string();
    assert!(words.contains("0660") && words.contains("group"), "{words}");
    let advice = ["usermod", "group id", "chgrp"];
    assert!(advice.iter().any(|advice| words.contains(advice)), "{words}");
}

#[tokio::test]
async fn refusal_carries_details_and_maps_its_code() {
    let place = Place::new();
    let told = Told::default();
    let _serving = place.serve(&told);
    let client = Client::connect(place.address()).await.unwrap();
    let run: RunName = "1".parse().unwrap();
    let refuse = async |status: Status| {
        *told.refusal.lock().unwrap() = Some(status);
        client.get_run(&run).await.unwrap_err()
    };

    let mut details = ErrorDetails::new();
    details.add_bad_request_violation("name", "expected runs/ID");
    let wrong = refuse(Status::with_error_details(
        Code::InvalidArgument,
        "no name of a run",
        details,
    ))
    .await;
    assert!(matches!(wrong, Error::Invalid(_)), "{wrong}");
    assert_eq!(wrong.to_string(), "no name of a run; name: expected runs/ID");

    let absent = refuse(Status::not_found("there is no run 1")).await;
    assert!(
        matches!(absent, Error::NotFound(_)) && !absent.is_transient(),
        "{absent}"
    );

    let stopping = refuse(Status::unavailable("the daemon stops")).await;
    assert!(
        stopping.is_transient() && stopping.to_string().contains("the daemon stops"),
        "{stopping}"
    );

    let failed = refuse(Status::internal("disk full")).await;
    assert!(matches!(failed, Error::Failed { .. }), "{failed}");
    assert!(failed.to_string().contains("disk full") && failed.to_string().contains("journalctl"));
}

#[tokio::test]
async fn missing_call_means_another_version() {
    let place = Place::new();
    let _serving = place.serve(&Told::default());
    let client = Client::connect(place.address()).await.unwrap();
    let rig: RigName = "virtual".parse().unwrap();
    let error = client.get_rig(&rig).await.unwrap_err();
    assert!(matches!(error, Error::Version { call: "GetRig", .. }), "{error}");
    assert!(error.to_string().contains("same version on both sides"), "{error}");
}

#[tokio::test]
async fn other_protocol_breaks_the_connection() {
    let place = Place::new();
    let listener = tokio::net::UnixListener::bind(place.socket()).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.try_write(b"SSH-2.0-OpenSSH_9.2\r\n");
        }
    });
    let client = Client::connect(place.address()).await.unwrap();
    let error = client.list_rigs().await.unwrap_err();
    assert!(matches!(error, Error::Broken { .. }), "{error:?}");
    assert!(error.to_string().contains("check that verbatimd listens"), "{error}");
}

#[tokio::test]
async fn retried_run_creation_keeps_its_request_id() {
    let place = Place::new();
    let told = Told::default();
    let _serving = place.serve(&told);
    let client = Client::connect(place.address()).await.unwrap();
    let (id, spec) = (fresh_id(), v1::RunSpec::default());
    assert_eq!(client.create_run(&id, &spec).await.unwrap().name, "runs/1");
    assert_eq!(*told.created.lock().unwrap(), vec![id; 3]);
}

#[tokio::test]
async fn file_arrives_whole_and_never_longer() {
    let place = Place::new();
    let _serving = place.serve(&Told::default());
    let client = Client::connect(place.address()).await.unwrap();
    let reader = client.read_artifact(&"1".parse().unwrap(), "run.json").await.unwrap();
    let mut file = Vec::new();
    assert_eq!(reader.copy_to(&mut file, 7).await.unwrap(), 7);
    assert_eq!(file, b"one two");
    // A daemon that sends more than it announced is left at once.
    for most in [0, 6] {
        let reader = client.read_artifact(&"1".parse().unwrap(), "run.json").await.unwrap();
        let mut file = Vec::new();
        let error = reader.copy_to(&mut file, most).await.unwrap_err();
        assert!(matches!(&error, Error::TooLong { .. }), "{error}");
        assert!(file.len() as u64 <= most, "{file:?}");
    }
}
