//! Two failures at once, compared with a table.

use super::damage::{failing, native, port};
use super::link::{Action, Certainty, Check, Checks, Judgement, Kind, UNSETTLED_VL15_GRH, check};

/// Each line: `first second certainty counter switch`.
const TABLE: &str = include_str!("pairs.txt");

struct Row<'a> {
    first: Check,
    second: Check,
    certainty: &'a str,
    counter: &'a str,
    switch: &'a str,
}

fn rows() -> Vec<Row<'static>> {
    let named = |name: &str| native().find(|check| check.name() == name).unwrap();
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [first, second, certainty, counter, switch] => Row {
                first: named(first),
                second: named(second),
                certainty,
                counter,
                switch,
            },
            _ => panic!("{line}"),
        })
        .collect()
}

fn judge(row: &Row<'_>, kind: Kind, is_destination: bool) -> Judgement {
    let arrival = failing(&[row.first, row.second], port(kind, is_destination));
    check(&arrival.port, &arrival.received())
}

#[test]
fn table_has_every_pair_once() {
    let rows = rows();
    assert_eq!(rows.len(), 13 * 12 / 2);
    let mut all: Vec<_> = rows.iter().map(|row| (row.first, row.second)).collect();
    all.dedup();
    assert_eq!(all.len(), rows.len());
    assert!(rows.iter().all(|row| row.first < row.second));
}

#[test]
fn first_of_two_failures_is_reported() {
    for row in rows() {
        // A switch that is the destination is judged like a channel adapter.
        for kind in [Kind::Ca, Kind::Router, Kind::Switch] {
            let judgement = judge(&row, kind, true);
            let (first, certainty) = judgement.first.unwrap();
            let title = format!("{} and {} at a {kind:?}", row.first, row.second);
            assert_eq!(judgement.failed, Checks::of(&[row.first, row.second]), "{title}");
            assert_eq!((first, certainty.name()), (row.first, row.certainty), "{title}");
            assert_eq!(
                judgement.counter.map_or("-", |counter| counter.name()),
                row.counter,
                "{title}"
            );
            assert_eq!(judgement.action, Action::Discard, "{title}");
        }
    }
}

#[test]
fn switch_acts_as_in_the_table() {
    for row in rows() {
        let judgement = judge(&row, Kind::Switch, false);
        let expected = match row.switch {
            "accept" => (Action::Accept, false),
            "any" => (Action::DiscardOrForward, true),
            "spoil" => (Action::DiscardOrForward, false),
            "discard" => (Action::Discard, false),
            "open" => (Action::NotJudged(UNSETTLED_VL15_GRH), false),
            other => panic!("{other}"),
        };
        let seen = (judgement.action, judgement.may_pass_unchecked);
        assert_eq!(seen, expected, "{} and {}: {judgement:?}", row.first, row.second);
    }
}

#[test]
fn set_is_as_certain_as_its_weakest_pair() {
    let arrival = failing(&[Check::Vcrc, Check::Icrc, Check::Dlid], port(Kind::Ca, true));
    let judgement = check(&arrival.port, &arrival.received());
    assert_eq!(judgement.first, Some((Check::Vcrc, Certainty::Supported)));
    let all: Vec<Check> = native().filter(|check| *check != Check::PKey).collect();
    let arrival = failing(&all, port(Kind::Ca, true));
    let judgement = check(&arrival.port, &arrival.received());
    assert_eq!(judgement.failed, Checks::of(&all));
    assert_eq!(judgement.first, Some((Check::Delimiter, Certainty::Supported)));
}
