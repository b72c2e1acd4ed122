//! Capabilities that the hosts reported when they opened their devices. The tester ends the procedure before it sends a
//! command that a device cannot execute.

use std::collections::BTreeMap;

use verbatim_record::Side;
use verbatim_record::verbs::pb::{self, Operation};
use verbatim_record::verbs::{Command, asks_for, capabilities, takes, takes_value};
use verbatim_wire::Mtu;
use verbatim_wire::packet::{AckTimeout, Medium, Packet, RnrTimer};

use super::options::ChannelOptions;
use crate::stop::{Step, Stop};
use crate::tester::Tester;

/// Device name and capabilities by side, for each host that reported capabilities.
#[derive(Debug, Default)]
pub(super) struct Offered(BTreeMap<Side, (String, pb::Capabilities)>);

impl Offered {
    /// Stores the capabilities of an opened device.
    pub(super) fn learn(&mut self, side: Side, opened: &pb::Opened) {
        match capabilities(opened) {
            Some(has) => self.0.insert(side, (opened.device.clone(), has.into_owned())),
            None => self.0.remove(&side),
        };
    }

    /// Names, in a sentence, the capability that a command to the host of `side` needs and its device lacks. For a
    /// send request, also considers the other side's device as responder. None if nothing is lacking.
    fn lacks(&self, side: Side, command: &Command) -> Option<String> {
        let own = self.0.get(&side).and_then(|(device, has)| {
            let lacks = missing(has, command)?;
            Some(format!(
                "the {side}'s device {device} has no {lacks}, as its agent says"
            ))
        });
        let other = || {
            let Command::PostSend(request) = command else {
                return None;
            };
            self.lacks_as_responder(other_than(side), request.operation())
        };
        own.or_else(other)
    }

    /// Returns the options with the nearest values that the side's device supports. Replaces the ACK timeout and
    /// the RNR timer. Replaces the RNR retry count only if it has its default value. If the device cannot disable
    /// the ACK timeout, uses the longest timeout instead.
    pub(super) fn nearest(&self, side: Side, asked: &ChannelOptions) -> ChannelOptions {
        let Some((_, has)) = self.0.get(&side) else {
            return *asked;
        };
        let timeout = match asked.timeout {
            timeout if takes_value(&has.timeouts, timeout.0) => None,
            AckTimeout::OFF => among(&has.timeouts, u8::MAX, 1),
            timeout => among(&has.timeouts, timeout.0, 1),
        };
        ChannelOptions {
            timeout: timeout.map_or(asked.timeout, AckTimeout),
            min_rnr_timer: among(&has.min_rnr_timers, asked.min_rnr_timer.0, 0).map_or(asked.min_rnr_timer, RnrTimer),
            // A test that requests another value than the default tests that value, so keep it.
            rnr_retry: match asked.rnr_retry {
                USUAL_RNR_RETRY => among(&has.rnr_retries, USUAL_RNR_RETRY, 0).unwrap_or(USUAL_RNR_RETRY),
                other => other,
            },
            ..*asked
        }
    }

    /// Returns the depths of the send and receive queue: `asked`, or the device's limit if that is lower.
    pub(super) fn depths(&self, side: Side, asked: u32) -> (u32, u32) {
        let least = |most: u32| if most == 0 { asked } else { asked.min(most) };
        let has = self.0.get(&side).map(|(_, has)| has);
        has.map_or((asked, asked), |has| {
            (least(has.max_send_depth), least(has.max_receive_depth))
        })
    }

    fn lacks_as_responder(&self, side: Side, operation: Operation) -> Option<String> {
        let (device, has) = self.0.get(&side)?;
        (!takes(&has.answers, operation)).then(|| {
            format!(
                "the {side}'s device {device} executes no {} of the other side, as its agent says",
                name_of(operation)
            )
        })
    }

