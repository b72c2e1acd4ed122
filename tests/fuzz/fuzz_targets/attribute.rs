//! Reads arbitrary bytes as an arbitrary attribute. Printing and validation must not panic, and each field must read
//! the bits of its layout.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbatim_wire::{AnyAttribute, AttributeId, MgmtClass, PortInfo, Layout, get_bits};

fuzz_target!(|input: (u16, bool, &[u8])| {
    let (id, performance, bytes) = input;
    let class = if performance { MgmtClass::PERF } else { MgmtClass::SUBN_LID };
    let Some(attribute) = AnyAttribute::from_bytes(class, AttributeId(id % 0x40), bytes) else { return };
    assert!(!attribute.to_string().is_empty());
    for field in attribute.fields() {
        let _ = field.is_legal(attribute.bytes());
        for index in 0..field.count {
            let bits = field.bits(attribute.bytes(), index);
            assert_eq!(bits, get_bits(bytes, field.offset + index * field.stride, field.width));
            assert!(!field.words_of(bits).is_empty());
        }
    }
    let info = PortInfo::from_bytes(bytes);
    if let Ok(valid) = info.validate() {
        assert_eq!(valid.into_inner(), info);
    }
    assert!(info.differences(&info).is_empty());
});
