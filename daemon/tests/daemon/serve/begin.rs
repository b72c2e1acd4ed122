//! The start of a daemon: stored data, errors, and recovery after crashes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use rustix::process::Signal;
use tonic::Code;
use verbatim_proto::v1::{
    DeleteRunRequest, DrainRigRequest, GetRigRequest, ListRunsRequest, PinRunRequest, WatchRigsRequest,
};

use super::harness::{Bench, Daemon, request, verbatimd, within};

#[tokio::test]
async fn runs_survive_a_restart() {
    let bench = Bench::new();
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    let run = clients.create(request("virtual", &["C14-16"])).await;
    let events = clients.watch(&run.name, 0).await.rest().await;
    let before = clients.get(&run.name).await;
    drop(clients);
    assert!(daemon.end(Signal::TERM).await.success());
    assert!(!bench.path("socket").exists());
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    assert_eq!(clients.get(&run.name).await, before);
    assert_eq!(clients.watch(&run.name, 0).await.rest().await, events);
}

#[tokio::test]
async fn refuses_damaged_or_foreign_database() {
    let bench = Bench::new();
    bench.serve();
    let database = bench.path("state/verbatim.db");
    let refused = |words: [&str; 2]| {
        let refused = bench.command().output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(3), "{said}");
        for words in words {
            assert!(said.contains(words), "{words} in {said}");
        }
    };
    // When `opened` is dropped, SQLite moves all data from the write-ahead log into the database file, which this test
    // reads.
    let version = |version: u32| {
        let opened = rusqlite::Connection::open(&database).unwrap();
        let found = opened.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0));
        opened.pragma_update(None, "user_version", version).unwrap();
        found.unwrap()
    };
    let ours = version(99);
    refused(["verbatim.db has tables of version 99", "use that one"]);
    assert_eq!(version(ours - 1), 99);
    refused(["before release 0.1.0", "move the database away"]);
    assert_eq!(version(ours), ours - 1);
    let whole = fs::read(&database).unwrap();
    let junk: Vec<u8> = whole.iter().map(|byte| byte ^ 0x55).collect();
    fs::write(&database, &junk).unwrap();
    refused(["verbatim.db is damaged", "put a backup of it in its place"]);
    assert_eq!(fs::read(&database).unwrap(), junk);
}