    /// Names, in a sentence, the capability that the DUT needs for the request in a frame and lacks. None if it
    /// lacks none.
    fn lacks_for_frame(&self, bytes: &[u8]) -> Option<String> {
        let (_, has) = self.0.get(&Side::Dut)?;
        if has.answers.is_empty() {
            return None;
        }
        let opcode = Packet::parse(Medium::Ethernet, bytes).ok()?.bth().opcode();
        self.lacks_as_responder(Side::Dut, asks_for(opcode)?)
    }
}

/// Returns the longest path MTU of the device that does not exceed the requested one, or else its shortest path MTU.
pub(super) fn nearest_path_mtu(opened: &pb::Opened, asked: Mtu) -> Mtu {
    let codes = opened
        .capabilities
        .as_ref()
        .map_or(&[][..], |has| has.path_mtus.as_slice());
    let codes = codes.iter().filter_map(|code| u8::try_from(*code).ok());
    let shorter = codes.clone().filter(|code| *code <= asked.0).max();
    Mtu(shorter.or_else(|| codes.min()).unwrap_or(asked.0))
}

/// Default RNR retry count of a connection.
const USUAL_RNR_RETRY: u8 = 7;

/// Returns the listed value nearest to `asked` that is at least `least`. Of two equally near values, returns the
/// lesser.
fn among(listed: &[u32], asked: u8, least: u8) -> Option<u8> {
    let values = listed.iter().filter_map(|value| u8::try_from(*value).ok());
    values
        .filter(|value| *value >= least)
        .min_by_key(|value| (value.abs_diff(asked), *value))
}

fn other_than(side: Side) -> Side {
    match side {
        Side::Dut => Side::Tester,
        Side::Tester => Side::Dut,
    }
}

/// Returns the name of the capability that a command needs and a device lacks.
fn missing(has: &pb::Capabilities, command: &Command) -> Option<String> {
    let beyond = |most: u32, asked: u32| most != 0 && asked > most;
    let lacks = |listed: &[u32], value: Option<u32>| value.filter(|of| !listed.is_empty() && !listed.contains(of));
    match command {
        Command::RegisterMemory(of) if beyond(has.max_memory, of.length) => Some(format!(
            "memory of {} bytes: at most {} can be registered",
            of.length, has.max_memory
        )),
        Command::CreateQp(of) => {
            if !has.services.is_empty() && !has.services.contains(&of.service) {
                return Some(format!("service {}", words(of.service().as_str_name(), "SERVICE_")));
            }
            [
                ("send", has.max_send_depth, of.send_depth),
                ("receive", has.max_receive_depth, of.receive_depth),
            ]
            .into_iter()
            .find(|(_, most, asked)| beyond(*most, *asked))
            .map(|(queue, most, asked)| format!("{queue} queue of {asked} requests: at most {most}"))
        }
        Command::ModifyQp(of) => {
            if !has.qp_states.is_empty() && !has.qp_states.contains(&of.state) {
                return Some(format!(
                    "queue pair state {}",
                    words(of.state().as_str_name(), "QP_STATE_")
                ));
            }
            let set = of.attributes.as_ref()?;
            [
                ("path MTU of code", &has.path_mtus, set.path_mtu),
                ("local ACK timeout of code", &has.timeouts, set.timeout),
                ("min_rnr_timer", &has.min_rnr_timers, set.min_rnr_timer),
                ("rnr_retry", &has.rnr_retries, set.rnr_retry),
            ]
            .into_iter()
            .find_map(|(what, listed, value)| Some(format!("{what} {}", lacks(listed, value)?)))
        }
        Command::PostSend(of) => {
            if !takes(&has.operations, of.operation()) {
                return Some(name_of(of.operation()));
            }
            let length = of.local.as_ref().map_or(0, |local| local.length);
            beyond(has.max_message, length).then(|| format!("message of {length} bytes: at most {}", has.max_message))
        }
        _ => None,
    }
}

fn name_of(operation: Operation) -> String {
    words(operation.as_str_name(), "OPERATION_")
}

fn words(name: &str, prefix: &str) -> String {
    name.trim_start_matches(prefix).replace('_', " ")
}

