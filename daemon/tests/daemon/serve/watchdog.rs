//! The watchdog of a daemon that runs. What it is not fed for is a test of its own, beside it.

use std::os::unix::net::UnixDatagram;

use super::harness::{Bench, Daemon, LIMIT};

#[test]
fn a_daemon_that_serves_feeds_the_watchdog_again_and_again() {
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