#[tokio::test]
async fn owner_pins_and_deletes_run() {
    let bench = Bench::new();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let run = clients.create(request("virtual", &["c14-024-node-info"])).await;
    clients.ended(&run.name).await;
    let pin = |pinned| PinRunRequest {
        name: run.name.clone(),
        pinned,
    };
    let delete = || DeleteRunRequest { name: run.name.clone() };
    let pinned = clients.runs.pin_run(pin(true)).await.unwrap().into_inner().run.unwrap();
    assert!(pinned.pinned);
    let refused = clients.runs.delete_run(delete()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    assert!(refused.message().contains("is pinned"), "{}", refused.message());
    assert!(
        !clients
            .runs
            .pin_run(pin(false))
            .await
            .unwrap()
            .into_inner()
            .run
            .unwrap()
            .pinned
    );
    let files = bench
        .path("state/runs/virtual")
        .join(run.name.trim_start_matches("runs/"));
    assert!(files.join("record/manifest.json").exists());
    clients.runs.delete_run(delete()).await.unwrap();
    assert!(!files.exists());
    let gone = clients.runs.delete_run(delete()).await.unwrap_err();
    assert_eq!(gone.code(), tonic::Code::NotFound);
    let listed = clients.runs.list_runs(ListRunsRequest::default()).await.unwrap();
    assert_eq!(listed.into_inner().runs, []);
}

#[tokio::test]
async fn refuses_a_second_daemon() {
    let bench = Bench::new();
    let daemon = bench.serve();
    let pid = daemon.child.id().to_string();
    for (socket, state, expected) in [
        ("socket", "other", "the socket "),
        ("other", "state", "the state directory "),
    ] {
        let mut command = verbatimd();
        command
            .args(["serve", "--socket"])
            .arg(bench.path(socket))
            .arg("--state")
            .arg(bench.path(state));
        let second = command.output().unwrap();
        let said = String::from_utf8_lossy(&second.stderr);
        assert_eq!(second.status.code(), Some(3), "{said}");
        for words in [expected, "in use by another daemon", &pid] {
            assert!(said.contains(words), "{words} in {said}");
        }
    }
    bench.clients().await;
}

#[tokio::test]
async fn replaces_socket_of_killed_daemon() {
    let bench = Bench::new();
    let mut daemon = bench.serve();
    daemon.end(Signal::KILL).await;
    assert!(bench.path("socket").exists());
    let _daemon = bench.serve();
    let mode = fs::metadata(bench.path("socket")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    bench.clients().await;
}

#[test]
fn refuses_unusable_socket_paths() {
    let bench = Bench::new();
    let _foreign = UnixListener::bind(bench.path("foreign")).unwrap();
    fs::write(bench.path("file"), "mine").unwrap();
    for (socket, expected) in [
        ("foreign", "in use"),
        ("file", "is not a socket"),
        ("file/below", "cannot be used"),
    ] {
        let mut command = verbatimd();
        command
            .args(["serve", "--socket"])
            .arg(bench.path(socket))
            .arg("--state")
            .arg(bench.path("state"));
        let refused = command.output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(3), "{said}");
        assert!(
            said.contains(expected) && said.contains("--socket"),
            "{expected} in {said}"
        );
    }
    assert_eq!(fs::read_to_string(bench.path("file")).unwrap(), "mine");
}

#[tokio::test]
async fn notifies_the_service_manager() {
    let bench = Bench::new();
    let manager = std::os::unix::net::UnixDatagram::bind(bench.path("notify")).unwrap();
    let mut command = verbatimd();
    command
        .arg("serve")
        .env("RUNTIME_DIRECTORY", bench.path("run"))
        .env("STATE_DIRECTORY", bench.path("state"))
        .env("NOTIFY_SOCKET", bench.path("notify"))
        .env("JOURNAL_STREAM", "8:1");
    let mut daemon = Daemon::start(&mut command);
    assert!(
        daemon.said[0].trim_start().starts_with("INFO serving"),
        "no time of its own: {:?}",
        daemon.said
    );
    super::harness::Clients::connect(&bench.path("run/verbatim.sock")).await;
    let mut heard = [0; 32];
    let length = manager.recv(&mut heard).unwrap();
    assert_eq!(&heard[..length], b"READY=1\n");
    assert!(daemon.end(Signal::INT).await.success());
    let length = manager.recv(&mut heard).unwrap();
    assert_eq!(&heard[..length], b"STOPPING=1\n");
}

#[test]
fn check_config_names_line_and_column() {
    let bench = Bench::new();
    let check = |path: &std::path::Path| {
        verbatimd()
            .arg("check-config")
            .arg("--rig-file")
            .arg(path)
            .output()
            .unwrap()
    };
    let good = check(&bench.path("rigs.toml"));
    let said = String::from_utf8_lossy(&good.stdout);
    assert!(
        good.status.success() && said.contains("model") && said.contains("virtual"),
        "{said}"
    );
    let wrong = bench.path("wrong.toml");
    fs::write(&wrong, "config_version = 1\n[[rig]]\nname = \"a\"\nkind = \"umadd\"\n").unwrap();
    let bad = check(&wrong);
    let said = String::from_utf8_lossy(&bad.stderr);
    assert!(
        bad.status.code() == Some(2) && said.contains("wrong.toml:4:8"),
        "{said}"
    );
    let refused = verbatimd().arg("serve").arg("--rig-file").arg(&wrong).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

#[tokio::test]
async fn idle_connections_lock_out_no_client() {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    let bench = Bench::new();
    let _daemon = bench.serve();
    let mut before = bench.clients().await;
    let mut idle: Vec<UnixStream> = (0..400)
        .map(|_| UnixStream::connect(bench.path("socket")).unwrap())
        .collect();
    let mut clients = bench.clients().await;
    assert_eq!(clients.rig("rigs/virtual").await.kind, "virtual");
    // Above the limit, the daemon closes the connections with the longest silence. The first idle connection is
    // among them, so a read to its end returns.
    let ended = tokio::task::spawn_blocking(move || idle[0].read_to_end(&mut Vec::new()));
    within(ended).await.unwrap().unwrap();
    // The daemon has also closed the connection of the first client, which has been silent even longer. A call
    // that the client sends before it notices the close fails. The client then reconnects for the next call.
    let name = || GetRigRequest {
        name: "rigs/virtual".into(),
    };
    let rig = match within(before.rigs.get_rig(name())).await {
        Err(ended) if ended.code() == Code::Unknown => within(before.rigs.get_rig(name())).await,
        answered => answered,
    };
    assert_eq!(rig.unwrap().into_inner().rig.unwrap().kind, "virtual");
}

/// Responds to pings until the connection ends, and makes no call. Returns the number of GOAWAY frames (RFC 9113 6.8).
fn answers_until_the_end(mut to: std::os::unix::net::UnixStream) -> usize {
    use std::io::{Read, Write};
    const SETTINGS: u8 = 4;
    const PING: u8 = 6;
    const GOAWAY: u8 = 7;
    const ACK: u8 = 1;
    to.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    to.write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]).unwrap();
    let (mut goodbyes, mut head) = (0, [0; 9]);
    while to.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        to.read_exact(&mut payload).unwrap();
        match (head[3], head[4] & ACK) {
            (PING, 0) => {
                to.write_all(&[0, 0, 8, PING, ACK, 0, 0, 0, 0]).unwrap();
                to.write_all(&payload).unwrap();
            }
            (SETTINGS, 0) => to.write_all(&[0, 0, 0, SETTINGS, ACK, 0, 0, 0, 0]).unwrap(),
            (GOAWAY, _) => goodbyes += 1,
            _ => {}
        }
    }
    goodbyes
}

