//! Runs on the virtual rig: create, get, list, watch, artifacts.

use std::collections::BTreeSet;

use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use verbatim_proto::v1::run_event::Event;
use verbatim_proto::v1::{
    CreateRunRequest, ListArtifactsRequest, ListRigsRequest, ListRunsRequest, ListStatementsRequest, ListTestsRequest,
    Outcome, ReadArtifactRequest, RestoreRigRequest, Run, RunSpec, RunState,
};

use super::harness::{Bench, Clients, asked, is_ended, is_idle, request, spec, within};

const SHORT_TEST: &str = "c14-024-node-info";

#[tokio::test]
async fn lists_catalogue_and_rigs() {
    let mut bench = Bench::new();
    bench.start_model();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let tests = clients
        .catalog
        .list_tests(ListTestsRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(tests.tests.len(), verbatim_catalog::TESTS.len());
    assert!(
        tests
            .tests
            .iter()
            .any(|test| !test.parameters.is_empty() && !test.needs.is_empty())
    );
    let statements = clients.catalog.list_statements(ListStatementsRequest {}).await.unwrap();
    assert_eq!(
        statements.into_inner().statements.len(),
        verbatim_catalog::statements().len()
    );
    let rigs = clients
        .rigs
        .list_rigs(ListRigsRequest {})
        .await
        .unwrap()
        .into_inner()
        .rigs;
    let names: Vec<_> = rigs.iter().map(|rig| rig.name.as_str()).collect();
    assert_eq!(names, ["rigs/model", "rigs/virtual"]);
    assert!(rigs.iter().all(is_idle));
}

#[tokio::test]
async fn whole_catalogue_gets_verdicts_and_report() {
    let bench = Bench::new();
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    let created = clients
        .create(asked(RunSpec {
            parameters: [("illegal_parts".to_string(), 64)].into(),
            ..spec("virtual", &[])
        }))
        .await;
    assert_eq!(created.tests.len(), verbatim_catalog::TESTS.len());
    assert_eq!(created.owner, format!("uid:{}", rustix::process::geteuid().as_raw()));
    let run = clients.ended(&created.name).await;
    assert_eq!(
        (run.state(), run.outcome()),
        (RunState::Ended, Outcome::Pass),
        "{}",
        run.reason
    );
    let judged: Vec<_> = run.verdicts.iter().map(|verdict| verdict.test.clone()).collect();
    assert_eq!(judged, run.tests);
    assert!(run.create_time.is_some() && run.start_time.is_some() && run.end_time.is_some());
    let info = run.info.unwrap();
    assert_eq!((info.rig.as_str(), info.outcome()), ("virtual", Outcome::Pass));
    assert_eq!(format!("runs/{}", info.id), run.name);
    let line = daemon.says("run ended");
    for field in ["run=", "rig=\"virtual\"", "who=uid:", "outcome=PASS"] {
        assert!(line.contains(field), "{field} in {line}");
    }
}

#[tokio::test]
async fn request_id_creates_one_run() {
    let bench = Bench::new();
    let daemon = bench.serve();
    let mut clients = bench.clients().await;
    let wanted = CreateRunRequest {
        request_id: "nightly-1".into(),
        ..request("rigs/virtual", &[SHORT_TEST])
    };
    let mut many = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (mut clients, wanted) = (clients.clone(), wanted.clone());
        many.spawn(async move { clients.create(wanted).await.name });
    }
    let names: BTreeSet<String> = within(many.join_all()).await.into_iter().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let other = CreateRunRequest {
        spec: Some(RunSpec {
            seed: 7,
            ..spec("virtual", &[SHORT_TEST])
        }),
        ..wanted.clone()
    };
    let refused = clients.runs.create_run(other).await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists);
    assert!(refused.message().contains("differs in seed"), "{}", refused.message());
    clients.ended(names.first().unwrap()).await;

    drop((daemon, clients));
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let again = clients.create(wanted).await;
    assert_eq!(Some(&again.name), names.first(), "also after the daemon began anew");
    assert!(is_ended(&again));
}

