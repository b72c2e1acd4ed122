//! Two rxe machines on a switch that loses packets. The test captures the packets at the port of each machine, and
//! makes the captures of the tutorial in `docs/inspect.md`. `BLESS=1 cargo test -p verbatim-tests --test labs
//! rxe::stalled` rewrites the captures.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use verbatim_lab::machine::{BootOptions, DUT_SCRIPT, Machine, Share, console_log};
use verbatim_lab::workspace::root;
use verbatim_tests::product::{Place, run};
use verbatim_wire::{Medium, Opcode, Packet, Psn};

use super::guest;

/// Number of messages that each machine sends.
const MESSAGES: u32 = 20;
/// The second packet of the first machine's message `LOSES_MIDDLE` is lost. `LOSES_LAST` is the number of another
/// message, and how many times the last packet of that message is lost.
const LOSES_MIDDLE: u32 = 8;
const LOSES_LAST: (u32, u32) = (14, 3);
/// The names of the captures in `docs/examples`.
const NAMES: [&str; 2] = ["stall-sender.pcap.gz", "stall-receiver.pcap.gz"];

/// Selects the packets of the first machine that the switch drops.
#[derive(Default)]
struct Loss {
    firsts: u32,
    lasts: u32,
    middle: Option<Psn>,
    last: Option<(Psn, u32)>,
}

impl Loss {
    /// Returns whether this frame of the first machine is lost.
    fn takes(&mut self, frame: &[u8]) -> bool {
        let Ok(packet) = Packet::parse(Medium::Ethernet, frame) else {
            return false;
        };
        let psn = packet.bth().psn();
        if let Some((lost, times)) = &mut self.last
            && *lost == psn
            && *times > 0
        {
            *times -= 1;
            return true;
        }
        match packet.opcode() {
            Opcode::RC_SEND_FIRST => self.firsts += 1,
            Opcode::RC_SEND_MIDDLE if self.firsts == LOSES_MIDDLE && self.middle.is_none() => {
                self.middle = Some(psn);
                return true;
            }
            Opcode::RC_SEND_LAST => {
                self.lasts += 1;
                if self.lasts >= LOSES_LAST.0 && self.last.is_none() {
                    self.last = Some((psn, LOSES_LAST.1 - 1));
                    return true;
                }
            }
            _ => {}
        }
        false
    }
}

/// The switch, with a capture of the port of each machine.
struct Switch {
    begin: Instant,
    captures: [Mutex<Vec<u8>>; 2],
    loss: Mutex<Loss>,
    is_over: AtomicBool,
}

impl Switch {
    fn new() -> Self {
        // Header of a pcap file with nanoseconds, for Ethernet.
        let header: [u32; 6] = [0xA1B2_3C4D, 0x0004_0002, 0, 0, 262_144, 1];
        let capture = || Mutex::new(header.map(u32::to_le_bytes).concat());
        Self {
            begin: Instant::now(),
            captures: [capture(), capture()],
            loss: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Forwards the frames of one machine to the other machine until the switch ends.
    fn carry(&self, from: usize, ports: &[UnixDatagram; 2]) {
        let mut buffer = vec![0; 1 << 16];
        while !self.is_over.load(Ordering::Relaxed) {
            let Ok(length) = ports[from].recv(&mut buffer) else {
                continue;
            };
            let frame = &buffer[..length];
            self.captured(from, frame);
            let mut loss = self.loss.lock().unwrap_or_else(PoisonError::into_inner);
            if from == 0 && loss.takes(frame) {
                continue;
            }
            drop(loss);
            self.captured(1 - from, frame);
            ports[1 - from].send(frame).unwrap();
        }
    }

    fn captured(&self, at: usize, frame: &[u8]) {
        // Leave other traffic out of the captures.
        if Packet::parse(Medium::Ethernet, frame).is_err() {
            return;
        }
        let mut capture = self.captures[at].lock().unwrap_or_else(PoisonError::into_inner);
        let time = self.begin.elapsed();
        let length = u32::try_from(frame.len()).unwrap();
        let record = [
            u32::try_from(time.as_secs()).unwrap(),
            time.subsec_nanos(),
            length,
            length,
        ];
        capture.extend(record.map(u32::to_le_bytes).concat());
        capture.extend(frame);
    }
}

/// Ends the switch when dropped, even if a test fails.
struct Ends<'s>(&'s AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Boots a machine whose addresses have this last byte.
fn boot(last: u8) -> Option<(Machine, Share)> {
    let image = guest::image()?;
    let share = Share::new().unwrap();
    let script = DUT_SCRIPT
        .replace("10.0.0.1/24 fd00::1/64", &format!("10.0.0.{last}/24 fd00::{last}/64"))
        .replace(
            "up \"$data\"",
            &format!("ip link set \"$data\" address 52:54:00:00:01:0{last}\nup \"$data\""),
        );
    share.write("dut.sh", script).unwrap();
    let console = console_log(&format!("test-stalled-{last}")).unwrap();
    let options = BootOptions::new(share.path(), "dut.sh", console).with_data_nic();
    let machine = Machine::boot(&image, &options).unwrap_or_else(|error| panic!("{error}"));
    Some((machine, share))
}

/// Returns the switch's end of a machine's cable.
fn port(machine: &Machine) -> UnixDatagram {
    let sockets = machine.data_sockets().unwrap();
    let port = UnixDatagram::bind(&sockets.tester).unwrap();
    port.connect(&sockets.machine).unwrap();
    port.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    port
}

/// Number of tries of the exchange. A machine on a busy host may stall until the other machine has no retry left,
/// or until the other machine repeats packets before a NAK arrives.
const TRIES: u32 = 3;

/// Boots two machines.
fn machines() -> Option<[(Machine, Share); 2]> {
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| boot(1));
        (first.join().unwrap(), boot(2))
    });
    Some([first?, second?])
}

