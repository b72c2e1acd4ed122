//! Bounds of the texts and lists that an agent sends. The agent may be hostile, and its texts reach reasons, logs,
//! records and the answers of the daemon.

use verbatim_proto::agent::session_response::Kind;
use verbatim_proto::agent::{GetAgentResponse, Opened, SessionResponse, event, reply};
use verbatim_text::cut;

/// Longest text of an agent, such as the reason of a refusal, in bytes.
const TEXT: usize = 4096;
/// Longest name that an agent sends, such as that of a device or an event, in bytes.
const NAME: usize = 256;
/// Largest number of elements in a list of an agent. An index into the GID table has 8 bits.
const LIST: usize = 256;

/// Cuts a text of an agent.
pub(super) fn text(mut of: String) -> String {
    cut(&mut of, TEXT);
    of
}

/// Cuts the names in the description of an agent.
///
/// # Errors
/// When the agent names too many devices.
pub(super) fn agent(of: &mut GetAgentResponse) -> Result<(), String> {
    few("devices", of.devices.len())?;
    cut(&mut of.version, NAME);
    cut(&mut of.host, NAME);
    of.devices.iter_mut().for_each(|device| cut(device, NAME));
    Ok(())
}

/// Cuts the texts and names of a message.
///
/// # Errors
/// When a list is too long.
pub(super) fn message(of: &mut SessionResponse) -> Result<(), String> {
    match &mut of.kind {
        Some(Kind::Answer(answer)) => match answer.reply.as_mut().and_then(|reply| reply.kind.as_mut()) {
            Some(reply::Kind::Opened(of)) => opened(of)?,
            Some(reply::Kind::Refused(refused)) => cut(&mut refused.text, TEXT),
            // Each of these has only numbers, or the bytes that the tester asked for.
            Some(
                reply::Kind::Memory(_)
                | reply::Kind::Qp(_)
                | reply::Kind::Done(_)
                | reply::Kind::Status(_)
                | reply::Kind::Bytes(_),
            )
            | None => {}
        },
        Some(Kind::Event(event)) => match &mut event.kind {
            Some(event::Kind::AsyncEvent(of)) => cut(&mut of.name, NAME),
            Some(event::Kind::Completion(_)) | None => {}
        },
        None => {}
    }
    Ok(())
}

fn opened(of: &mut Opened) -> Result<(), String> {
    few("GIDs", of.gids.len())?;
    for text in [&mut of.device, &mut of.firmware, &mut of.host, &mut of.driver] {
        cut(text, NAME);
    }
    of.gids.iter_mut().for_each(|gid| cut(&mut gid.kind, NAME));
    let Some(can) = &of.capabilities else { return Ok(()) };
    few("operations", can.operations.len().max(can.answers.len()))?;
    few("services", can.services.len())?;
    few("path MTUs", can.path_mtus.len())?;
    few("states", can.qp_states.len())?;
    few("timeouts", can.timeouts.len())?;
    few("RNR timers", can.min_rnr_timers.len())?;
    few("RNR retries", can.rnr_retries.len())
}

fn few(what: &str, count: usize) -> Result<(), String> {
    if count <= LIST {
        return Ok(());
    }
    Err(format!(
        "it sent {count} {what}, expected at most {LIST}; correct the agent"
    ))
}

#[cfg(test)]
mod tests {
    use verbatim_proto::agent as proto;

    use super::*;

    const HUGE: usize = 20 << 20;

    fn answer(kind: reply::Kind) -> SessionResponse {
        SessionResponse {
            at: None,
            kind: Some(Kind::Answer(proto::Answer {
                number: 1,
                reply: Some(proto::Reply { kind: Some(kind) }),
            })),
        }
    }

    #[test]
    fn every_text_of_an_agent_is_bounded() {
        use prost::Message;
        let huge = || "x".repeat(HUGE);
        let gid = proto::Gid {
            index: 0,
            gid: vec![0; 16],
            kind: huge(),
        };
        let opened = Opened {
            device: huge(),
            firmware: huge(),
            host: huge(),
            driver: huge(),
            gids: vec![gid],
            ..Opened::default()
        };
        let refused = proto::Refused { errno: 0, text: huge() };
        let event = proto::AsyncEvent { name: huge(), qp: 0 };
        let event = proto::Event {
            kind: Some(event::Kind::AsyncEvent(event)),
        };
        let event = SessionResponse {
            at: None,
            kind: Some(Kind::Event(event)),
        };
        for mut of in [
            answer(reply::Kind::Opened(opened)),
            answer(reply::Kind::Refused(refused)),
            event,
        ] {
            message(&mut of).unwrap();
            assert!(of.encoded_len() < TEXT + 100, "{} bytes", of.encoded_len());
        }
        let mut of = GetAgentResponse {
            version: huge(),
            host: huge(),
            devices: vec![huge(); 2],
            ..GetAgentResponse::default()
        };
        agent(&mut of).unwrap();
        assert!(of.encoded_len() < 5 * NAME, "{} bytes", of.encoded_len());
    }

    #[test]
    fn long_list_of_an_agent_is_an_error() {
        let opened = Opened {
            gids: vec![proto::Gid::default(); LIST + 1],
            ..Opened::default()
        };
        let error = message(&mut answer(reply::Kind::Opened(opened))).unwrap_err();
        assert!(error.contains("257 GIDs, expected at most 256"), "{error}");
        let mut of = GetAgentResponse {
            devices: vec![String::new(); LIST + 1],
            ..GetAgentResponse::default()
        };
        assert!(agent(&mut of).is_err());
    }
}
