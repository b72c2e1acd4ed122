//! The judge checks the addresses of responses on a native link. In the responses of a golden record, each altered
//! address field must fail.

use verbatim_archives::golden;
use verbatim_catalog::judge;
use verbatim_record::{Entry, Outcome, Verdict};
use verbatim_wire::crc::{VCRC_LENGTH, vcrc};
use verbatim_wire::{Bth, Deth, Layout, Lid, Lrh, MAD_LENGTH, Mad, QKey, Qpn, edit};

/// The offset of the BTH in a local packet.
const BTH: usize = Lrh::SIZE;
const DETH: usize = BTH + Bth::SIZE;
const MAD: usize = DETH + Deth::SIZE;

fn is_answer(bytes: &[u8]) -> bool {
    let mad = bytes.get(MAD..MAD + MAD_LENGTH).and_then(|mad| Mad::try_from(mad).ok());
    mad.is_some_and(|mad| mad.method().is_response())
}

/// Alters all responses on the link, then returns the verdict on the altered record.
fn altered(change: impl Fn(&mut [u8])) -> Verdict {
    let mut entries = golden::entries("c07-link-vl");
    let mut found = 0;
    for entry in &mut entries {
        if let Entry::Frame(frame) = entry
            && frame.received
            && is_answer(&frame.bytes)
        {
            let mut bytes = frame.bytes.to_vec();
            change(&mut bytes);
            let end = bytes.len() - VCRC_LENGTH;
            let seal = vcrc(&bytes[..end]);
            bytes[end..].copy_from_slice(&seal);
            frame.bytes = bytes.into();
            found += 1;
        }
    }
    assert!(found > 3, "{found} answers");
    judge(entries).unwrap()
}

#[test]
fn misdirected_response_fails() {
    let sound = altered(|_| ());
    assert_eq!(sound.outcome(), Outcome::Pass, "{}", sound.reason);
    type Change = fn(&mut [u8]);
    let changes: [(&str, Change); 6] = [
        ("SLID", |bytes| edit::<Lrh>(bytes, 0, |lrh| lrh.with_slid(Lid(0xB00)))),
        ("DLID", |bytes| edit::<Lrh>(bytes, 0, |lrh| lrh.with_dlid(Lid(0xB00)))),
        ("SL", |bytes| edit::<Lrh>(bytes, 0, |lrh| lrh.with_sl(7))),
        ("DestQP", |bytes| {
            edit::<Bth>(bytes, BTH, |bth| bth.with_dest_qp(Qpn(0xB00)));
        }),
        ("source QP", |bytes| {
            edit::<Deth>(bytes, DETH, |deth| deth.with_src_qp(Qpn(0xB00)));
        }),
        ("Q_Key", |bytes| {
            edit::<Deth>(bytes, DETH, |deth| deth.with_q_key(QKey(7)))
        }),
    ];
    for (field, change) in changes {
        let verdict = altered(change);
        assert_eq!(verdict.outcome(), Outcome::Fail, "{field}: {}", verdict.reason);
        let says = |check: &_| {
            let words = format!("{check}");
            words.contains("headers of the answer") && words.contains(field)
        };
        assert!(verdict.findings.iter().any(says), "{field}: {}", verdict.reason);
    }
}
