//! Every defect shows in the scenario that is about its subject, and its name finds it.

use std::collections::BTreeSet;

use verbatim_device::link::LinkDefect::{self, *};
use verbatim_device::link::{Counters, Outcome};
use verbatim_device::{Defect, rc::RcDefect};

use crate::scenarios::*;

type Scenario = (&'static str, fn(&mut Bench), &'static [LinkDefect]);

const SCENARIOS: &[Scenario] = &[
    (
        "states",
        states,
        &[
            TakenWhileDown,
            DataTakenInInitialize,
            SmpRefusedInInitialize,
            DataRefusedInArmed,
            SoundPacketCounted,
        ],
    ),
    (
        "delimiters",
        delimiters,
        &[
            EbpAccepted,
            EbpNotCounted,
            EbpCountedAsOwn,
            UnknownDelimiterAccepted,
            UnknownDelimiterCountedAsRemote,
        ],
    ),
    (
        "pairs_with_a_bad_crc",
        pairs_with_a_bad_crc,
        &[
            VlRanksBeforeCrc,
            LVerRanksBeforeCrc,
            LengthRanksBeforeCrc,
            PKeyRanksBeforeCrc,
            VcrcRanksBeforeEbp,
            EveryFailedCheckCounted,
        ],
    ),
    (
        "vcrcs",
        vcrcs,
        &[
            BadVcrcAccepted,
            VcrcFirstByteOnly,
            VcrcByteSwapped,
            PhysicalErrorNotCounted,
            ErrorDetailsSwapped,
            ErrorCountedTwice,
        ],
    ),
    (
        "icrcs",
        icrcs,
        &[
            BadIcrcAccepted,
            IcrcFirstHalfOnly,
            IcrcCheckedOnRaw,
            IcrcCoversVl,
            IcrcLeavesOutLrh,
            IcrcCoversLrhOfGlobal,
            IcrcCoversFlow,
            IcrcCoversHopLimit,
            IcrcCoversCongestion,
        ],
    ),
    (
        "versions",
        versions,
        &[
            LrhReservedDropped,
            LVerIgnored,
            LVerLowBitIgnored,
            LVerHighBitIgnored,
            TVerIgnored,
        ],
    ),
    (
        "packet_lengths",
        packet_lengths,
        &[
            PktLenReservedBits,
            PktLenIgnored,
            PktLenOneMoreAccepted,
            PktLenOneLessAccepted,
            PktLenLow8Bits,
            PktLenOddBytesIgnored,
            BytesBeyondPktLenIgnored,
            MalformedNotCounted,
        ],
    ),
    (
        "shortest",
        shortest,
        &[IbaMinimumIgnored, IbaMinimumOfRaw, RawMinimumIgnored, RawMinimumOfIba],
    ),
    (
        "longest",
        longest,
        &[OverMtuAccepted, MtuOneUnitMore, MtuOneUnitLess, MtuCountsHeaders],
    ),
    (
        "lanes",
        lanes,
        &[
            UnconfiguredVlAccepted,
            VlOneMoreAccepted,
            HighestVlRefused,
            Vl15Refused,
            Vl15RawAccepted,
            OtherQpOnVl15Accepted,
            SmpOpcodeIgnored,
            SmpLengthIgnored,
            Qp0OnDataVlAccepted,
        ],
    ),
    (
        "unicast",
        unicast,
        &[
            DlidIgnored,
            DlidLowByteOnly,
            LmcIgnored,
            LmcMasksOneLess,
            LmcMasksOneMore,
            DlidBelowRangeAccepted,
            DlidAboveRangeAccepted,
            Dlid0Accepted,
        ],
    ),
    (
        "special_lids",
        special_lids,
        &[
            PermissiveRefused,
            PermissiveOnDataVlAccepted,
            RelayErrorNotCounted,
            MulticastRefused,
            MulticastWithoutGrhAccepted,
            MulticastOnVl15Accepted,
            RawMulticastRefused,
        ],
    ),
    (
        "routes",
        routes,
        &[IpVerIgnored, NxtHdrIgnored, PayLenIgnored, PayLenWithoutIcrc],
    ),
    (
        "partitions",
        partitions,
        &[
            PKeyIgnored,
            LimitedPairAccepted,
            PKeyComparesAllBits,
            InvalidPKeyAccepted,
            PKeyHoleEndsTable,
            PKeyFirstEntryOnly,
            PKeyCheckedOnQp0,
            PKeyViolationNotCounted,
            DefaultPKeyTaken,
            PKeyOfGlobalNotCounted,
        ],
    ),
    (
        "filters",
        filters,
        &[
            RawFilterIgnored,
            AdapterFiltersRaw,
            PartitionEnforcementIgnored,
            ConstraintNotCounted,
        ],
    ),
    (
        "transit",
        transit,
        &[DestinationForwards, DiscardOnlyForwarded, ForwardedUnmarked],
    ),
    ("counters_at_their_maximum", counters_at_their_maximum, &[CountersWrap]),
];

fn log(scenario: fn(&mut Bench), defects: &[LinkDefect]) -> Vec<(Outcome, Counters)> {
    let mut bench = Bench {
        defects: defects.to_vec(),
        log: Vec::new(),
    };
    scenario(&mut bench);
    bench.log
}

#[test]
fn every_defect_shows_in_the_scenario_about_its_subject() {
    let mut unseen = Vec::new();
    for &(name, scenario, defects) in SCENARIOS {
        let sound = log(scenario, &[]);
        assert_eq!(log(scenario, &[]), sound, "{name}: two runs are identical");
        for &defect in defects {
            if log(scenario, &[defect]) == sound {
                unseen.push((name, defect));
            }
        }
    }
    assert_eq!(unseen, []);
}

#[test]
fn no_two_defects_look_alike() {
    let mut seen: Vec<(LinkDefect, Vec<_>)> = Vec::new();
    for &defect in LinkDefect::ALL {
        let whole: Vec<_> = SCENARIOS
            .iter()
            .flat_map(|&(_, scenario, _)| log(scenario, &[defect]))
            .collect();
        if let Some((twin, _)) = seen.iter().find(|(_, other)| *other == whole) {
            panic!("{defect} and {twin} do the same");
        }
        seen.push((defect, whole));
    }
}

#[test]
fn every_defect_has_one_scenario() {
    let mut listed: Vec<_> = SCENARIOS.iter().flat_map(|(_, _, defects)| *defects).collect();
    listed.sort();
    let all: BTreeSet<_> = LinkDefect::ALL.iter().collect();
    assert_eq!(listed, all.into_iter().collect::<Vec<_>>());
    assert!(LinkDefect::ALL.len() >= 60);
}

#[test]
fn names_are_kebab_case_and_find_their_defect() {
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
