//! Room for queue pairs: a device may have few of them, one at the least.
//!
//! Where the DUT has no room for another queue pair, the oldest one of the test is destroyed. A test that is about
//! several says so beforehand ([`Tester::needs_queue_pairs`]). A test that goes on with a destroyed one ends as
//! NOT_APPLICABLE.

use std::collections::BTreeMap;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Role, Side};
use verbatim_wire::packet::{Medium, Packet, Qpn};

use crate::stop::{Step, Stop};
use crate::tester::Tester;
use verbatim_record::labels;

/// Linux's number of "no memory", which verbs give for "no room".
const ENOMEM: i32 = 12;

/// A queue pair that was made.
#[derive(Clone, Copy, Debug)]
struct Made {
    handle: u32,
    number: Qpn,
    service: i32,
}

/// The queue pairs of the hosts.
#[derive(Debug, Default)]
pub(super) struct Room(BTreeMap<Side, OfSide>);

#[derive(Debug, Default)]
struct OfSide {
    /// How many the device says that it has; 0: it does not say.
    most: u32,
    /// Those that are there, the oldest first.
    there: Vec<Made>,
    /// Those that had to go.
    gone: Vec<Made>,
    /// How many the test has at a time, as it says.
    needed: usize,
}

impl Room {
    pub(super) fn learn(&mut self, side: Side, command: &Command, reply: &Reply) {
        let of = self.0.entry(side).or_default();
        match (command, reply) {
            (_, Reply::Refused(_)) => {}
            (_, Reply::Opened(facts)) => of.most = facts.max_qp,
            (Command::CreateQp(create), Reply::Qp(qp)) => of.there.push(Made {
                handle: qp.qp,
                number: Qpn(qp.qpn),
                service: create.service,
            }),
            (Command::DestroyQp(destroy), _) => of.there.retain(|made| made.handle != destroy.qp),
            (Command::DestroyAll(_), _) => of.there.clear(),
            _ => {}
        }
    }

    /// The queue pair that has to go, when the device has no room for another one: by its own word, or since it refused
    /// one more of a service that it has.
    fn must_go(&self, side: Side, create: &pb::CreateQp, refused: Option<&pb::Refused>) -> Option<Made> {
        let of = self.0.get(&side)?;
        let is_full = of.most != 0 && of.there.len() >= of.most as usize;
        let has_such = of.there.iter().any(|made| made.service == create.service);
        let is_for_room = refused.is_some_and(|refused| refused.errno == ENOMEM || has_such);
        let may_go = of.there.len() >= of.needed;
        of.there.first().copied().filter(|_| (is_full || is_for_room) && may_go)
    }

    fn is_gone(&self, side: Side, handle: u32) -> bool {
        self.0
            .get(&side)
            .is_some_and(|of| of.gone.iter().any(|made| made.handle == handle))
    }

    /// Whether a frame is for a queue pair of the DUT that had to go, and whose number no other has.
    fn is_for_gone(&self, bytes: &[u8]) -> bool {
        let Some(of) = self.0.get(&Side::Dut).filter(|of| !of.gone.is_empty()) else {
            return false;
        };
        let to = Packet::parse(Medium::Ethernet, bytes).map(|packet| packet.bth().dest_qp());
        to.is_ok_and(|to| {
            let has = |all: &[Made]| all.iter().any(|made| made.number == to);
            has(&of.gone) && !has(&of.there)
        })
    }
}

/// The queue pair that a command is about.
fn named(command: &Command) -> Option<u32> {
    Some(match command {
        Command::ModifyQp(of) => of.qp,
        Command::QueryQp(of) => of.qp,
        Command::PostSend(of) => of.qp,
        Command::PostReceive(of) => of.qp,
        Command::DestroyQp(of) => of.qp,
        _ => return None,
    })
}

fn too_few(side: Side) -> Stop {
    Stop::NotOffered(format!(
        "the {side}'s device has no room for another queue pair, and the test needs several at a time"
    ))
}

