//! Refused requests: each has its status code, the root cause in the message, and details for programs.

use tonic::{Code, Status};
use tonic_types::StatusExt;
use verbatim_proto::v1::{
    CancelRunRequest, CreateRunRequest, GetRigRequest, GetRunRequest, ListArtifactsRequest, ListRunsRequest,
    ListTestsRequest, ReadArtifactRequest, RestoreRigRequest, RunSpec, WatchRunRequest,
};

use super::harness::{Bench, request, spec};

const ABSENT: &str = "runs/000000000000-0000";

fn fields(status: &Status) -> Vec<String> {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().domain, "verbatim.v1");
    let violations = &details.bad_request().unwrap().field_violations;
    violations.iter().map(|violation| violation.field.clone()).collect()
}

#[tokio::test]
async fn create_run_names_every_invalid_field() {
    let bench = Bench::new();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let wrong = CreateRunRequest {
        request_id: "x".repeat(65),
        spec: Some(RunSpec {
            parameters: [("wait_s".to_string(), 0)].into(),
            ..spec("modle", &["c14-017-lease-zero"])
        }),
        ..CreateRunRequest::default()
    };
    let status = clients.runs.create_run(wrong).await.unwrap_err();
    assert_eq!(
        fields(&status),
        ["request_id", "spec.rig", "spec.parameters[\"wait_s\"]"]
    );
    for cause in [
        "\"modle\"",
        "did you mean \"model\"",
        "1 to 1000000",
        "at most 64 characters",
    ] {
        assert!(status.message().contains(cause), "{cause} in {}", status.message());
    }
    let status = clients
        .runs
        .create_run(request("virtual", &["C14-16", "nonsense"]))
        .await
        .unwrap_err();
    assert_eq!(fields(&status), ["spec.patterns[1]"]);
    let status = clients.runs.create_run(CreateRunRequest::default()).await.unwrap_err();
    assert_eq!(fields(&status), ["spec.rig"]);
    let patterns = vec!["nonsense".into()];
    let status = clients
        .catalog
        .list_tests(ListTestsRequest { patterns })
        .await
        .unwrap_err();
    assert_eq!(fields(&status), ["patterns[0]"]);
}

#[tokio::test]
async fn tells_missing_from_invalid_names() {
    let bench = Bench::new();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    for (name, code) in [
        (ABSENT, Code::NotFound),
        ("runs/../x", Code::InvalidArgument),
        ("", Code::InvalidArgument),
    ] {
        let name = || name.to_string();
        let artifact = || "manifest.json".to_string();
        let refusals = [
            clients.runs.get_run(GetRunRequest { name: name() }).await.unwrap_err(),
            clients
                .runs
                .cancel_run(CancelRunRequest { name: name() })
                .await
                .unwrap_err(),
            clients
                .runs
                .watch_run(WatchRunRequest {
                    name: name(),
                    cursor: 0,
                })
                .await
                .unwrap_err(),
            clients
                .runs
                .list_artifacts(ListArtifactsRequest { name: name() })
                .await
                .unwrap_err(),
            clients
                .runs
                .read_artifact(ReadArtifactRequest {
                    name: name(),
                    artifact: artifact(),
                })
                .await
                .unwrap_err(),
        ];
        for status in refusals {
            assert_eq!(status.code(), code, "{name:?}: {status:?}", name = name());
            assert!(status.get_error_details().error_info().is_some());
        }
    }
    for (name, code) in [("rigs/none", Code::NotFound), ("none", Code::InvalidArgument)] {
        let name = || name.to_string();
        let get = clients.rigs.get_rig(GetRigRequest { name: name() }).await.unwrap_err();
        let restore = clients
            .rigs
            .restore_rig(RestoreRigRequest { name: name() })
            .await
            .unwrap_err();
        assert_eq!((get.code(), restore.code()), (code, code));
    }
}

#[tokio::test]
async fn list_runs_names_invalid_fields() {
    let bench = Bench::new();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let status = clients
        .runs
        .list_runs(ListRunsRequest {
            page_size: -1,
            page_token: "x".into(),
            filter: "state=DONE".into(),
        })
        .await
        .unwrap_err();
    assert_eq!(fields(&status), ["page_size", "filter", "page_token"]);
    assert!(
        status.message().contains("QUEUED|RUNNING|ENDED"),
        "{}",
        status.message()
    );
}

#[tokio::test]
async fn rejects_foreign_files_and_future_cursors() {
    let bench = Bench::new();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let run = clients.create(request("virtual", &["c14-024-node-info"])).await;
    clients.ended(&run.name).await;
    for (artifact, code) in [
        ("../run.json", Code::InvalidArgument),
        ("/etc/hostname", Code::InvalidArgument),
        (".manifest.json.part", Code::InvalidArgument),
        ("none", Code::NotFound),
    ] {
        let request = ReadArtifactRequest {
            name: run.name.clone(),
            artifact: artifact.into(),
        };
        let status = clients.runs.read_artifact(request).await.unwrap_err();
        assert_eq!(status.code(), code, "{artifact}");
    }
    let ahead = WatchRunRequest {
        name: run.name.clone(),
        cursor: 1_000_000,
    };
    let status = clients.runs.watch_run(ahead).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
}