/// Exchanges all messages once. Returns `None` when a machine gives up.
fn exchanged([first, second]: [&Machine; 2], ports: &[UnixDatagram; 2]) -> Option<[Vec<u8>; 2]> {
    let switch = Switch::new();
    let is_whole = thread::scope(|scope| {
        for from in 0..2 {
            let switch = &switch;
            scope.spawn(move || switch.carry(from, ports));
        }
        let _ends = Ends(&switch.is_over);
        let gid = |machine: &Machine, last: u8| guest::gid_index(machine, "rxe0", &format!("ffff:0a00:000{last}"));
        let command = |gid| format!("ibv_rc_pingpong -d rxe0 -g {gid} -n {MESSAGES} -s 4096 -m 1024");
        let server = format!(
            "pkill ibv_rc_pingpong; . /etc/lab.sh; {} >/run/server.out 2>&1 & started $! server listens 4853",
            command(gid(second, 2))
        );
        guest::run(second, &server);
        let client = format!("{} 10.0.0.2", command(gid(first, 1)));
        let ran = first
            .run(&client, guest::LIMIT)
            .unwrap_or_else(|error| panic!("{error}"));
        let is_whole = ran.status == 0 && ran.text().contains(&format!("{MESSAGES} iters"));
        if !is_whole {
            eprintln!("{client}: {}", ran.text());
        }
        is_whole
    });
    let bytes = |capture: Mutex<Vec<u8>>| capture.into_inner().unwrap_or_else(PoisonError::into_inner);
    is_whole.then(|| switch.captures.map(bytes))
}

/// Returns the rules that the only connection breaks unless packets were lost. Asserts that the connection breaks
/// no other rule.
fn or_lost(place: &Place, capture: &str) -> Vec<String> {
    let output = run(&mut place.verbatim(&format!("inspect --rc --json {capture}")));
    assert_eq!(output.code(), 0, "{output}");
    let connection: Value = serde_json::from_str(output.stdout.lines().next().unwrap()).unwrap();
    let findings = connection["or_lost"].as_array().unwrap().iter();
    findings
        .map(|finding| finding["rule"].as_str().unwrap().to_owned())
        .collect()
}

/// Writes the captures. Returns whether they show the losses.
fn show_losses(place: &Place, captures: [Vec<u8>; 2]) -> bool {
    for (name, capture) in NAMES.iter().zip(captures) {
        let plain = place.write(name.trim_end_matches(".gz"), capture);
        let packed = Command::new("gzip")
            .arg("-9nkf")
            .arg(&plain)
            .stdin(Stdio::null())
            .status();
        assert!(packed.unwrap().success());
    }
    // The capture before the switch has all packets, and a NAK that reports the loss. The capture after the switch
    // lacks the lost packets.
    let [sender, receiver] = NAMES.map(|name| or_lost(place, name));
    let has = |rules: &[String], rule: &str| rules.iter().any(|name| name == rule);
    let is_shown = has(&sender, "sequence-nak")
        && !has(&sender, "psn")
        && has(&receiver, "psn")
        && !has(&receiver, "sequence-nak");
    if !is_shown {
        eprintln!("sender's capture: {sender:?}; receiver's capture: {receiver:?}");
    }
    is_shown
}

#[test]
fn captures_show_losses_of_switch() {
    let Some([(first, _share), (second, _other_share)]) = machines() else {
        return;
    };
    let ports = [port(&first), port(&second)];
    let place = Place::new();
    let is_shown = (0..TRIES).any(|_| {
        let captures = exchanged([&first, &second], &ports);
        captures.is_some_and(|captures| show_losses(&place, captures))
    });
    assert!(is_shown, "no exchange of {TRIES} ended well and shows the losses");
    if std::env::var_os("BLESS").is_some() {
        for name in NAMES {
            fs::copy(place.path(name), root().join("docs/examples").join(name)).unwrap();
        }
    }
}
