//! Tests of the link layer's defects: each defect behaves differently, and its name identifies it.

use verbatim_device::link::{Counters, LinkDefect, Outcome};
use verbatim_device::{Defect, rc::RcDefect};

use super::scenarios::*;

/// Scenarios that together reveal every defect.
const SCENARIOS: &[fn(&mut Bench)] = &[
    states,
    delimiters,
    pairs_with_a_bad_crc,
    vcrcs,
    icrcs,
    versions,
    packet_lengths,
    shortest,
    longest,
    lanes,
    unicast,
    special_lids,
    routes,
    partitions,
    filters,
    transit,
    counters_at_their_maximum,
];

/// Returns all outcomes and counters of a port with these defects in the scenarios.
fn log(defects: &[LinkDefect]) -> Vec<(Outcome, Counters)> {
    let mut bench = Bench {
        defects: defects.to_vec(),
        log: Vec::new(),
    };
    for scenario in SCENARIOS {
        scenario(&mut bench);
    }
    bench.log
}

/// Only this test compares defects with each other. The qualification also skips defects that are not observable from
/// outside the device.
#[test]
fn every_defect_behaves_differently() {
    let mut seen = vec![("a sound port".to_string(), log(&[]))];
    for &defect in LinkDefect::ALL {
        let whole = log(&[defect]);
        if let Some((twin, _)) = seen.iter().find(|(_, other)| *other == whole) {
            panic!("{defect} and {twin} do the same");
        }
        seen.push((defect.to_string(), whole));
    }
}

#[test]
fn defect_names_are_unique_kebab_case() {
    let mut names: Vec<_> = LinkDefect::ALL.iter().map(|defect| defect.name()).collect();
    for &defect in LinkDefect::ALL {
        assert_eq!(defect.to_string().parse(), Ok(defect));
        assert!(defect.about().ends_with('.'));
        assert!(defect.statement().starts_with(|c: char| c.is_ascii_digit()));
        assert!(
            !defect
                .name()
                .contains(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'))
        );
    }
    let others = Defect::ALL.iter().map(|defect| defect.name());
    names.extend(others.chain(RcDefect::ALL.iter().map(|defect| defect.name())));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "one name, one defect");
    assert!("no-such-defect".parse::<LinkDefect>().is_err());
}
