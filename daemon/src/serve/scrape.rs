//! Serves the metrics to Prometheus at the address in `[metrics]`: only `GET /metrics`, without TLS.

use std::sync::Arc;

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use super::http::refused;
use crate::sched::Scheduler;

/// The content type that Prometheus requests.
const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn answer(path: String, scheduler: Arc<Scheduler>) -> Response<String> {
    if path != "/metrics" {
        let what = "this address serves only /metrics; clients reach the daemon at its socket or with TLS";
        return refused(StatusCode::NOT_FOUND, what);
    }
    let text = tokio::task::spawn_blocking(move || scheduler.metrics().text(&scheduler.stands())).await;
    let Ok(text) = text else {
        return refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the metrics cannot be computed; see the daemon's log",
        );
    };
    let mut response = Response::new(text);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(FORMAT));
    response
}
