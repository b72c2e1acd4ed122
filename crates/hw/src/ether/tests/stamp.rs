use std::time::{Duration, Instant};

use nix::time::ClockId;

use crate::ether::{
    Stamp, StampSource, now,
    packet::{is_before, with_tag},
    stamp::Reading,
};

const fn us(value: u64) -> Duration {
    Duration::from_micros(value)
}

#[test]
fn now_is_the_clock_of_instant() {
    let outer = Instant::now();
    let first = now();
    let inner = Instant::now();
    let second = now();
    // Each interval encloses the next one.
    let (of_now, of_inner, of_instant) = (second - first, inner.elapsed(), outer.elapsed());
    assert!(of_inner <= of_instant && of_now <= of_instant);
    assert!(inner.duration_since(outer) + of_now + us(1) >= second.saturating_sub(first));
}

#[test]
fn converted_stamp_has_bracket_width() {
    let reading = Reading {
        before: us(1_000),
        other: us(900_000),
        after: us(1_003),
    };
    assert_eq!(reading.convert(us(899_900), 0), (us(900), us(903)));
    assert_eq!(reading.convert(us(900_050), 0), (us(1_050), us(1_053)));
    assert_eq!(
        reading.convert(Duration::ZERO, 0),
        (us(0), us(0)),
        "before the machine started"
    );
}

#[test]
fn drift_widens_bounds_with_stamp_age() {
    let reading = Reading {
        before: us(5_000_000),
        other: us(9_000_000),
        after: us(5_000_000),
    };
    // One second at 200 parts per million.
    assert_eq!(reading.convert(us(8_000_000), 200), (us(3_999_800), us(4_000_200)));
}

#[test]
fn reading_of_same_clock_only_widens() {
    let reading = Reading::take(ClockId::CLOCK_MONOTONIC).unwrap();
    let (earliest, latest) = reading.convert(reading.other, 0);
    assert!(earliest <= reading.other && reading.other <= latest);
    assert!(Reading::take(ClockId::from_raw(4711)).is_none(), "no such clock");
}

#[test]
fn known_bounds_narrow_a_stamp() {
    let known = Stamp::bracket(us(10), us(20));
    let narrowed = known.narrowed((us(5), us(12)), StampSource::KernelSoftware);
    assert_eq!((narrowed.earliest, narrowed.latest), (us(10), us(12)));
    assert_eq!(narrowed.source, StampSource::KernelSoftware);
}

#[test]
fn contradicting_stamp_is_dropped() {
    let known = Stamp::bracket(us(10), us(20));
    for bounds in [(us(1), us(9)), (us(21), us(30))] {
        assert_eq!(known.narrowed(bounds, StampSource::KernelSoftware), known);
    }
}

#[test]
fn tag_returns_before_ethertype() {
    let frame: Vec<u8> = (0..20).collect();
    let tagged = with_tag(&frame, Some((0x8100, 0x2005)));
    assert_eq!(tagged[..12], frame[..12]);
    assert_eq!(tagged[12..16], [0x81, 0x00, 0x20, 0x05]);
    assert_eq!(tagged[16..], frame[12..]);
    assert_eq!(with_tag(&frame, None), frame);
    assert_eq!(
        with_tag(&[1, 2], Some((1, 2))).len(),
        6,
        "nothing sensible, and no panic"
    );
}

#[test]
fn late_kernel_stamp_is_only_upper_bound() {
    let (empty, began, read) = (us(100), us(200), us(210));
    let sound = Stamp::received((empty, began, read), (us(150), us(151)), StampSource::KernelSoftware);
    assert_eq!((sound.earliest, sound.latest), (us(150), us(151)));
    assert_eq!(sound.source, StampSource::KernelSoftware);
    let late = Stamp::received((empty, began, read), (us(203), us(204)), StampSource::KernelSoftware);
    assert_eq!(
        (late.earliest, late.latest, late.source),
        (empty, us(204), StampSource::Bracket)
    );
    // An adapter stamps a frame on arrival, independent of the read.
    let adapter = Stamp::received((empty, began, read), (us(199), us(203)), StampSource::Hardware);
    assert_eq!((adapter.earliest, adapter.latest), (us(199), us(203)));
    assert_eq!(adapter.source, StampSource::Hardware);
}

#[test]
fn keys_compare_across_wrap() {
    assert!(is_before(4, 5) && is_before(u32::MAX, 0) && is_before(u32::MAX - 1, 3));
    assert!(!is_before(5, 5) && !is_before(6, 5) && !is_before(0, u32::MAX));
}
