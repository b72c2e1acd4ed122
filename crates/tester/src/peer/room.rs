//! Handles devices that support only a few queue pairs at a time.
//!
//! If a device has no room for another queue pair, the tester destroys the oldest queue pair of the test. A test that
//! needs several queue pairs at a time declares the number first ([`Tester::needs_queue_pairs`]). A test that uses a
//! destroyed queue pair again ends with [`Stop::NotOffered`].

use std::collections::BTreeMap;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Role, Side};
use verbatim_wire::packet::{Medium, Packet, Qpn};

use crate::stop::{Step, Stop};
use crate::tester::Tester;
use verbatim_record::labels;

/// Linux error number "no memory". Verbs return it if a device has no room for another object.
const ENOMEM: i32 = 12;

/// A queue pair that the test created.
#[derive(Clone, Copy, Debug)]
struct Made {
    handle: u32,
    number: Qpn,
    service: i32,
}

/// The queue pairs of the test, by side.
#[derive(Debug, Default)]
pub(super) struct Room(BTreeMap<Side, OfSide>);

#[derive(Debug, Default)]
struct OfSide {
    /// Number of queue pairs that the device reports it supports; 0 if it reports none.
    most: u32,
    /// Existing queue pairs, the oldest first.
    there: Vec<Made>,
    /// Queue pairs that were destroyed to make room.
    gone: Vec<Made>,
    /// Number of queue pairs that the test declared it needs at a time.
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

    /// Returns the queue pair to destroy if the device has no room for another. The device has no room if it
    /// reached its reported limit, or refused with ENOMEM. If the device already has a queue pair of the same
    /// service, any other refusal also means that it has no room. Returns `None` while the test has fewer queue
    /// pairs than it declared to need.
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

    /// Whether a frame is for a queue pair of the DUT that was destroyed to make room. Returns false if an
    /// existing queue pair now has the same number.
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

/// Returns the handle of the queue pair that a command names.
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
    /// Declares how many queue pairs of the DUT the test needs at a time.
    ///
    /// # Errors
    /// [`Stop::NotOffered`] when the DUT reported fewer.
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

    /// Ends the procedure before a command for a queue pair that was destroyed to make room.
    pub(super) fn must_be_there(&self, side: Side, command: &Command) -> Step {
        let is_gone = named(command).is_some_and(|handle| self.peer.room.is_gone(side, handle));
        // A test may still send DestroyQp for this queue pair, to clean up.
        if is_gone && !matches!(command, Command::DestroyQp(_)) {
            return Err(too_few(side));
        }
        Ok(())
    }

    /// Ends the procedure before a frame to a queue pair that was destroyed to make room.
    pub(super) fn must_be_there_for(&self, bytes: &[u8]) -> Step {
        if self.peer.room.is_for_gone(bytes) {
            return Err(too_few(Side::Dut));
        }
        Ok(())
    }

    /// Destroys the oldest queue pair if the device has no room for the queue pair that `command` creates. Returns
    /// whether a queue pair was destroyed.
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

    /// Makes the state of a device that reports the limit `most` and has RC queue pairs 1, 2, ... `there`.
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
    fn full_device_destroys_oldest_qp() {
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
        // The device may have refused because it does not support UD.
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