impl Tester<'_> {
    /// Checks that the devices support a command, as far as they reported their capabilities. The tester checks every
    /// command before sending it. A procedure may call this to choose another command instead.
    ///
    /// # Errors
    /// [`Stop::NotOffered`] when a device reported that it lacks a capability that the command needs.
    pub fn must_be_offered(&self, side: Side, command: &Command) -> Step {
        self.peer
            .offered
            .lacks(side, command)
            .map_or(Ok(()), |why| Err(Stop::NotOffered(why)))
    }

    /// Checks that the DUT executes the request in a frame, as far as it reported its capabilities.
    pub(super) fn must_be_executed(&self, bytes: &[u8]) -> Step {
        self.peer
            .offered
            .lacks_for_frame(bytes)
            .map_or(Ok(()), |why| Err(Stop::NotOffered(why)))
    }

    /// Whether the DUT supports send requests with this operation, as its host reported. Use this in procedures that
    /// can do without the operation.
    #[must_use]
    pub fn offers(&self, operation: Operation) -> bool {
        let of_dut = self.peer.offered.0.get(&Side::Dut);
        of_dut.is_none_or(|(_, has)| takes(&has.operations, operation))
    }

    /// Whether the DUT executes the request in a frame, as its host reported. Use this in procedures that can do
    /// without the request.
    #[must_use]
    pub fn executes_frame(&self, bytes: &[u8]) -> bool {
        self.peer.offered.lacks_for_frame(bytes).is_none()
    }

    /// Whether a queue pair of the DUT supports this path MTU, as its host reported. Use this in procedures that can do
    /// without the path MTU.
    #[must_use]
    pub fn offers_path_mtu(&self, mtu: Mtu) -> bool {
        let of_dut = self.peer.offered.0.get(&Side::Dut);
        of_dut.is_none_or(|(_, has)| has.path_mtus.is_empty() || has.path_mtus.contains(&mtu.0.into()))
    }

    /// Whether a queue pair of the DUT supports this ACK timeout, as its host reported.
    #[must_use]
    pub fn offers_timeout(&self, timeout: AckTimeout) -> bool {
        let of_dut = self.peer.offered.0.get(&Side::Dut);
        of_dut.is_none_or(|(_, has)| takes_value(&has.timeouts, timeout.0))
    }

    /// Whether the DUT's RNR NAKs can carry this timer code, as its host reported.
    #[must_use]
    pub fn offers_rnr_timer(&self, timer: RnrTimer) -> bool {
        let of_dut = self.peer.offered.0.get(&Side::Dut);
        of_dut.is_none_or(|(_, has)| takes_value(&has.min_rnr_timers, timer.0))
    }

    /// Returns the options that a connection of the DUT uses instead of `options`: the nearest values that the DUT
    /// supports.
    #[must_use]
    pub fn nearest(&self, options: &ChannelOptions) -> ChannelOptions {
        self.nearest_of(Side::Dut, options)
    }

    /// Returns the options that a connection of a side's device uses instead of `options`: the nearest values that the
    /// device supports. Raises the DUT's ACK timeout to [`ACK_TIMEOUT_LEAST`](crate::ACK_TIMEOUT_LEAST) first.
    pub(super) fn nearest_of(&self, side: Side, options: &ChannelOptions) -> ChannelOptions {
        let timeout = match side {
            Side::Dut => self.at_least(options.timeout),
            Side::Tester => options.timeout,
        };
        self.peer.offered.nearest(side, &ChannelOptions { timeout, ..*options })
    }

    /// Returns the ACK timeout that a connection of the DUT uses instead of `timeout`: the nearest that the DUT
    /// supports. Raises `timeout` to [`ACK_TIMEOUT_LEAST`](crate::ACK_TIMEOUT_LEAST) first.
    #[must_use]
    pub fn nearest_timeout(&self, timeout: AckTimeout) -> AckTimeout {
        let options = ChannelOptions {
            timeout,
            ..ChannelOptions::default()
        };
        self.nearest(&options).timeout
    }

    /// Returns how many send requests and receive requests a queue pair of the DUT can hold. Each number is at most
    /// `most`.
    #[must_use]
    pub fn depths(&self, most: u32) -> (u32, u32) {
        self.peer.offered.depths(Side::Dut, most)
    }

    /// Whether the DUT executes requests with this operation as responder, as its host reported. Use this in procedures
    /// that can do without the operation.
    #[must_use]
    pub fn executes(&self, operation: Operation) -> bool {
        self.peer.offered.lacks_as_responder(Side::Dut, operation).is_none()
    }
}

