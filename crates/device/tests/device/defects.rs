//! Tests of the defects' names, and of defects in the refusal of invalid requests. The qualification tests whether each
//! defect is detected.

use crate::bench::{Bench, NONE};
use verbatim_device::Defect::{self, *};
use verbatim_wire::{AttributeId, Status};

#[test]
fn defect_names_are_unique_kebab_case() {
    let mut names: Vec<_> = Defect::ALL.iter().map(|defect| defect.name()).collect();
    for &defect in Defect::ALL {
        assert_eq!(defect.to_string().parse(), Ok(defect));
        assert!(defect.about().ends_with('.'));
        assert!(
            ["C1", "7.", "13.", "14.", "16."]
                .iter()
                .any(|start| defect.statement().starts_with(start))
        );
        assert!(
            !defect
                .name()
                .contains(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'))
        );
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Defect::ALL.len());
    assert!("no-such-defect".parse::<Defect>().is_err());
}

#[test]
fn refusal_defects_are_visible() {
    let get = |defect, attribute, modifier| {
        let answer = Bench::with(defect).get(AttributeId(attribute), modifier, NONE);
        answer.map(|mad| mad.status())
    };
    let (ok, invalid) = (Some(Status::OK), Some(Status::INVALID_FIELD));
    for (defect, part) in [
        (VlArbitrationPart0Accepted, 0),
        (VlArbitrationPart5Accepted, 5),
        (VlArbitrationPartLow3Bits, 9),
        (VlArbitrationPartLow8Bits, 0x0101),
        (VlArbitrationPart32769Accepted, 0x8001),
        (VlArbitrationPart65535Accepted, 0xFFFF),
    ] {
        assert_eq!(get(defect, 0x18, part << 16), ok);
        assert_eq!(get(defect, 0x18, 0x1238 << 16), invalid);
    }
    assert_eq!(get(VlArbitrationBadPartSilent, 0x18, 0), None);
    assert_eq!(get(VlArbitrationBadPartWrongStatus, 0x18, 0), Some(Status(0x0C)));
    assert_eq!(get(PortBeyondAccepted, 0x15, 9), ok);
    assert_eq!(get(GuidBlockBeyondAccepted, 0x14, 9), ok);
    assert_eq!(get(PKeyBlockBeyondAccepted, 0x16, 9), ok);
    assert_eq!(get(SwitchInfoAnswered, 0x12, 0), ok);
    assert_eq!(get(UnsupportedAttributeAccepted, 0x19, 0), ok);
    assert_eq!(get(UnsupportedAttributeWrongStatus, 0x19, 0), invalid);
    assert_eq!(get(UnsupportedAttributeSilent, 0x19, 0), None);
    assert_eq!(get(OwnPortByNumberRefused, 0x15, 1), invalid);
}
