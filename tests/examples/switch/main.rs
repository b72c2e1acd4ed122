//! A switch of three ports between cables of the lab: `switch DIRECTORY MODEL`.
//!
//! Ports 1 and 3 are the sockets `switch1` and `switch3` in the directory. The far end of each is the last sender to
//! that socket. Port 2 is connected to the device model that listens at MODEL. Datagrams have the form of `verbatimd
//! model`: two bytes of length, 0x02, a native packet.

mod agent;
mod fabric;

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Context;

use fabric::{PORTS, Switch};

/// Number of bytes before a packet: the length and the kind.
const HEAD: usize = 3;
const KIND_PACKET: u8 = 2;
/// Buffer size in bytes. The native packets of the lab are shorter.
const LONGEST: usize = 8192;

/// A port: its own socket, and the address of its cable's far end.
struct Port {
    socket: UnixDatagram,
    far: Mutex<Option<PathBuf>>,
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(directory), Some(model)) = (arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: switch DIRECTORY MODEL");
    };
    let port = |number: u8| {
        let path = directory.join(format!("switch{number}"));
        let socket = UnixDatagram::bind(&path).with_context(|| format!("making {}", path.display()))?;
        let far = (number == 2).then(|| model.clone());
        Ok(Port {
            socket,
            far: Mutex::new(far),
        })
    };
    let ports: Vec<Port> = (1..=PORTS).map(port).collect::<anyhow::Result<_>>()?;
    let (ports, switch) = (Arc::new(ports), Arc::new(Mutex::new(Switch::new())));
    let serve = |number: u8| {
        let (ports, switch) = (Arc::clone(&ports), Arc::clone(&switch));
        thread::spawn(move || serve(&ports, &switch, number))
    };
    let all: Vec<_> = (1..=PORTS).map(serve).collect();
    for port in all {
        port.join()
            .map_err(|_| anyhow::anyhow!("a port's thread panicked"))?
            .context("receiving")?;
    }
    Ok(())
}

/// Handles the packets that arrive at a port, forever.
fn serve(ports: &[Port], switch: &Mutex<Switch>, number: u8) -> std::io::Result<()> {
    let port = &ports[usize::from(number) - 1];
    let mut message = [0; LONGEST];
    loop {
        let (length, from) = port.socket.recv_from(&mut message)?;
        if number != 2 {
            *port.far.lock().unwrap_or_else(PoisonError::into_inner) = from.as_pathname().map(Path::to_owned);
        }
        if length <= HEAD || message[2] != KIND_PACKET {
            continue;
        }
        let mut switch = switch.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((out, packet)) = switch.take(number, &message[HEAD..length]) {
            send(&ports[usize::from(out) - 1], &packet);
        }
    }
}

/// Sends a packet; the packet is lost if the far end is absent.
fn send(port: &Port, packet: &[u8]) {
    let far = port.far.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(far) = far.as_deref() else { return };
    let length = u16::try_from(1 + packet.len()).unwrap_or(u16::MAX);
    let message = [&length.to_be_bytes(), [KIND_PACKET].as_slice(), packet].concat();
    let _ = port.socket.send_to(&message, far);
}