impl Tester<'_> {
    /// Says that the test has so many queue pairs of the DUT at a time.
    ///
    /// # Errors
    /// [`Stop::NotOffered`] when the DUT has said that it has fewer.
    pub fn needs_queue_pairs(&mut self, count: usize) -> Step {
        let of = self.peer.room.0.entry(Side::Dut).or_default();
        of.needed = count;
        let most = of.most as usize;
        if most != 0 && most < count {
            return Err(Stop::NotOffered(format!(
                "the DUT's device has {most} queue pairs at a time, as its agent says, and the test needs {count}"
            )));
        }
        Ok(())
    }

    /// Ends the procedure before a command about a queue pair that had to go.
    pub(super) fn must_be_there(&self, side: Side, command: &Command) -> Step {
        let is_gone = named(command).is_some_and(|handle| self.peer.room.is_gone(side, handle));
        // That it is destroyed is what came of it.
        if is_gone && !matches!(command, Command::DestroyQp(_)) {
            return Err(too_few(side));
        }
        Ok(())
    }

    /// The same before a frame to it.
    pub(super) fn must_be_there_for(&self, bytes: &[u8]) -> Step {
        if self.peer.room.is_for_gone(bytes) {
            return Err(too_few(Side::Dut));
        }
        Ok(())
    }

    /// Destroys the oldest queue pair where the device has no room for this one. Whether it did.
    pub(super) fn make_room(&mut self, side: Side, command: &Command, refused: Option<&pb::Refused>) -> Step<bool> {
        let Command::CreateQp(create) = command else {
            return Ok(false);
        };
        let Some(made) = self.peer.room.must_go(side, create, refused) else {
            return Ok(false);
        };
        let destroy = Command::DestroyQp(pb::DestroyQp { qp: made.handle });
        let reply = self.verbs_as(Role::Runner, labels::ROOM, side, destroy)?;
        if matches!(reply, Reply::Refused(_)) {
            return Ok(false);
        }
        self.peer.room.0.entry(side).or_default().gone.push(made);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(service: pb::Service) -> pb::CreateQp {
        pb::CreateQp {
            service: service.into(),
            ..pb::CreateQp::default()
        }
    }

    /// A device that says that it has so many, with queue pairs 1, 2, ... of reliable connections.
    fn room(most: u32, there: u32) -> Room {
        let mut room = Room::default();
        let opened = pb::Opened {
            max_qp: most,
            ..pb::Opened::default()
        };
        room.learn(Side::Dut, &Command::Open(pb::Open {}), &Reply::Opened(opened));
        for qp in 1..=there {
            let made = Reply::Qp(pb::Qp { qp, qpn: 16 + qp });
            room.learn(Side::Dut, &Command::CreateQp(create(pb::Service::Rc)), &made);
        }
        room
    }

    #[test]
    fn the_oldest_goes_when_there_is_no_room() {
        let refused = |errno| pb::Refused {
            errno,
            text: "no".into(),
        };
        let goes = |room: &Room, service, refused: Option<pb::Refused>| {
            let gone = room.must_go(Side::Dut, &create(service), refused.as_ref());
            gone.map(|made| made.handle)
        };
        use pb::Service::{Rc, Ud};
        assert_eq!(goes(&room(1, 0), Rc, None), None);
        assert_eq!(goes(&room(2, 2), Rc, None), Some(1));
        assert_eq!(goes(&room(0, 2), Rc, None), None);
        assert_eq!(goes(&room(9, 2), Rc, Some(refused(22))), Some(1));
        // That it has no datagrams is no want of room.
        assert_eq!(goes(&room(9, 2), Ud, Some(refused(95))), None);
        assert_eq!(goes(&room(9, 2), Ud, Some(refused(ENOMEM))), Some(1));
        let mut two = room(1, 1);
        two.0.entry(Side::Dut).or_default().needed = 2;
        assert_eq!(goes(&two, Rc, None), None);
        let mut empty = room(1, 1);
        empty.learn(
            Side::Dut,
            &Command::DestroyQp(pb::DestroyQp { qp: 1 }),
            &Reply::Done(pb::Done {}),
        );
        assert_eq!(goes(&empty, Rc, None), None);
    }
}
