//! The machine with the device under test, reached from outside: the data cable and the management port.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::net::UnixDatagram,
    time::{Duration, Instant},
};

use verbatim_lab::machine::Machine;

use crate::{
    DUT, LIMIT,
    arp::{Arp, MACHINE, TESTER},
    on, run,
};

/// The tester's end of the cable.
struct Cable(UnixDatagram);

impl Cable {
    fn of(machine: &Machine) -> Self {
        let sockets = machine.data_sockets().unwrap();
        let _ = fs::remove_file(&sockets.tester);
        let socket = UnixDatagram::bind(&sockets.tester).unwrap();
        socket.connect(&sockets.machine).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        Self(socket)
    }

    fn send(&self, arp: Arp, destination: [u8; 6]) {
        self.0.send(&arp.frame(destination)).unwrap();
    }

    /// Returns the next ARP frame that `wanted` accepts. Meanwhile, sends `arp` repeatedly.
    fn exchange(&self, arp: Option<Arp>, wanted: impl Fn(&Arp) -> bool) -> Arp {
        let deadline = Instant::now() + LIMIT;
        let mut frame = [0; 2048];
        while Instant::now() < deadline {
            if let Some(arp) = arp {
                self.send(arp, [0xff; 6]);
            }
            while let Ok(length) = self.0.recv(&mut frame) {
                if let Some(seen) = Arp::of(&frame[..length]).filter(&wanted) {
                    return seen;
                }
            }
        }
        panic!("no such ARP frame within {LIMIT:?}");
    }
}

#[test]
fn machine_answers_arp() {
    on(&DUT, |machine| {
        let cable = Cable::of(machine);
        let request = Arp {
            operation: 1,
            from: TESTER,
            to: ([0; 6], MACHINE.1),
        };
        let reply = cable.exchange(Some(request), |arp| arp.operation == 2);
        assert_eq!((reply.from, reply.to), (MACHINE, TESTER));
    });
}

#[test]
fn machine_sends_arp_and_learns_reply() {
    on(&DUT, |machine| {
        let cable = Cable::of(machine);
        run(
            machine,
            "ip neigh flush all; (ping -c 5 -W 1 10.0.0.2 >/dev/null 2>&1 &)",
        );
        let request = cable.exchange(None, |arp| arp.operation == 1);
        assert_eq!((request.from, request.to.1), (MACHINE, TESTER.1));
        let reply = Arp {
            operation: 2,
            from: TESTER,
            to: MACHINE,
        };
        cable.send(reply, MACHINE.0);
        // Look repeatedly, because the machine's kernel may receive the reply later than QEMU.
        let neighbours = run(
            machine,
            "n=0; until ip neigh show 10.0.0.2 | grep lladdr; do n=$((n+1)); [ $n -gt 200 ] && exit 1; sleep 0.05; done",
        );
        assert!(neighbours.contains("52:54:00:00:00:0a"), "{neighbours}");
    });
}

#[test]
fn active_port_has_ipv4_and_ipv6_gids() {
    on(&DUT, |machine| {
        let info = run(machine, "ibv_devinfo -v -d rxe0");
        assert!(info.contains("PORT_ACTIVE"), "{info}");
        assert!(info.contains("::ffff:10.0.0.1") && info.contains("fd00::1"), "{info}");
    });
}

#[test]
fn host_tcp_port_reaches_agent_port() {
    on(&DUT, |machine| {
        let serve = "echo hello from inside | nc -l -p 7000 >/dev/null &";
        run(machine, &format!(". /etc/lab.sh; {serve} started $! nc listens 1B58"));
        let address = machine.agent_address().unwrap();
        assert!(address.ip().is_loopback());
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert_eq!(said, "hello from inside\n");
        drop(stream.write(b"x"));
    });
}

#[test]
fn console_log_records_the_boot() {
    on(&DUT, |machine| {
        let console = fs::read_to_string(machine.console()).unwrap();
        assert!(
            console.contains("machine: script dut.sh") && console.contains("machine: ready"),
            "{console}"
        );
        assert!(!console.contains("was refused"), "{console}");
    });
}
