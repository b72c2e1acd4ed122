//! Attacks below the level of calls: random bytes, malformed HTTP/2 frames, many connections, and slow clients.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use verbatim_lab::campaign::Dice;

use crate::Came;
use crate::house::House;

/// Connection preface of HTTP/2 (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An empty SETTINGS frame.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// Time that an attack waits for the daemon to end a connection. The attack then drops the connection.
const PATIENCE: Duration = Duration::from_millis(300);
const AT_ONCE: u64 = 16;
/// Time after the planned end of the attack `connections` at which it stops opening connections.
const LONGEST: Duration = Duration::from_secs(60);

trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// Connects from another address than the friend: the daemon evicts clients of the address with the most clients.
async fn from_elsewhere(to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(([127, 0, 0, 2], 0).into())?;
    socket.connect(to).await
}

/// Opens a connection to one of the daemon's four listeners.
async fn door(house: &House, which: usize) -> std::io::Result<Box<dyn Wire>> {
    Ok(match which % 4 {
        0 => Box::new(UnixStream::connect(house.socket()).await?),
        1 => Box::new(from_elsewhere(house.tls).await?),
        2 => Box::new(from_elsewhere(house.web).await?),
        _ => Box::new(from_elsewhere(house.metrics).await?),
    })
}

/// Runs `once` again and again until `until`, several at a time. Adds up the numbers of requests that `once`
/// returns.
async fn repeatedly<F>(house: &Arc<House>, seed: u64, until: Instant, once: impl Fn(Arc<House>, Dice) -> F) -> Came
where
    F: Future<Output = u64> + Send + 'static,
{
    let (mut all, mut came, mut case) = (JoinSet::new(), Came::default(), 0);
    while Instant::now() < until {
        while (all.len() as u64) < AT_ONCE {
            case += 1;
            all.spawn(once(Arc::clone(house), Dice::of(seed, case)));
        }
        came.requests += all.join_next().await.and_then(Result::ok).unwrap_or(0);
    }
    came.requests += all.join_all().await.into_iter().sum::<u64>();
    came
}

/// Sends the bytes, closes the sending direction, and reads the response.
async fn say(mut wire: Box<dyn Wire>, bytes: &[u8]) {
    let said = async {
        wire.write_all(bytes).await?;
        wire.shutdown().await?;
        tokio::io::copy(&mut wire, &mut tokio::io::sink()).await
    };
    let _ = timeout(PATIENCE, said).await;
}

/// Sends random bytes to any listener.
pub(crate) async fn noise(house: &Arc<House>, seed: u64, until: Instant) -> Came {
    repeatedly(house, seed, until, |house, mut dice| async move {
        let bytes: Vec<u8> = (0..dice.below(4096)).map(|_| dice.byte()).collect();
        if let Ok(wire) = door(&house, dice.below(4)).await {
            say(wire, &bytes).await;
        }
        1
    })
    .await
}

/// Sends HTTP/2 with a valid preface, then frames of random type, flags, stream and content, or many stream resets.
pub(crate) async fn frames(house: &Arc<House>, seed: u64, until: Instant) -> Came {
    repeatedly(house, seed, until, |house, mut dice| async move {
        let mut bytes = [PREFACE, SETTINGS].concat();
        let count = 1 + dice.below(500) as u64;
        let resets = dice.percent(30);
        for number in 0..count {
            let stream = if resets {
                2 * number as u32 + 1
            } else {
                u32::from(dice.short())
            };
            if resets {
                // :method POST, :scheme http, :path /
                frame(&mut bytes, 1, 0x4, stream, &[0x83, 0x86, 0x84]);
                frame(&mut bytes, 3, 0, stream, &[0, 0, 0, 8]);
            } else {
                let content: Vec<u8> = (0..dice.below(64)).map(|_| dice.byte()).collect();
                let kind = (dice.byte() % 12, dice.byte());
                frame(&mut bytes, kind.0, kind.1, stream, &content);
            }
        }
        if let Ok(wire) = door(&house, 0).await {
            say(wire, &bytes).await;
        }
        count
    })
    .await
}

fn frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, content: &[u8]) {
    bytes.extend_from_slice(&(content.len() as u32).to_be_bytes()[1..]);
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(content);
}

/// Sends headers that never end, in CONTINUATION frames.
pub(crate) async fn endless_headers(house: &Arc<House>, seed: u64, until: Instant) -> Came {
    repeatedly(house, seed, until, |house, mut dice| async move {
        let Ok(mut wire) = door(&house, 0).await else { return 0 };
        let mut bytes = [PREFACE, SETTINGS].concat();
        frame(&mut bytes, 1, 0, 1, &[0x83, 0x86]);
        // Literal fields without indexing, each with its own name.
        let content: Vec<u8> = (0..1000)
            .flat_map(|_| [0, 1, b'a' + dice.byte() % 26, 1, b'x'])
            .collect();
        for _ in 0..50 {
            frame(&mut bytes, 9, 0, 1, &content);
        }
        let _ = timeout(PATIENCE, wire.write_all(&bytes)).await;
        50
    })
    .await
}

