//! The watchdog of a running daemon. Tests beside the watchdog's code cover hangs.

use std::os::unix::net::UnixDatagram;

use super::harness::{Bench, Daemon, LIMIT};

#[test]
fn serving_daemon_feeds_watchdog() {
    let bench = Bench::new();
    let manager = UnixDatagram::bind(bench.path("notify")).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let _daemon = Daemon::start(
        bench
            .command()
            .env("NOTIFY_SOCKET", bench.path("notify"))
            .env("WATCHDOG_USEC", "600000"),
    );
    for _ in 0..3 {
        let mut told = [0; 256];
        while &told[..10] != b"WATCHDOG=1" {
            manager.recv(&mut told).unwrap();
        }
    }
}
