//! What Prometheus scrapes, by HTTP at the address in `[metrics]`: `GET /metrics`, and nothing else.
//!
//! It needs no certificate and changes nothing; how many ask at a time, and for how long, is bounded.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::sched::Scheduler;

/// The format's name, as Prometheus asks for it.
const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Who scrapes at a time: more wait.
const AT_A_TIME: usize = 4;
/// One connection, from its first byte to its last: scrapers come each time anew.
const LASTS: Duration = Duration::from_secs(10);
/// A listener that fails, for lack of descriptors, is asked again after so long.
const PAUSE: Duration = Duration::from_millis(100);

/// Listens there.
///
/// # Errors
/// When the address cannot be had.
pub(super) async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    bound.with_context(|| format!("cannot listen on {address}, the address in [metrics]"))
}

/// Serves for ever.
pub(super) async fn serve(listener: TcpListener, scheduler: Arc<Scheduler>) {
    let seats = Arc::new(Semaphore::new(AT_A_TIME));
    loop {
        let Ok(seat) = Arc::clone(&seats).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let scheduler = Arc::clone(&scheduler);
        tokio::spawn(async move {
            let answer = service_fn(move |request| answer(request, Arc::clone(&scheduler)));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(LASTS)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), answer);
            // Who hangs up, is slow or speaks something else, is nobody that could be told.
            let _ = timeout(LASTS, connection).await;
            drop(seat);
        });
    }
}

async fn answer(request: Request<Incoming>, scheduler: Arc<Scheduler>) -> Result<Response<String>, Infallible> {
    let refused = |status, text: &str| {
        let mut response = Response::new(format!("{text}\n"));
        *response.status_mut() = status;
        Ok(response)
    };
    if request.uri().path() != "/metrics" {
        return refused(
            StatusCode::NOT_FOUND,
            "here is only /metrics; clients reach the daemon at its socket or with TLS",
        );
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return refused(StatusCode::METHOD_NOT_ALLOWED, "only GET: nothing is changed here");
    }
    let text = tokio::task::spawn_blocking(move || scheduler.metrics().text(&scheduler.stands())).await;
    let Ok(text) = text else {
        return refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            "counting failed; the daemon's log says why",
        );
    };
    let mut response = Response::new(text);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(FORMAT));
    Ok(response)
}
