//! Rules of refused requests and of the destination of responses, on golden records with one change each.

use verbatim_record::Entry;
use verbatim_wire::packet::{Aeth, Bth, Medium, Opcode, Packet, Qpn, Syndrome, SyndromeKind};
use verbatim_wire::{Layout, NakCode, edit, mend_icrc};

use super::answers::{is_ack, is_nak, is_of_dut};
use super::verbs::broken;

/// Changes the BTH and the AETH of packets of the device.
fn alter(
    entries: &mut [Entry],
    is_it: impl Fn(&Packet<'_>) -> bool,
    bth: impl Fn(Bth) -> Bth,
    aeth: impl Fn(Aeth) -> Aeth,
) {
    for entry in entries.iter_mut().filter(|entry| is_of_dut(entry, &is_it)) {
        let Entry::Frame(frame) = entry else { continue };
        let mut bytes = frame.bytes.to_vec();
        let at = Packet::parse(Medium::Ethernet, &bytes).unwrap().offsets().bth;
        edit::<Bth>(&mut bytes, at, &bth);
        edit::<Aeth>(&mut bytes, at + Bth::SIZE, &aeth);
        mend_icrc(Medium::Ethernet, &mut bytes).unwrap();
        frame.bytes = bytes.into();
    }
}

fn as_nak(entries: &mut [Entry], is_it: impl Fn(&Packet<'_>) -> bool, code: NakCode) {
    alter(
        entries,
        is_it,
        |bth| bth,
        |aeth| aeth.with_syndrome(Syndrome::nak(code)),
    );
}

fn is_rnr_nak(packet: &Packet<'_>) -> bool {
    let kind = packet.aeth().map(|aeth| aeth.syndrome().kind());
    matches!(kind, Some(SyndromeKind::RnrNak(_)))
}

/// Repeats the first packet of the device for which `is_it` is true.
fn twice(entries: &mut Vec<Entry>, is_it: impl Fn(&Packet<'_>) -> bool) {
    let at = entries.iter().position(|entry| is_of_dut(entry, &is_it)).unwrap();
    entries.insert(at + 1, entries[at].clone());
    super::verbs::renumber(entries);
}

#[test]
fn response_comes_once_for_each_request() {
    let opcode = |opcode: Opcode| move |packet: &Packet<'_>| packet.opcode() == opcode;
    let more = |record: &str, is_it: &dyn Fn(&Packet<'_>) -> bool| broken(record, |entries| twice(entries, is_it));
    for (record, is_it) in [
        ("c09-rnr-nak", &is_rnr_nak as &dyn Fn(&Packet<'_>) -> bool),
        ("c09-060-read-responder", &opcode(Opcode::RC_READ_RESPONSE_LAST)),
        ("c09-060-fetch-add-responder", &opcode(Opcode::RC_ATOMIC_ACKNOWLEDGE)),
    ] {
        let found = more(record, is_it);
        assert!(found.contains(&"answered-once"), "{record}: {found:?}");
    }
    // An ACK may be repeated, since it grants credits.
    let found = more("c09-060-send-responder", &is_ack);
    assert!(!found.contains(&"answered-once"), "{found:?}");
}

#[test]
fn send_without_receive_gets_an_rnr_nak() {
    for code in [NakCode::INVALID_REQUEST, NakCode::REMOTE_ACCESS] {
        let found = broken("c09-rnr-nak", |entries| as_nak(entries, is_rnr_nak, code));
        assert!(found.contains(&"put-off"), "{found:?}");
        let found = broken("c09-060-send-responder", |entries| as_nak(entries, is_ack, code));
        assert!(found.contains(&"send-refused"), "{found:?}");
        let found = broken("c09-060-write-responder", |entries| as_nak(entries, is_ack, code));
        assert!(!found.contains(&"send-refused"), "a WRITE is no SEND: {found:?}");
    }
    // The responder may lack a resource that no packet shows.
    let lacks = |entries: &mut Vec<Entry>| as_nak(entries, is_ack, NakCode::REMOTE_OPERATIONAL);
    let found = broken("c09-060-send-responder", lacks);
    assert!(!found.contains(&"send-refused"), "{found:?}");
}

#[test]
fn missing_rnr_nak_is_found() {
    let silent = |entries: &mut Vec<Entry>| {
        entries.retain(|entry| !is_of_dut(entry, &is_rnr_nak));
        super::verbs::renumber(entries);
    };
    let found = broken("c09-rnr-nak", silent);
    assert!(
        found.contains(&"rnr-nak-owed") && !found.contains(&"request-answered"),
        "{found:?}"
    );
}

#[test]
fn no_response_follows_a_refusal() {
    let record = "c09-nak-max-dest-rd-atomic";
    assert_eq!(broken(record, |_| ()), [""; 0]);
    let is_refused = |packet: &Packet<'_>| is_nak(packet, NakCode::INVALID_REQUEST);
    assert!(broken(record, |entries| twice(entries, is_refused)).contains(&"refused-silent"));
}

#[test]
fn response_goes_to_the_requester() {
    let astray = |number: u32| {
        move |entries: &mut Vec<Entry>| {
            alter(
                entries,
                is_ack,
                |bth| bth.with_dest_qp(Qpn(bth.dest_qp().0 ^ number)),
                |aeth| aeth,
            );
        }
    };
    assert!(broken("c09-060-send-responder", astray(1)).contains(&"dest-qp"));
    assert!(!broken("c09-060-send-responder", astray(0)).contains(&"dest-qp"));
}
