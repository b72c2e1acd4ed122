//! Plain HTTP/1.1 for read-only content: the metrics and the web page. The number and the duration of connections are
//! limited, and no request body is read.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::timeout;
use verbatim_tls::{Crowd, Known, Stage};

/// The limits of connections that have sent nothing, a part of their request, or all of it. At a limit, a new
/// connection closes the oldest connection of the address with the most connections.
const AT_A_TIME: [usize; 3] = [64, 64, 16];
/// The number of connections that may wait for their accept. A client that comes while so many are waiting tries again
/// after a second.
const WAITING: u32 = 4096;
/// The time limit of a connection, which carries one request.
const LASTS: Duration = Duration::from_secs(60);
/// The time limit of a request.
const REQUEST: Duration = Duration::from_secs(10);
/// The pause after a failed accept, for example when file descriptors are used up.
const PAUSE: Duration = Duration::from_millis(100);

/// Listens at an address. The error names `table`, the table of the configuration that contains the address.
///
/// # Errors
/// When the address cannot be bound.
pub(super) fn listen(address: SocketAddr, table: &str) -> anyhow::Result<TcpListener> {
    let listens = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(WAITING)
    };
    listens().with_context(|| format!("cannot listen on {address}, the address in [{table}]"))
}

/// Responds to GET and HEAD requests. Never returns.
pub(super) async fn serve<A, F>(listener: TcpListener, known: Known, answer: A)
where
    A: Fn(Request<Incoming>, SocketAddr) -> F + Clone + Send + 'static,
    F: Future<Output = Response<String>> + Send + 'static,
{
    let mut crowd = Crowd::new(AT_A_TIME, known);
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (answer, stage) = (answer.clone(), Stage::default());
        let of_task = stage.clone();
        crowd.make_room();
        let task = tokio::spawn(async move {
            // An error also ends the connection below.
            let _ = timeout(REQUEST, stream.peek(&mut [0])).await;
            of_task.begins();
            let service = service_fn(move |request: Request<Incoming>| {
                of_task.is_complete();
                let reads = matches!(*request.method(), Method::GET | Method::HEAD);
                let answered = reads.then(|| answer(request, from));
                async move {
                    let response = match answered {
                        Some(answered) => answered.await,
                        None => refused(
                            StatusCode::METHOD_NOT_ALLOWED,
                            "expected GET: this address is read-only",
                        ),
                    };
                    Ok::<_, Infallible>(response)
                }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(REQUEST)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            // Ignore an error: the client hung up, was too slow or sent no HTTP.
            let _ = timeout(LASTS, connection).await;
        });
        crowd.add(from.ip(), stage, task.abort_handle());
        // Let the connections run before the next accept, so that each notes its stage.
        tokio::task::yield_now().await;
    }
}

/// Returns an error response with a text.
pub(super) fn refused(status: StatusCode, text: &str) -> Response<String> {
    let mut response = Response::new(format!("{text}\n"));
    *response.status_mut() = status;
    response
}