async fn page(clients: &mut Clients, size: i32, token: &str, filter: &str) -> (Vec<Run>, String) {
    let request = ListRunsRequest {
        page_size: size,
        page_token: token.into(),
        filter: filter.into(),
    };
    let response = within(clients.runs.list_runs(request)).await.unwrap().into_inner();
    (response.runs, response.next_page_token)
}

#[tokio::test]
async fn lists_runs_in_pages_by_filter() {
    let bench = Bench::new();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let mut names = Vec::new();
    for seed in 0..5 {
        let run = clients
            .create(asked(RunSpec {
                seed,
                ..spec("virtual", &[SHORT_TEST])
            }))
            .await;
        names.push(run.name.clone());
        clients.ended(&run.name).await;
    }
    names.reverse();
    let mut seen = Vec::new();
    let (mut token, mut pages) = (String::new(), 0);
    loop {
        let (runs, next) = page(
            &mut clients,
            2,
            &token,
            "rig=virtual AND state=ENDED AND outcome=PASS|FAIL",
        )
        .await;
        pages += 1;
        assert!(
            runs.iter()
                .all(|run| run.verdicts.len() == 1 && run.verdicts[0].passed.is_empty())
        );
        assert!(runs.iter().all(|run| run.info.is_none()), "a list has no reports");
        seen.extend(runs.into_iter().map(|run| run.name));
        token = next;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!((pages, &seen), (3, &names));
    for none in ["rig=model", "state=QUEUED|RUNNING", "outcome=ERROR"] {
        assert_eq!(page(&mut clients, 0, "", none).await.0, [], "{none}");
    }
}

#[tokio::test]
async fn reads_artifacts_and_capture() {
    let bench = Bench::new();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let tests = ["c14-024-p-key-table", "c09-060-read"];
    let run = clients.create(request("virtual", &tests)).await;
    clients.ended(&run.name).await;
    let listed = clients
        .runs
        .list_artifacts(ListArtifactsRequest { name: run.name.clone() })
        .await
        .unwrap()
        .into_inner()
        .artifacts;
    let names: Vec<_> = listed.iter().map(|artifact| artifact.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "001-c09-060-read.rec",
            "002-c14-024-p-key-table.rec",
            "manifest.json",
            "run.json",
            "verdicts.json"
        ]
    );
    for artifact in &listed {
        let (data, largest) = read(&mut clients, &run.name, &artifact.name).await;
        assert_eq!(data.len() as u64, artifact.size_bytes);
        assert!(largest <= 64 << 10);
    }
    let (capture, _) = read(&mut clients, &run.name, "run.pcapng").await;
    assert_eq!(capture[..4], [0x0A, 0x0D, 0x0D, 0x0A]);
    assert!(capture.len() > 10_000, "{}", capture.len());

    // A worker could replace its record by a link to another record, so the daemon reads no links.
    let id = run.name.strip_prefix("runs/").unwrap();
    let record = bench.path(&format!("state/runs/virtual/{id}/record"));
    assert!(
        record.join("001-c09-060-read.rec.zst").exists(),
        "a large record is compressed"
    );
    assert_eq!(verbatim_run::judge_bundle(&record).unwrap().1, [""; 0]);
    let moved = bench.path("state/runs/virtual/another");
    std::fs::rename(&record, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &record).unwrap();
    for artifact in [&listed[0].name, "run.pcapng"] {
        let request = ReadArtifactRequest {
            name: run.name.clone(),
            artifact: artifact.into(),
        };
        let refused = within(clients.runs.read_artifact(request)).await.unwrap_err();
        assert!(refused.message().contains("is a link"), "{}", refused.message());
    }
}

async fn read(clients: &mut Clients, run: &str, artifact: &str) -> (Vec<u8>, usize) {
    let request = ReadArtifactRequest {
        name: run.into(),
        artifact: artifact.into(),
    };
    let mut stream = within(clients.runs.read_artifact(request)).await.unwrap().into_inner();
    let (mut data, mut largest) = (Vec::new(), 0);
    while let Some(chunk) = within(stream.message()).await.unwrap() {
        largest = largest.max(chunk.data.len());
        data.extend(chunk.data);
    }
    (data, largest)
}

