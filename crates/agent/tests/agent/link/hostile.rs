//! Agents that mean harm: what the tester's side makes of any bytes, and of answers that are well formed and make no sense.
//!
//! A proxy stands between the tester and a sound agent, and spoils what the agent says.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use super::*;

/// How what an agent says is spoilt.
#[derive(Clone, Copy, Debug)]
enum Spoilt {
    /// One bit of so many bytes each, drawn.
    Bits(u64),
    /// Everything after so many bytes is of the attacker's own choosing.
    Junk(usize),
    /// Everything after so many bytes is frames of HTTP/2 that announce 16 MiB each.
    Huge(usize),
    /// After so many bytes nothing comes any more, and the connection stays.
    Silence(usize),
    /// After so many bytes it ends.
    End(usize),
}

/// A number that depends on what went before alone (Marsaglia's xorshift).
fn draw(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Listens at a path, and spoils what comes from `agent`; for one client.
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
                // DATA of stream 3, 16 MiB - 1 long, of which but little comes.
                Spoilt::Huge(_) => vec![0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 3, 0, 0xFF, 0xFF, 0xFF, 0xFF],
                _ => (0..512).map(|_| (draw(state) >> 32) as u8).collect(),
            }
        };
        match spoilt {
            Spoilt::Junk(_) | Spoilt::Huge(_) => {
                // Until the tester has had enough of it.
                while to.write_all(&junk(&mut state)).is_ok() {}
                return;
            }
            // What the agent still says is not passed on; the tester ends it.
            Spoilt::Silence(_) => while matches!(from.read(&mut buffer), Ok(1..)) {},
            _ => {}
        }
        return;
    }
}

/// Works a session as a procedure does, and takes whatever comes. Says how it ended.
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
fn whatever_an_agent_says_the_tester_ends_with_words_and_never_hangs() {
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
    // The agent itself was never harmed.
    let mut sound = agent.connect();
    made_qp(&mut sound);
    drop(sound);
    until_destroyed(&agent.strings);
}