/// Sends one call of ListRigs with this header block in HTTP/2, and returns the first frame that answers it: the type, and
/// the content.
fn first_frame(socket: &std::path::Path, authority: &[u8]) -> (u8, Vec<u8>) {
    use std::io::{Read, Write};
    const PATH: &[u8] = b"/verbatim.v1.RigService/ListRigs";
    let mut to = std::os::unix::net::UnixStream::connect(socket).unwrap();
    // :method POST, :scheme http, :path, then content-type and te without a table.
    let mut block = vec![0x83, 0x86, 0x04, PATH.len() as u8];
    block.extend(PATH);
    block.extend(authority);
    for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
        block.extend([0, name.len() as u8]);
        block.extend(name.bytes());
        block.push(value.len() as u8);
        block.extend(value.bytes());
    }
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    sent.extend([0, 0, block.len() as u8, 1, 4, 0, 0, 0, 1]);
    sent.extend(block);
    // An empty message ends the stream.
    sent.extend([0, 0, 5, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
    to.write_all(&sent).unwrap();
    let mut head = [0; 9];
    loop {
        to.read_exact(&mut head).expect("an answer");
        let mut content = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        to.read_exact(&mut content).unwrap();
        // HEADERS or RST_STREAM
        if head[8] == 1 && matches!(head[3], 1 | 3) {
            return (head[3], content);
        }
    }
}

#[test]
fn path_of_the_socket_is_accepted_as_authority() {
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    let bench = Bench::new();
    let mut daemon = bench.serve();
    let spelled = |value: &str| [b"\x40\x0A:authority", &[value.len() as u8][..], value.as_bytes()].concat();
    let numbered = |value: &str| [&[0x41, value.len() as u8], value.as_bytes()].concat();
    // grpcurl and grpc-java: "/run/s" in Huffman codes.
    let huffman = [0x41, 0x85, 0x62, 0xcb, 0x6a, 0x61, 0x1f];
    let path = bench.path("socket").display().to_string();
    let encoded = path.replace('/', "%2F");
    for (client, authority) in [
        ("grpcio to 1.57", spelled("localhost")),
        ("grpcio since 1.58", spelled(&encoded)),
        ("the same with an absolute path", numbered(&encoded)),
        ("grpc-go and grpc-java", numbered(&path)),
        ("Huffman codes", huffman.to_vec()),
        ("none", Vec::new()),
    ] {
        let (kind, content) = first_frame(&bench.path("socket"), &authority);
        // The first field of the response is `:status: 200`.
        assert_eq!((kind, content[0]), (HEADERS, 0x88), "{client}");
    }
    assert!(!daemon.said.iter().any(|line| line.contains("authority")));
    let (kind, _) = first_frame(&bench.path("socket"), &numbered("a<b"));
    assert_eq!(kind, RST_STREAM);
    let told = daemon.says("no host name");
    assert!(
        told.contains("a<b") && told.contains("grpc.default_authority"),
        "{told}"
    );
}

#[tokio::test]
async fn old_connection_ends_but_its_watch_goes_on() {
    use std::os::unix::net::UnixStream;
    let bench = Bench::new();
    fs::write(bench.path("c.toml"), "config_version = 1\n[limits]\nconnection_s = 1\n").unwrap();
    let _daemon = Daemon::start(bench.command().arg("--config").arg(bench.path("c.toml")));
    let mut clients = bench.clients().await;
    let mut watched = clients
        .rigs
        .watch_rigs(WatchRigsRequest::default())
        .await
        .unwrap()
        .into_inner();
    within(watched.message()).await.unwrap().unwrap();
    // This connection makes no calls, but still responds to pings.
    let idle = UnixStream::connect(bench.path("socket")).unwrap();
    let goodbyes = tokio::task::spawn_blocking(move || answers_until_the_end(idle));
    assert!(within(goodbyes).await.unwrap() > 0, "it was cut off");
    // The watcher's connection is as old, but its stream goes on. A new call on this connection may fail before it
    // is sent; a later call uses another connection.
    let unsent = [Code::Cancelled, Code::Unknown, Code::Unavailable];
    let mut drained = None;
    for _ in 0..3 {
        let request = DrainRigRequest {
            name: "rigs/model".into(),
            reason: "a look".into(),
        };
        match within(clients.rigs.drain_rig(request)).await {
            Ok(rig) => {
                drained = rig.into_inner().rig;
                break;
            }
            Err(status) => assert!(unsent.contains(&status.code()), "{status}"),
        }
    }
    assert_eq!(drained.unwrap().name, "rigs/model");
    let told = within(watched.message()).await.unwrap();
    assert!(told.is_some(), "the stream was cut off");
}