#[tokio::test]
async fn virtual_rig_has_nothing_to_restore() {
    let bench = Bench::new();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let name = "rigs/virtual".to_string();
    let restored = within(clients.rigs.restore_rig(RestoreRigRequest { name }))
        .await
        .unwrap()
        .into_inner();
    assert!(restored.areas.is_empty() && is_idle(&restored.rig.unwrap()));
}

#[tokio::test]
async fn watch_sends_events_without_gaps() {
    let bench = Bench::new();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let run = clients.create(request("virtual", &["C14-16"])).await;
    let events = clients.watch(&run.name, 0).await.rest().await;
    let cursors: Vec<u64> = events.iter().map(|event| event.cursor).collect();
    assert_eq!(cursors, (1..=events.len() as u64).collect::<Vec<_>>());
    let state = |event: &Event| match event {
        Event::StateChanged(changed) => Some(changed.state()),
        _ => None,
    };
    let states: Vec<_> = events.iter().filter_map(|event| state(event.event.as_ref()?)).collect();
    assert_eq!(states, [RunState::Queued, RunState::Running, RunState::Ended]);
    let last = events.last().unwrap();
    assert_eq!(state(last.event.as_ref().unwrap()), Some(RunState::Ended));
    for cursor in [1, 7, last.cursor - 1, last.cursor] {
        let rest = clients.watch(&run.name, cursor).await.rest().await;
        assert_eq!(rest, events[usize::try_from(cursor).unwrap()..], "from {cursor} on");
    }
}

#[tokio::test]
async fn health_and_reflection_limit_requests() {
    let bench = Bench::new();
    let _daemon = bench.serve();
    let clients = bench.clients().await;
    let large = "x".repeat(2 << 20);
    let request = HealthCheckRequest { service: large.clone() };
    let refused = HealthClient::new(clients.channel.clone())
        .check(request)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused:?}");
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::FileContainingSymbol(large)),
    };
    let answers = ServerReflectionClient::new(clients.channel.clone())
        .server_reflection_info(tokio_stream::iter([request]))
        .await;
    // The daemon sends no response message, because the request is too large. For a smaller request with an unknown
    // symbol, it would send one.
    let answer = match answers {
        Ok(answers) => answers.into_inner().message().await,
        Err(refused) => Err(refused),
    };
    assert!(!matches!(answer, Ok(Some(_))), "{answer:?}");
}

#[tokio::test]
async fn services_are_healthy_and_described() {
    let bench = Bench::new();
    let _daemon = bench.serve();
    let clients = bench.clients().await;
    let mut health = HealthClient::new(clients.channel.clone());
    let services = [
        "verbatim.v1.CatalogService",
        "verbatim.v1.RigService",
        "verbatim.v1.RunService",
    ];
    for service in ["", services[0], services[1], services[2]] {
        let request = HealthCheckRequest {
            service: service.into(),
        };
        let status = health.check(request).await.unwrap().into_inner().status();
        assert_eq!(status, ServingStatus::Serving, "{service:?}");
    }
    let mut reflection = ServerReflectionClient::new(clients.channel.clone());
    let ask = |message_request| ServerReflectionRequest {
        host: String::new(),
        message_request: Some(message_request),
    };
    let requests = [
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol(
            "verbatim.v1.RunService.WatchRun".into(),
        )),
    ];
    let answers = reflection
        .server_reflection_info(tokio_stream::iter(requests))
        .await
        .unwrap();
    let mut answers = answers.into_inner();
    let Some(MessageResponse::ListServicesResponse(listed)) =
        answers.message().await.unwrap().unwrap().message_response
    else {
        panic!("no list");
    };
    let listed: Vec<_> = listed.service.into_iter().map(|service| service.name).collect();
    for service in services {
        assert!(listed.contains(&service.to_string()), "{service} in {listed:?}");
    }
    let Some(MessageResponse::FileDescriptorResponse(file)) =
        answers.message().await.unwrap().unwrap().message_response
    else {
        panic!("no descriptor");
    };
    assert!(file.file_descriptor_proto.iter().any(|file| file.len() > 1000));
}
