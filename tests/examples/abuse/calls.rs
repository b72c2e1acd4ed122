//! Attacks with gRPC calls: malformed, oversized and forged messages, and calls without permission.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit};
use prost::Message;
use prost_types::FileDescriptorSet;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};
use verbatim_client::{Client, fresh_id, v1};
use verbatim_lab::campaign::Dice;
use verbatim_proto::DESCRIPTORS;

use crate::Came;
use crate::house::House;

/// Time that an attack waits for a call to end. Some calls never end, for example a watch.
const PATIENCE: Duration = Duration::from_millis(250);

/// A codec that passes bytes unchanged.
#[derive(Clone, Copy, Debug, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        prost::bytes::BufMut::put_slice(to, &item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let length = prost::bytes::Buf::remaining(from);
        Ok(Some(prost::bytes::Buf::copy_to_bytes(from, length).to_vec()))
    }
}

async fn call(channel: Channel, path: &str, body: Vec<u8>) -> Result<Vec<u8>, Status> {
    let mut grpc = Grpc::new(channel);
    let ready = grpc.ready().await;
    ready.map_err(|error| Status::unavailable(error.to_string()))?;
    let path: PathAndQuery = path.parse().map_err(|_| Status::invalid_argument("path"))?;
    grpc.unary(Request::new(body), path, Raw)
        .await
        .map(tonic::Response::into_inner)
}

/// Returns the path of every call that the daemon serves.
fn methods() -> anyhow::Result<Vec<String>> {
    let files = FileDescriptorSet::decode(DESCRIPTORS)?;
    let mut methods = Vec::new();
    for file in &files.file {
        for service in &file.service {
            let of = |method: &prost_types::MethodDescriptorProto| {
                format!("/{}.{}/{}", file.package(), service.name(), method.name())
            };
            methods.extend(service.method.iter().map(of));
        }
    }
    Ok(methods)
}

/// Returns messages, each valid for one of the calls.
fn samples() -> Vec<Vec<u8>> {
    let spec = v1::RunSpec {
        rig: "a".into(),
        patterns: vec!["c14-024-node-info".into()],
        ..v1::RunSpec::default()
    };
    let run = v1::CreateRunRequest {
        request_id: "x".into(),
        spec: Some(spec),
        ..v1::CreateRunRequest::default()
    };
    let lease = v1::CreateLeaseRequest {
        rig: "b".into(),
        lasts_s: 1,
        ..v1::CreateLeaseRequest::default()
    };
    let list = v1::ListRunsRequest {
        page_size: 10,
        page_token: "019a3c5e77d1-0000.0000000000000000".into(),
        filter: "rig = \"a\" AND state = ENDED".into(),
    };
    let name = v1::GetRunRequest {
        name: "runs/019a3c5e77d1-0000".into(),
    };
    vec![
        run.encode_to_vec(),
        lease.encode_to_vec(),
        list.encode_to_vec(),
        name.encode_to_vec(),
    ]
}

/// Sends slightly altered messages and misspelt calls as the daemon's owner, on many streams of few connections.
pub(crate) async fn messages(house: &Arc<House>, seed: u64, requests: u64, until: Instant) -> anyhow::Result<Came> {
    let (methods, samples) = (Arc::new(methods()?), Arc::new(samples()));
    let sent = Arc::new(AtomicU64::new(0));
    let mut all = JoinSet::new();
    for number in 0..64 {
        let channel = house.owner()?;
        let (methods, samples, sent) = (Arc::clone(&methods), Arc::clone(&samples), Arc::clone(&sent));
        all.spawn(async move {
            let mut dice = Dice::of(seed, number);
            while Instant::now() < until && sent.fetch_add(1, Ordering::Relaxed) < requests {
                let mut body = samples[dice.below(samples.len())].clone();
                for _ in 0..dice.below(4) {
                    match (dice.below(3), dice.below(body.len().max(1))) {
                        (0, place) if place < body.len() => body[place] ^= 1 << (dice.byte() % 8),
                        (1, place) => body.insert(place.min(body.len()), dice.byte()),
                        (_, place) => body.truncate(place),
                    }
                }
                let mut path = methods[dice.below(methods.len())].clone();
                if dice.percent(5) {
                    path.push(char::from(b'a' + dice.byte() % 26));
                }
                let _ = timeout(PATIENCE, call(channel.clone(), &path, body)).await;
            }
        });
    }
    all.join_all().await;
    Ok(Came {
        requests: sent.load(Ordering::Relaxed).min(requests),
        ..Came::default()
    })
}

