//! The stream between daemon and worker.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use prost::Message;
use verbatim_proto::v1::RunEvent;
use verbatim_proto::worker::{FromWorker, Ping, Restore, Start, ToWorker, from_worker, to_worker};

use verbatim_run::Event;

use super::place::{LONG_TEST, Place, WAITS_AT, verbatimd};

/// A worker whose daemon is this test.
struct Bare {
    child: Child,
    stream: UnixStream,
    came: Vec<u8>,
}

impl Bare {
    fn start(place: &Place) -> Self {
        let path = place.path("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let child = verbatimd()
            .arg("worker")
            .arg("--connect")
            .arg(&path)
            .arg("--state")
            .arg(place.state.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut bare = Self {
            child,
            stream,
            came: Vec::new(),
        };
        let Some(from_worker::Message::Hello(hello)) = bare.next() else {
            panic!("no hello first");
        };
        assert_eq!(hello.pid, bare.child.id());
        bare
    }

    /// Returns the next message; `None` at the end of the stream.
    fn next(&mut self) -> Option<from_worker::Message> {
        loop {
            let mut rest = self.came.as_slice();
            if let Ok(message) = FromWorker::decode_length_delimited(&mut rest) {
                self.came = rest.to_vec();
                return message.message;
            }
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece).unwrap() {
                0 => return None,
                length => self.came.extend_from_slice(&piece[..length]),
            }
        }
    }

    fn send(&mut self, message: to_worker::Message) {
        let bytes = ToWorker { message: Some(message) }.encode_length_delimited_to_vec();
        self.stream.write_all(&bytes).unwrap();
    }

    fn end(self) -> Output {
        self.child.wait_with_output().unwrap()
    }
}

#[test]
fn worker_reports_invalid_messages() {
    let nothing = ToWorker { message: None }.encode_length_delimited_to_vec();
    for (junk, words) in [
        (&[0xFF; 8][..], "its length has more than 32 bits"),
        (&[0x80, 0x80, 0x80, 0x01, 0], "expected at most 1048576"),
        (&[3, 0xFF, 0xFF, 0xFF], "failed to decode"),
        (
            b"GET / HTTP/1.1\r\n\r\n and more than seventy-one bytes of what is no message of ours",
            "failed to decode",
        ),
        (&nothing, "of an unknown kind"),
    ] {
        let place = Place::of("kind = \"virtual\"\n");
        let mut worker = Bare::start(&place);
        worker.stream.write_all(junk).unwrap();
        let output = worker.end();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{junk:?}: {said}");
        assert!(
            said.contains("the daemon sent an invalid message") && said.contains(words),
            "{junk:?}: {said}"
        );
    }
}

#[test]
fn second_order_stops_and_restores() {
    let place = Place::new();
    let mut worker = Bare::start(&place);
    let job = place.job(&[LONG_TEST]);
    worker.send(to_worker::Message::Start(Start {
        rig: Some(job.text),
        spec: Some(job.spec),
        record: job.record.to_string_lossy().into(),
        run: job.run.to_string(),
        resume: None,
        lease: None,
    }));
    loop {
        match worker.next() {
            Some(from_worker::Message::Event(RunEvent {
                event: Some(Event::StepStarted(step)),
                ..
            })) if step.step == WAITS_AT => break,
            Some(from_worker::Message::Finished(_)) | None => panic!("it ended"),
            Some(_) => {}
        }
    }
    assert!(!place.is_as_found());
    worker.send(to_worker::Message::Restore(Restore::default()));
    let output = worker.end();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("a second task"), "{said}");
    assert!(place.is_as_found());
}

#[test]
fn idle_worker_responds_to_pings() {
    let place = Place::of("kind = \"virtual\"\n");
    let mut worker = Bare::start(&place);
    for number in [1, u64::MAX] {
        worker.send(to_worker::Message::Ping(Ping { number }));
        let Some(from_worker::Message::Pong(pong)) = worker.next() else {
            panic!("no pong");
        };
        assert_eq!(pong.number, number);
    }
    drop(worker.stream);
    let output = worker.child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn worker_without_daemon_reports_error() {
    let place = Place::of("kind = \"virtual\"\n");
    let output = verbatimd()
        .args(["worker", "--connect", "/absent/socket", "--state"])
        .arg(place.state.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(3) && said.contains("no daemon listens at /absent/socket"),
        "{said}"
    );
}
