//! Malicious agents: tests of the tester's side with altered, random, missing and oversized data.
//!
//! A proxy between the tester and a correct agent alters the agent's bytes.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use super::*;

/// The way in which the proxy alters the agent's bytes.
#[derive(Clone, Copy, Debug)]
enum Spoilt {
    /// Flips one bit in random bytes: on average in one byte of this many.
    Bits(u64),
    /// Sends random bytes after this many bytes.
    Junk(usize),
    /// Sends HTTP/2 frames that announce 16 MiB each, after this many bytes.
    Huge(usize),
    /// Sends nothing after this many bytes, and keeps the connection open.
    Silence(usize),
    /// Closes the connection after this many bytes.
    End(usize),
}

/// Returns the next pseudo-random number (Marsaglia's xorshift).
fn draw(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Listens at a path and alters the bytes from `agent`, for one client.
fn between(agent: PathBuf, at: &Path, spoilt: Spoilt, seed: u64) -> JoinHandle<()> {
    let listener = UnixListener::bind(at).unwrap();
    std::thread::spawn(move || {
        let Ok((mut client, _)) = listener.accept() else { return };
        let mut server = UnixStream::connect(agent).unwrap();
        let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let forth = std::thread::spawn(move || {
            let _ = std::io::copy(&mut from_client, &mut to_server);
            let _ = to_server.shutdown(Shutdown::Both);
        });
        spoil(&mut server, &mut client, spoilt, seed);
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
        forth.join().unwrap();
    })
}

fn spoil(from: &mut UnixStream, to: &mut UnixStream, spoilt: Spoilt, seed: u64) {
    let (mut state, mut passed, mut buffer) = (seed | 1 << 40, 0_usize, [0; 4096]);
    loop {
        let Ok(length @ 1..) = from.read(&mut buffer) else {
            return;
        };
        let bytes = &mut buffer[..length];
        let limit = match spoilt {
            Spoilt::Bits(every) => {
                for byte in bytes.iter_mut() {
                    if draw(&mut state).is_multiple_of(every) {
                        *byte ^= 1 << (draw(&mut state) % 8);
                    }
                }
                usize::MAX
            }
            Spoilt::Junk(limit) | Spoilt::Huge(limit) | Spoilt::Silence(limit) | Spoilt::End(limit) => limit,
        };
        let sound = length.min(limit.saturating_sub(passed));
        if to.write_all(&bytes[..sound]).is_err() {
            return;
        }
        passed += length;
        if sound == length {
            continue;
        }
        let junk = |state: &mut u64| -> Vec<u8> {
            match spoilt {
                // A DATA frame of stream 3, announced as 16 MiB - 1 long, of which only a little is sent.
                Spoilt::Huge(_) => vec![0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 3, 0, 0xFF, 0xFF, 0xFF, 0xFF],
                _ => (0..512).map(|_| (draw(state) >> 32) as u8).collect(),
            }
        };
        match spoilt {
            Spoilt::Junk(_) | Spoilt::Huge(_) => {
                // Send data until the tester closes the connection.
                while to.write_all(&junk(&mut state)).is_ok() {}
                return;
            }
            // Drop all further bytes of the agent, so that the tester must end the connection.
            Spoilt::Silence(_) => while matches!(from.read(&mut buffer), Ok(1..)) {},
            _ => {}
        }
        return;
    }
}

/// Uses a session as a test procedure does, but accepts any reply. Returns how the session ended.
fn worked(address: &AgentAddress) -> String {
    let patience = Duration::from_millis(500);
    let mut client = match AgentClient::connect(address, patience) {
        Ok(client) => client,
        Err(why) => return why,
    };
    for number in 0..20 {
        let asked = [create_qp(), register(4096), send(1, number)];
        for (nth, command) in asked.into_iter().enumerate() {
            if let Err(gone) = client.send(number * 3 + nth as u64, command) {
                return gone.0;
            }
        }
        match client.recv(patience) {
            Err(gone) => return gone.0,
            Ok(None) => return "nothing came".into(),
            Ok(Some(_)) => {}
        }
    }
    "it came to its end".into()
}

#[test]
fn tester_survives_any_agent_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::start(Listen::Unix(directory.path().join("agent.sock")), None, 64);
    let lengths = [0, 9, 40, 100, 200, 300, 400, 600];
    let mut cases: Vec<Spoilt> = [20, 60, 200, 800]
        .into_iter()
        .cycle()
        .take(48)
        .map(Spoilt::Bits)
        .collect();
    cases.extend(lengths.map(Spoilt::Junk));
    cases.extend(lengths.map(Spoilt::Huge));
    cases.extend(lengths.map(Spoilt::Silence));
    cases.extend(lengths.map(Spoilt::End));
    let agent_at = directory.path().join("agent.sock");
    let said: Vec<(Spoilt, String)> = std::thread::scope(|scope| {
        let all: Vec<_> = cases
            .into_iter()
            .enumerate()
            .map(|(number, spoilt)| {
                let (at, agent_at) = (directory.path().join(number.to_string()), agent_at.clone());
                scope.spawn(move || {
                    let proxy = between(agent_at, &at, spoilt, number as u64 + 1);
                    let address = AgentAddress {
                        place: Place::Unix(at),
                        tls: None,
                    };
                    let said = worked(&address);
                    proxy.join().unwrap();
                    (spoilt, said)
                })
            })
            .collect();
        all.into_iter().map(|case| case.join().unwrap()).collect()
    });
    for (spoilt, said) in &said {
        assert!(!said.is_empty(), "{spoilt:?}: an end without a word");
    }
    let cut = |said: &&(Spoilt, String)| matches!(said.0, Spoilt::Junk(..=100) | Spoilt::End(..=100));
    let ended = said.iter().filter(cut).filter(|(_, said)| said.contains("agent at "));
    assert_eq!(ended.count(), said.iter().filter(cut).count(), "{said:?}");
    // The agent still works, and destroys all objects.
    let mut sound = agent.connect();
    made_qp(&mut sound);
    drop(sound);
    until_destroyed(&agent.strings);
}