/// Sends messages far larger than any valid message.
pub(crate) async fn large(house: &Arc<House>, until: Instant) -> anyhow::Result<Came> {
    let long = "*c*".repeat(1_300_000);
    let patterns = v1::ListTestsRequest {
        patterns: vec![long.clone()],
    };
    let parameters = v1::CreateRunRequest {
        request_id: fresh_id(),
        spec: Some(v1::RunSpec {
            rig: "a".into(),
            patterns: vec!["c14-024-node-info".into()],
            parameters: (0..200_000).map(|number| (format!("p{number}"), number)).collect(),
            ..v1::RunSpec::default()
        }),
        ..v1::CreateRunRequest::default()
    };
    let list = v1::ListRunsRequest {
        filter: long,
        ..v1::ListRunsRequest::default()
    };
    let bodies = [
        ("/verbatim.v1.CatalogService/ListTests", patterns.encode_to_vec()),
        ("/verbatim.v1.RunService/CreateRun", parameters.encode_to_vec()),
        ("/verbatim.v1.RunService/ListRuns", list.encode_to_vec()),
        ("/verbatim.v1.RunService/CreateRun", vec![0x0A; 64 << 20]),
    ];
    let mut came = Came::default();
    while Instant::now() < until {
        let mut all = JoinSet::new();
        for (path, body) in &bodies {
            for _ in 0..3 {
                let (channel, path, body) = (house.owner()?, *path, body.clone());
                all.spawn(async move { timeout(Duration::from_secs(30), call(channel, path, body)).await });
            }
        }
        for answered in all.join_all().await {
            came.requests += 1;
            // The daemon must refuse each of these messages, so a success counts as wrong access.
            came.let_in += u64::from(matches!(answered, Ok(Ok(_))));
        }
    }
    Ok(came)
}

/// Lets two operators send patterns and parameters whose check takes much time, many calls at a time.
pub(crate) async fn costly(house: &Arc<House>, until: Instant) -> anyhow::Result<Came> {
    let run = |patterns: Vec<String>| v1::RunSpec {
        rig: "a".into(),
        patterns,
        parameters: (0..1000).map(|number| (format!("p{number}"), number)).collect(),
        ..v1::RunSpec::default()
    };
    let specs = Arc::new([
        run((0..1000).map(|number| format!("c14-wlak-{number:05}")).collect()),
        run((0..50).map(|number| format!("c14-wlak-{number}")).collect()),
        run(vec!["*c*1*4*-*".repeat(22); 50]),
        run(vec!["ports".into(); 50]),
    ]);
    let sent = Arc::new(AtomicU64::new(0));
    let mut all = JoinSet::new();
    for number in 0..64 {
        let client = house.client(if number % 2 == 0 { "alice" } else { "bob" }).await?;
        let (specs, sent) = (Arc::clone(&specs), Arc::clone(&sent));
        all.spawn(async move {
            let mut let_in = 0;
            for spec in specs.iter().cycle() {
                if Instant::now() > until {
                    break;
                }
                let made = timeout(PATIENCE * 40, client.create_run(&fresh_id(), spec)).await;
                let_in += u64::from(matches!(made, Ok(Ok(_))));
                sent.fetch_add(1, Ordering::Relaxed);
            }
            let_in
        });
    }
    Ok(Came {
        let_in: all.join_all().await.into_iter().sum(),
        requests: sent.load(Ordering::Relaxed),
    })
}

