//! Spans of runs and tests: each run has a span, which contains a span for each of its tests. With the feature
//! `otlp`, the daemon sends the spans over gRPC to the OpenTelemetry collector that `OTEL_EXPORTER_OTLP_ENDPOINT`
//! names. Otherwise the spans have no subscriber and cost nothing.

use tracing::Span;
use tracing::field::Empty;
use verbatim_proto::v1::{Outcome, Verdict};

use crate::sched::Ending;
use crate::store::StoredRun;

/// The target of all spans. The log filters it out, because log lines name their run themselves.
pub(crate) const TARGET: &str = "verbatim::span";

/// The variables with the collector's address, as OpenTelemetry defines them.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Creates the span of a run, from its start to its end.
pub(crate) fn of_run(run: &StoredRun) -> Span {
    tracing::info_span!(
        target: TARGET,
        parent: None,
        "run",
        run = %run.id,
        rig = run.spec.rig,
        tests = run.tests.len(),
        outcome = Empty,
        cause = Empty,
        otel.status_code = Empty,
    )
}

/// Records the ending of a run. Only ERROR sets the span's status to an error; FAIL does not.
pub(crate) fn run_ended(span: &Span, ending: &Ending) {
    span.record("outcome", ending.outcome.as_str_name());
    if let Some(cause) = ending.cause {
        span.record("cause", cause.as_str_name());
    }
    status(span, ending.outcome);
}

/// Creates the span of a test of a run.
pub(crate) fn of_test(run: &Span, test: &str) -> Span {
    tracing::info_span!(
        target: TARGET,
        parent: run,
        "test",
        test,
        outcome = Empty,
        otel.name = test,
        otel.status_code = Empty,
    )
}

/// Records the outcome of a test.
pub(crate) fn test_ended(span: &Span, verdict: Option<&Verdict>) {
    if let Some(verdict) = verdict {
        span.record("outcome", verdict.outcome().as_str_name());
        status(span, verdict.outcome());
    }
}

fn status(span: &Span, outcome: Outcome) {
    if outcome == Outcome::Error {
        span.record("otel.status_code", "ERROR");
    }
}

/// Returns the name of the variable that names a collector, if one is set.
fn endpoint() -> Option<&'static str> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    ENDPOINTS.into_iter().find(is_set)
}

#[cfg(not(feature = "otlp"))]
pub(crate) use without::{Collector, layer};

/// Stand-ins without the feature `otlp`.
#[cfg(not(feature = "otlp"))]
mod without {
    use tracing_subscriber::layer::Identity;

    #[derive(Debug)]
    pub(crate) struct Collector;

    impl Collector {
        pub(crate) fn end(self) {}
    }

    /// Returns no layer. Prints a warning if a variable names a collector.
    pub(crate) fn layer() -> anyhow::Result<(Option<Identity>, Option<Collector>)> {
        if let Some(name) = super::endpoint() {
            // The log has not started yet.
            verbatim_text::say(format_args!(
                "verbatimd: {name} is set, but this verbatimd was built without the export of spans; build it with \
                 --features otlp, or unset {name}"
            ));
        }
        Ok((None, None))
    }
}

#[cfg(feature = "otlp")]
pub(crate) use with::{Collector, layer};

/// Export of spans over gRPC.
#[cfg(feature = "otlp")]
mod with {
    use anyhow::Context as _;
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_otlp::SpanExporter;
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::trace::{SdkTracerProvider, Tracer};
    use tracing::Subscriber;
    use tracing_opentelemetry::OpenTelemetryLayer;
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::layer::Layer;
    use tracing_subscriber::registry::LookupSpan;

    /// Sends spans to a collector, in batches.
    #[derive(Debug)]
    pub(crate) struct Collector(SdkTracerProvider);

    impl Collector {
        /// Sends the remaining spans. Blocks for some seconds when the collector doesn't respond.
        pub(crate) fn end(self) {
            if let Err(error) = self.0.shutdown() {
                tracing::warn!(%error, "the last spans did not reach the collector");
            }
        }
    }

    /// Creates the layer that exports spans, if a collector is named. Must be called within a tokio runtime, which
    /// drives the connection.
    ///
    /// # Errors
    /// When the collector's address is invalid.
    pub(crate) fn layer<S: Subscriber + for<'s> LookupSpan<'s>>()
    -> anyhow::Result<(Option<impl Layer<S>>, Option<Collector>)> {
        let Some(name) = super::endpoint() else {
            return Ok((None, None));
        };
        let exporter = SpanExporter::builder().with_tonic().build();
        let exporter = exporter.with_context(|| {
            format!("{name}: expected the address of an OpenTelemetry collector, such as http://127.0.0.1:4317")
        })?;
        let resource = Resource::builder().with_service_name("verbatimd").build();
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_batch_exporter(exporter)
            .build();
        let tracer: Tracer = provider.tracer("verbatim");
        // Log lines are not exported: they may hold details that the collector's users must not see.
        let ours = Targets::new().with_target(super::TARGET, LevelFilter::INFO);
        let layer = OpenTelemetryLayer::new(tracer).with_location(false).with_threads(false);
        Ok((Some(layer.with_filter(ours)), Some(Collector(provider))))
    }
}