#[cfg(test)]
mod tests {
    use verbatim_wire::packet::Opcode;

    use super::*;

    fn of(has: pb::Capabilities) -> Offered {
        let mut offered = Offered::default();
        let opened = pb::Opened {
            device: "fpga0".into(),
            capabilities: Some(Box::new(has)),
            max_qp_rd_atom: 16,
            max_qp_init_rd_atom: 16,
            ..pb::Opened::default()
        };
        offered.learn(Side::Dut, &opened);
        offered
    }

    fn post(operation: Operation, length: u32) -> Command {
        Command::PostSend(pb::PostSend {
            operation: operation.into(),
            local: Some(pb::Slice {
                length,
                ..pb::Slice::default()
            }),
            ..pb::PostSend::default()
        })
    }

    fn modify(state: pb::QpState, attributes: pb::QpAttributes) -> Command {
        Command::ModifyQp(pb::ModifyQp {
            qp: 1,
            state: state.into(),
            attributes: Some(attributes),
        })
    }

    #[test]
    fn nearest_path_mtu_prefers_shorter() {
        let nearest = |path_mtus: &[u32], asked| {
            let has = pb::Capabilities {
                path_mtus: path_mtus.to_vec(),
                ..pb::Capabilities::default()
            };
            let opened = pb::Opened {
                capabilities: Some(Box::new(has)),
                ..pb::Opened::default()
            };
            super::nearest_path_mtu(&opened, Mtu(asked)).0
        };
        for (has, asked, expected) in [
            (&[][..], 3, 3),
            (&[1, 2, 3], 2, 2),
            (&[1, 3, 5], 4, 3),
            (&[3, 4], 1, 3),
            (&[300], 2, 2),
        ] {
            assert_eq!(nearest(has, asked), expected, "{has:?}, {asked} asked for");
        }
        assert_eq!(super::nearest_path_mtu(&pb::Opened::default(), Mtu(3)), Mtu(3));
    }

    #[test]
    fn connection_takes_nearest_values() {
        let few = of(pb::Capabilities {
            timeouts: vec![10, 16],
            min_rnr_timers: vec![20],
            rnr_retries: vec![3],
            max_send_depth: 4,
            ..pb::Capabilities::default()
        });
        let nearest = |timeout, rnr_retry| {
            let asked = ChannelOptions {
                timeout: AckTimeout(timeout),
                rnr_retry,
                ..ChannelOptions::default()
            };
            let has = few.nearest(Side::Dut, &asked);
            (has.timeout.0, has.min_rnr_timer.0, has.rnr_retry)
        };
        // A disabled timeout is replaced by the longest timeout.
        assert_eq!(nearest(0, 7), (16, 20, 3));
        assert_eq!(nearest(12, 7), (10, 20, 3));
        assert_eq!(nearest(14, 1), (16, 20, 1));
        assert_eq!(few.depths(Side::Dut, 16), (4, 16));
        let asked = ChannelOptions::default();
        assert_eq!(few.nearest(Side::Tester, &asked), asked);
        let only_off = of(pb::Capabilities {
            timeouts: vec![0],
            ..pb::Capabilities::default()
        });
        let asked = ChannelOptions {
            timeout: AckTimeout(14),
            ..asked
        };
        assert_eq!(
            only_off.nearest(Side::Dut, &asked),
            asked,
            "a test of the time-out is not one without"
        );
    }