/// Reads the capture of a run many times at once. Most readers leave before its end.
pub(crate) async fn captures(house: &Arc<House>, until: Instant) -> anyhow::Result<Came> {
    let alice = house.client("alice").await?;
    let spec = v1::RunSpec {
        rig: "a".into(),
        patterns: vec!["c14-016-*".into()],
        ..v1::RunSpec::default()
    };
    let run = alice.create_run(&fresh_id(), &spec).await?;
    let mut watch = alice.watch(&run.name.parse()?, 0);
    while watch.next().await.transpose()?.is_some() {}
    let body = v1::ReadArtifactRequest {
        name: run.name.clone(),
        artifact: "run.pcapng".into(),
    };
    let (body, mut all, mut came) = (body.encode_to_vec(), JoinSet::new(), Came::default());
    // The run may have taken most of the time.
    let until = until.max(Instant::now() + Duration::from_secs(3));
    while Instant::now() < until {
        while all.len() < 64 {
            let (channel, body) = (house.owner()?, body.clone());
            let stays = came.requests % 4 == 0;
            came.requests += 1;
            all.spawn(async move {
                let mut grpc = Grpc::new(channel);
                let path = PathAndQuery::from_static("/verbatim.v1.RunService/ReadArtifact");
                let read = async {
                    grpc.ready().await.ok()?;
                    let mut stream = grpc
                        .server_streaming(Request::new(body), path, Raw)
                        .await
                        .ok()?
                        .into_inner();
                    while stream.message().await.ok()?.is_some() {}
                    Some(())
                };
                let patience = if stays { PATIENCE * 40 } else { PATIENCE / 10 };
                timeout(patience, read).await
            });
        }
        all.join_next().await;
    }
    Ok(came)
}

/// Opens watches and downloads, and never reads their responses.
pub(crate) async fn slow_readers(house: &Arc<House>, until: Instant) -> anyhow::Result<Came> {
    let owner = house.client("client").await?;
    let spec = v1::RunSpec {
        rig: "virtual".into(),
        patterns: vec!["c14-016-*".into()],
        ..v1::RunSpec::default()
    };
    let run = owner.create_run(&fresh_id(), &spec).await?;
    let name = run.name.parse()?;
    let mut watch = owner.watch(&name, 0);
    while watch.next().await.transpose()?.is_some() {}
    let mut held = Vec::new();
    let mut came = Came::default();
    for _ in 0..100 {
        let channel = house.owner()?;
        for (path, body) in [
            (
                "/verbatim.v1.RunService/WatchRun",
                v1::WatchRunRequest {
                    name: run.name.clone(),
                    cursor: 0,
                }
                .encode_to_vec(),
            ),
            ("/verbatim.v1.RigService/WatchRigs", Vec::new()),
            (
                "/verbatim.v1.RunService/ReadArtifact",
                v1::ReadArtifactRequest {
                    name: run.name.clone(),
                    artifact: "run.pcapng".into(),
                }
                .encode_to_vec(),
            ),
        ] {
            let mut grpc = Grpc::new(channel.clone());
            let ready = timeout(PATIENCE, grpc.ready()).await;
            if !matches!(ready, Ok(Ok(()))) {
                continue;
            }
            let path: PathAndQuery = path.parse()?;
            let asked = grpc.server_streaming(Request::new(body), path, Raw);
            came.requests += 1;
            if let Ok(Ok(stream)) = timeout(PATIENCE, asked).await {
                held.push(stream);
            }
        }
    }
    sleep_until(until).await;
    drop(held);
    Ok(came)
}

/// Sends made-up names, cursors and tokens.
pub(crate) async fn forged(house: &Arc<House>) -> anyhow::Result<Came> {
    let channel = house.owner()?;
    let mut came = Came::default();
    for name in [
        "runs/../../etc/passwd",
        "runs/",
        "",
        "runs/\0",
        "runs/019a3c5e77d1-0000/../x",
        "leases/1",
        "rigs/a",
        "\u{202e}",
    ] {
        let asks = [
            (
                "RunService/GetRun",
                v1::GetRunRequest { name: name.into() }.encode_to_vec(),
            ),
            (
                "RunService/WatchRun",
                v1::WatchRunRequest {
                    name: name.into(),
                    cursor: u64::MAX,
                }
                .encode_to_vec(),
            ),
            (
                "RunService/DeleteRun",
                v1::DeleteRunRequest { name: name.into() }.encode_to_vec(),
            ),
            (
                "LeaseService/EndLease",
                v1::EndLeaseRequest { name: name.into() }.encode_to_vec(),
            ),
            (
                "LeaseService/RenewLease",
                v1::RenewLeaseRequest {
                    name: name.into(),
                    lasts_s: u64::MAX,
                }
                .encode_to_vec(),
            ),
            (
                "RunService/ReadArtifact",
                v1::ReadArtifactRequest {
                    name: name.into(),
                    artifact: "../../../etc/passwd".into(),
                }
                .encode_to_vec(),
            ),
            (
                "RunService/ListRuns",
                v1::ListRunsRequest {
                    page_token: format!("{name}x"),
                    ..Default::default()
                }
                .encode_to_vec(),
            ),
        ];
        for (path, body) in asks {
            came.requests += 1;
            let answered = timeout(
                Duration::from_secs(10),
                call(channel.clone(), &format!("/verbatim.v1.{path}"), body),
            )
            .await;
            let answered = answered.with_context(|| format!("{path} of {name:?} hangs"))?;
            came.let_in += u64::from(answered.is_ok());
        }
    }
    Ok(came)
}

