//! Spans: one for each run, and within it one for each test. They are `tracing`'s; with the feature `otlp` they go to an
//! OpenTelemetry collector, over gRPC, when `OTEL_EXPORTER_OTLP_ENDPOINT` names one. Without it nobody listens, and they cost
//! nothing.

use tracing::Span;
use tracing::field::Empty;
use verbatim_proto::v1::{Outcome, Verdict};

use crate::sched::Ending;
use crate::store::StoredRun;

/// What their target is: the log leaves them out, whose lines say of which run they are.
pub(crate) const TARGET: &str = "verbatim::span";

/// Where a collector is, as OpenTelemetry has it.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// The span of a run, from its beginning to its end.
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

/// Notes how a run ended. That a test has failed is no failure of the run; an ERROR is.
pub(crate) fn run_ended(span: &Span, ending: &Ending) {
    span.record("outcome", ending.outcome.as_str_name());
    if let Some(cause) = ending.cause {
        span.record("cause", cause.as_str_name());
    }
    status(span, ending.outcome);
}

/// The span of a test of a run.
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

/// Notes what a test came to.
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

/// Whether a collector is named.
fn endpoint() -> Option<&'static str> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    ENDPOINTS.into_iter().find(is_set)
}

#[cfg(not(feature = "otlp"))]
pub(crate) use without::{Collector, layer};

/// A daemon that was built without it.
#[cfg(not(feature = "otlp"))]
mod without {
    use tracing_subscriber::layer::Identity;

    /// There is none.
    #[derive(Debug)]
    pub(crate) struct Collector;

    impl Collector {
        /// Has nothing to give away.
        pub(crate) fn end(self) {}
    }

    /// Nobody who listens to spans.
    pub(crate) fn layer() -> anyhow::Result<(Option<Identity>, Option<Collector>)> {
        if let Some(name) = super::endpoint() {
            // The log is about to begin.
            eprintln!(
                "verbatimd: {name} is set, and this verbatimd was built without spans for a collector: build it with \
                 --features otlp, or leave it out"
            );
        }
        Ok((None, None))
    }
}

#[cfg(feature = "otlp")]
pub(crate) use with::{Collector, layer};

/// Spans over gRPC.
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

    /// Takes spans to a collector, in batches.
    #[derive(Debug)]
    pub(crate) struct Collector(SdkTracerProvider);

    impl Collector {
        /// Gives away what it has. Blocks for some seconds when nobody answers.
        pub(crate) fn end(self) {
            if let Err(error) = self.0.shutdown() {
                tracing::warn!(%error, "the last spans did not come to the collector");
            }
        }
    }

    /// Who listens to spans, when a collector is named. Within a runtime, in which its connection lives.
    ///
    /// # Errors
    /// When what names it is wrong.
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
        // The log's own lines are no part of it: they may say more than whoever sees the collector is to see.
        let ours = Targets::new().with_target(super::TARGET, LevelFilter::INFO);
        let layer = OpenTelemetryLayer::new(tracer).with_location(false).with_threads(false);
        Ok((Some(layer.with_filter(ours)), Some(Collector(provider))))
    }
}