/// Opens as many connections as possible and sends nothing on them.
pub(crate) async fn connections(house: &Arc<House>, count: u64, until: Instant) -> Came {
    let mut held: Vec<Box<dyn Wire>> = Vec::new();
    let mut refused = 0;
    for number in 0..count {
        // Use only the first two listeners. The listeners of the page and of the metrics admit a few connections at a
        // time, and further connections wait in the kernel.
        match timeout(PATIENCE, door(house, number as usize % 2)).await {
            Ok(Ok(wire)) => held.push(wire),
            _ => refused += 1,
        }
        if refused > 20 || Instant::now() > until + LONGEST {
            break;
        }
    }
    let came = Came {
        requests: held.len() as u64,
        ..Came::default()
    };
    tokio::time::sleep_until(until).await;
    came
}

/// Opens connections that send one byte, as fast as possible: to the TLS address, the page and the metrics. Keeps the
/// newest of them open.
pub(crate) async fn single_bytes(house: &Arc<House>, until: Instant) -> Came {
    let mut all = JoinSet::new();
    for number in 0..AT_ONCE {
        let house = Arc::clone(house);
        all.spawn(async move {
            let (mut held, mut sent) = (VecDeque::new(), 0);
            while Instant::now() < until {
                // Most connections go to the TLS address.
                let which = if number % 4 == 0 { 2 + sent % 2 } else { 1 };
                if let Ok(Ok(mut wire)) = timeout(PATIENCE, door(&house, which)).await {
                    let _ = wire.write_all(&[0x16]).await;
                    held.push_back(wire);
                    sent += 1;
                }
                if held.len() > 50 {
                    held.pop_front();
                }
            }
            sent as u64
        });
    }
    Came {
        requests: all.join_all().await.into_iter().sum(),
        ..Came::default()
    }
}

/// Opens connections that send one byte at a time.
pub(crate) async fn slow_writers(house: &Arc<House>, until: Instant) -> Came {
    let (mut all, sent) = (JoinSet::new(), Arc::new(AtomicU64::new(0)));
    for number in 0..400 {
        let (house, sent) = (Arc::clone(house), Arc::clone(&sent));
        all.spawn(async move {
            let Ok(mut wire) = door(&house, number).await else {
                return;
            };
            let text = b"GET /api/rigs HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
            for byte in PREFACE.iter().chain(text).cycle() {
                if Instant::now() > until || wire.write_all(&[*byte]).await.is_err() {
                    return;
                }
                sent.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_millis(50)).await;
            }
        });
    }
    all.join_all().await;
    Came {
        requests: sent.load(Ordering::Relaxed),
        ..Came::default()
    }
}

/// Sends HTTP/1.1 to the page and the metrics, with invalid paths, hosts and methods.
pub(crate) async fn pages(house: &Arc<House>, seed: u64, until: Instant) -> Came {
    const PATHS: [&str; 10] = [
        "/",
        "/api/runs?after=%00",
        "/api/runs?after=../..",
        "/runs/../../../etc/passwd",
        "/runs/%2e%2e%2fetc",
        "/metrics",
        "//etc/passwd",
        "/api/rigs?x=1",
        "/runs/019a3c5e77d1-0000",
        "*",
    ];
    let came = repeatedly(house, seed, until, |house, mut dice| async move {
        let path = dice.pick(&PATHS);
        let method = dice.pick(&["GET", "POST", "DELETE", "HEAD", "CONNECT", "X"]);
        let host = dice.pick(&["localhost", "evil.example", "127.0.0.1:1", ""]);
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n\r\n",
            dice.draw()
        );
        let Ok(mut wire) = door(&house, 2 + dice.below(2)).await else {
            return 0;
        };
        let mut answer = Vec::new();
        let asked = async {
            wire.write_all(text.as_bytes()).await?;
            wire.read_to_end(&mut answer).await
        };
        let _ = timeout(PATIENCE, asked).await;
        let leaks = String::from_utf8_lossy(&answer).contains("root:");
        let foreign = host == "evil.example" && answer.starts_with(b"HTTP/1.1 200") && path != "/metrics";
        1 + if leaks || foreign { LET_IN } else { 0 }
    })
    .await;
    Came {
        requests: came.requests % LET_IN,
        let_in: came.requests / LET_IN,
    }
}

/// Each request that wrongly got access adds this value to the count of requests.
const LET_IN: u64 = 1 << 40;