    #[test]
    fn unreported_capabilities_are_offered() {
        let nothing_said = of(pb::Capabilities::default());
        for command in [
            post(Operation::FetchAdd, 8),
            modify(pb::QpState::Sqd, pb::QpAttributes::default()),
            Command::CreateQp(pb::CreateQp {
                service: pb::Service::Ud.into(),
                send_depth: 1_000,
                receive_depth: 1_000,
            }),
        ] {
            assert_eq!(nothing_said.lacks(Side::Dut, &command), None);
            assert_eq!(Offered::default().lacks(Side::Dut, &command), None);
        }
    }

    #[test]
    fn names_each_missing_capability() {
        let few = of(pb::Capabilities {
            operations: vec![Operation::Send.into(), Operation::Write.into()],
            answers: vec![Operation::Write.into()],
            services: vec![pb::Service::Rc.into()],
            path_mtus: vec![3],
            qp_states: vec![pb::QpState::Init.into(), pb::QpState::Rtr.into()],
            timeouts: vec![0, 14],
            min_rnr_timers: vec![12],
            rnr_retries: vec![7],
            max_message: 1_024,
            max_memory: 65_536,
            max_send_depth: 16,
            max_receive_depth: 8,
        });
        let set = |change: &dyn Fn(&mut pb::QpAttributes)| {
            let mut attributes = pb::QpAttributes::default();
            change(&mut attributes);
            modify(pb::QpState::Rtr, attributes)
        };
        let create = |service: pb::Service, send_depth, receive_depth| {
            Command::CreateQp(pb::CreateQp {
                service: service.into(),
                send_depth,
                receive_depth,
            })
        };
        let register = |length| Command::RegisterMemory(pb::RegisterMemory { length, access: None });
        for (command, lacks) in [
            (post(Operation::Write, 1_024), None),
            (
                post(Operation::Write, 1_025),
                Some("message of 1025 bytes: at most 1024"),
            ),
            (post(Operation::Read, 8), Some("READ")),
            (create(pb::Service::Rc, 16, 8), None),
            (create(pb::Service::Ud, 16, 8), Some("service UD")),
            (
                create(pb::Service::Rc, 17, 8),
                Some("send queue of 17 requests: at most 16"),
            ),
            (
                create(pb::Service::Rc, 16, 9),
                Some("receive queue of 9 requests: at most 8"),
            ),
            (
                modify(pb::QpState::Sqd, pb::QpAttributes::default()),
                Some("queue pair state SQD"),
            ),
            (set(&|a| a.path_mtu = Some(3)), None),
            (set(&|a| a.path_mtu = Some(4)), Some("path MTU of code 4")),
            (set(&|a| a.timeout = Some(0)), None),
            (set(&|a| a.timeout = Some(1)), Some("local ACK timeout of code 1")),
            (set(&|a| a.min_rnr_timer = Some(1)), Some("min_rnr_timer 1")),
            (set(&|a| a.rnr_retry = Some(0)), Some("rnr_retry 0")),
            (register(65_536), None),
            (
                register(65_537),
                Some("memory of 65537 bytes: at most 65536 can be registered"),
            ),
        ] {
            let expected = lacks.map(|lacks| format!("the DUT's device fpga0 has no {lacks}, as its agent says"));
            assert_eq!(few.lacks(Side::Dut, &command), expected, "{command:?}");
        }
        let of_tester = few.lacks(Side::Tester, &post(Operation::Send, 8)).unwrap();
        assert!(of_tester.contains("executes no SEND of the other side"), "{of_tester}");
        assert_eq!(few.lacks(Side::Tester, &post(Operation::Write, 8)), None);
    }

    #[test]
    fn every_rc_request_has_an_operation() {
        for code in 0..0x20 {
            let opcode = Opcode(code);
            // No command posts a FLUSH or an ATOMIC WRITE.
            let is_asked = opcode.is_request() && !matches!(code, 0x1C | 0x1D);
            assert_eq!(asks_for(opcode).is_some(), is_asked, "{code:#x}");
        }
    }
}