/// Tries calls without permission, as a viewer, as an identity without a role, and as another operator.
pub(crate) async fn not_theirs(house: &Arc<House>) -> anyhow::Result<Came> {
    let alice = house.client("alice").await?;
    let lease = v1::CreateLeaseRequest {
        request_id: fresh_id(),
        rig: "b".into(),
        lasts_s: 600,
        ..v1::CreateLeaseRequest::default()
    };
    let lease = alice.create_lease(&lease).await?;
    let spec = v1::RunSpec {
        rig: "b".into(),
        patterns: vec!["c14-024-node-info".into()],
        ..v1::RunSpec::default()
    };
    let under = v1::CreateRunRequest {
        request_id: fresh_id(),
        spec: Some(spec.clone()),
        lease: lease.name.clone(),
        ..v1::CreateRunRequest::default()
    };
    let run = alice.create_run_under(under.clone()).await?;
    let (run, lease) = (run.name.parse()?, lease.name.parse()?);
    let (mut came, rig) = (Came::default(), "b".parse()?);
    for who in ["viewer", "nobody", "bob"] {
        let other: Client = house.client(who).await?;
        let mut tried = vec![
            other.end_lease(&lease).await.map(drop),
            other.renew_lease(&lease, Duration::from_secs(900)).await.map(drop),
            other.cancel_run(&run).await.map(drop),
            other.pin_run(&run, true).await.map(drop),
            other.delete_run(&run).await.map(drop),
            other.restore_rig(&rig).await.map(drop),
            other.drain_rig(&rig, "mine").await.map(drop),
            other.reload_rigs().await.map(drop),
            other
                .create_run_under(v1::CreateRunRequest {
                    request_id: fresh_id(),
                    ..under.clone()
                })
                .await
                .map(drop),
        ];
        if who != "bob" {
            tried.push(other.create_run(&fresh_id(), &spec).await.map(drop));
        }
        for answer in tried {
            came.requests += 1;
            came.let_in += u64::from(answer.is_ok());
        }
    }
    alice.end_lease(&lease).await?;
    Ok(came)
}

/// Connects with unacceptable certificates, without a certificate, and without TLS.
pub(crate) async fn certificates(house: &Arc<House>) -> anyhow::Result<Came> {
    let mut came = Came::default();
    let of = |ca: &str, name: &str| [format!("{ca}/ca.pem"), format!("{name}.pem"), format!("{name}-key.pem")];
    for (what, [ca, cert, key]) in [
        ("revoked", of("pki", "pki/mallory")),
        ("another CA's", of("pki", "foreign/client")),
        ("the server's", of("pki", "pki/server")),
        ("a server of another CA", of("foreign", "pki/alice")),
    ] {
        let mut command = house.verbatim();
        command
            .args([
                "--server",
                &format!("https://{}", house.tls),
                "--ca",
                &ca,
                "--cert",
                &cert,
                "--key",
                &key,
                "rigs",
            ])
            .stdin(Stdio::null());
        came.count(what, tokio::process::Command::from(command).output().await?);
    }
    let mut none = house.verbatim();
    none.args([
        "--server",
        &format!("https://{}", house.tls),
        "--ca",
        "pki/ca.pem",
        "rigs",
    ]);
    came.count("none", tokio::process::Command::from(none).output().await?);
    let mut plain = house.verbatim();
    plain.args(["--server", &format!("http://{}", house.tls), "rigs"]);
    came.count("no TLS", tokio::process::Command::from(plain).output().await?);
    Ok(came)
}

impl Came {
    /// Counts a client that the daemon must refuse with a reason.
    fn count(&mut self, what: &str, output: std::process::Output) {
        self.requests += 1;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() || said.trim().is_empty() {
            println!("{what}: {} {said}", output.status);
            self.let_in += 1;
        }
    }
}

/// Returns the number of connections that this process may open, from its limit of file descriptors.
pub(crate) fn connections_at_most() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(500, |(now, _)| now.saturating_sub(500))
}
