//! Spans as an OpenTelemetry collector receives them: `cargo test -p verbatim-daemon --features otlp otlp`.

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::{Span, status::StatusCode};
use rustix::process::Signal;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use super::harness::{Bench, Daemon, request};

/// A collector that stores all requests.
struct Collector(mpsc::UnboundedSender<ExportTraceServiceRequest>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let _ = self.0.send(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// Starts a collector. Returns its received requests and its address.
async fn collector() -> (mpsc::UnboundedReceiver<ExportTraceServiceRequest>, String) {
    let (sender, got) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = TraceServiceServer::new(Collector(sender));
    let incoming = TcpListenerStream::new(listener);
    tokio::spawn(tonic::transport::Server::builder().serve_with_incoming(service, incoming));
    (got, format!("http://{address}"))
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|found| found.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        other => panic!("{key}: {other:?} in {attributes:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_spans_of_runs_and_tests() {
    let (mut got, endpoint) = collector().await;
    let bench = Bench::new();
    let mut daemon = Daemon::start(bench.command().env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint));
    let mut clients = bench.clients().await;
    let tests = ["c14-016-get-protect-2", "c14-024-node-info"];
    let run = clients.create(request("virtual", &tests)).await;
    clients.ended(&run.name).await;
    drop(clients);
    assert!(daemon.end(Signal::TERM).await.success(), "{:#?}", daemon.said);
    let log = daemon.said.join("\n");
    assert!(
        log.contains("test ended") && !log.contains("test{") && !log.contains("run{"),
        "{log}"
    );

    // The daemon sent all its spans before it ended.
    let mut spans: Vec<Span> = Vec::new();
    while let Ok(request) = got.try_recv() {
        for of_process in request.resource_spans {
            let resource = of_process.resource.unwrap();
            assert_eq!(text(&resource.attributes, "service.name"), "verbatimd");
            spans.extend(of_process.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    let id = run.name.trim_start_matches("runs/");
    let of_run = spans
        .iter()
        .filter(|span| span.name == "run" && text(&span.attributes, "run") == id);
    let [of_run] = of_run.collect::<Vec<_>>()[..] else {
        panic!("one span of the run in {spans:#?}");
    };
    assert_eq!(text(&of_run.attributes, "rig"), "virtual");
    assert_eq!(text(&of_run.attributes, "outcome"), "OUTCOME_PASS");
    assert!(of_run.parent_span_id.is_empty() && of_run.start_time_unix_nano <= of_run.end_time_unix_nano);
    let within: Vec<&Span> = spans
        .iter()
        .filter(|span| span.parent_span_id == of_run.span_id)
        .collect();
    let names: Vec<&str> = within.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, tests, "in their order");
    for span in within {
        assert_eq!(span.trace_id, of_run.trace_id);
        assert_eq!(text(&span.attributes, "outcome"), "OUTCOME_PASS");
        assert!(
            span.status
                .as_ref()
                .is_none_or(|status| status.code != StatusCode::Error as i32)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_work_without_the_collector() {
    let bench = Bench::new();
    // No process listens on port 1, which only root may use.
    let mut daemon = Daemon::start(bench.command().env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"));
    let mut clients = bench.clients().await;
    let run = clients.create(request("virtual", &["c14-024-node-info"])).await;
    assert_eq!(clients.ended(&run.name).await.reason, "");
    drop(clients);
    assert!(daemon.end(Signal::TERM).await.success(), "{:#?}", daemon.said);
}
