//! `c14-024-vl-arbitration-ca` (C14_024_09_CA): the VLArbitrationTable of a channel adapter or router.
//!
//! A conforming port with more than one data VL stores its entries. It refuses table parts other than 1 to 4 with
//! 0x001C and stores nothing. The public page stops at step 6; this test has these steps:
//!
//! - VLCap must be 1 to 5.
//! - For the parts 1 to 4 within the capacity, a Set writes random weights and operational VLs. At least one VL0 entry
//!   has a weight above 0. A Get must return the set entries, once after each Set and once after all Sets.
//! - The port must refuse the part values 0 and 5 to 65535 on Set and Get. The legal parts must not change.
//!
//! The effect on entries beyond the capacity and on VLs that are not operational is an observation, because both are
//! undefined. With one data VL the attribute is optional, so the test does not apply. If the original table has VLs
//! that are not operational, the port may refuse or correct the table on a restore. The test then changes nothing, and
//! the outcome is NOT_APPLICABLE. False alarm: another SM that writes the table during the test.

use std::collections::BTreeMap;

use verbatim_record::{Exchange, Findings, Gap, Label, Passed, Trace};
use verbatim_tester::{Need, Parameter, Step, Stop, Stream, Test, Tester};
use verbatim_wire::{PortInfo, Status, VlArbitrationTable, VlCap};

const PORT: Label<PortInfo> = Label::new("PortInfo");
const ONE_VL: Label<VlArbitrationTable> = Label::new("part 1 of a port with one data VL");
const FOUND: Label<VlArbitrationTable> = Label::new("parts as found");
const BACK: Label<VlArbitrationTable> = Label::new("set parts as found");
const BACK_GET: Label<VlArbitrationTable> = Label::new("after setting parts as found");
const BEYOND: Label<VlArbitrationTable> = Label::new("parts beyond the capacity");
const SET: Label<VlArbitrationTable> = Label::new("set legal parts");
const GET: Label<VlArbitrationTable> = Label::new("get each legal part after its Set");
const ALL: Label<VlArbitrationTable> = Label::new("get all legal parts after all Sets");
const FOREIGN: Label<VlArbitrationTable> = Label::new("set VLs and entries that the port does not have");
const FOREIGN_GET: Label<VlArbitrationTable> = Label::new("get what foreign VLs left");
const AGAIN: Label<VlArbitrationTable> = Label::new("set legal parts again");
const ALL_AGAIN: Label<VlArbitrationTable> = Label::new("get all legal parts after they were set again");
const BAD_SET: Label<VlArbitrationTable> = Label::new("set illegal parts");
const BAD_GET: Label<VlArbitrationTable> = Label::new("get illegal parts");
const BAD_SET_REPEAT: Label<VlArbitrationTable> = Label::new("set again illegal parts that stayed unanswered");
const BAD_REPEAT: Label<VlArbitrationTable> = Label::new("ask again for illegal parts that stayed unanswered");
const LAST: Label<VlArbitrationTable> = Label::new("get all legal parts after the illegal ones");

/// The number of illegal part values: 0 and 5..=65535.
const ILLEGAL: u64 = 65_532;
/// Part values that a decoder with too few bits confuses with legal values. The test tries these values first.
const TELLING: [u16; 24] = [
    0, 5, 6, 7, 8, 9, 10, 11, 12, 17, 33, 65, 129, 0x0101, 0x0102, 0x0103, 0x0104, 0x0201, 0x1001, 0x4002, 0x8001,
    0x8004, 0xFF01, 0xFFFF,
];

pub(super) static TEST: Test = Test {
    id: "c14-024-vl-arbitration-ca",
    aliases: &["C14_024_09_CA"],
    revision: 3,
    about: "The VLArbitrationTable keeps what is set in parts 1 to 4 within its capacity; other parts are refused \
        with 0x001C.",
    reading: "The public suite ends at step 6; Verbatim adds the later steps. Foreign VLs and entries beyond the \
        capacity are observations. A part beyond the capacity is refused with 0x001C or reads as zeros: both conform.",
    statements: &["C14-24", "C13-24"],
    needs: &[Need::Mad],
    parameters: &[Parameter {
        name: "illegal_parts",
        about: "number of the 65,532 illegal part values that are tried: the most revealing first, then random ones",
        range: (0, ILLEGAL),
        simulated: ILLEGAL,
        default: ILLEGAL,
    }],
    procedure,
    judge,
};

/// Returns the number of the port's entries in a part.
fn entries(port: &PortInfo, part: u32) -> usize {
    let capacity = usize::from(if part <= 2 {
        port.vl_arbitration_low_cap()
    } else {
        port.vl_arbitration_high_cap()
    });
    let before = if part % 2 == 1 { 0 } else { 32 };
    capacity.saturating_sub(before).min(32)
}

fn modifier(part: u32) -> u32 {
    part << 16
}

/// Returns a table with random weights of operational VLs in the port's entries, and 0 in the others.
fn table(random: &mut Stream, port: &PortInfo, part: u32) -> VlArbitrationTable {
    let vls = u64::from(operational(port));
    let mut table = VlArbitrationTable::default();
    for entry in 0..entries(port, part) {
        let vl = if part == 1 && entry == 0 {
            0
        } else {
            random.between(0, vls - 1)
        };
        let weight = if part == 1 && entry == 0 {
            random.between(1, 255)
        } else {
            random.between(0, 255)
        };
        #[allow(clippy::cast_possible_truncation)] // a VL and a weight fit a byte
        let (vl, weight) = (vl as u8, weight as u8);
        table = table.with_vl(entry, vl).with_weight(entry, weight);
    }
    table
}

fn operational(port: &PortInfo) -> u8 {
    port.operational_vls()
        .data_vls()
        .or(port.vl_cap().data_vls())
        .unwrap_or(1)
}

/// Returns the illegal part values of a run, the most revealing values first.
fn illegal_parts(seed: &mut Stream, count: u64) -> Vec<u32> {
    if count >= ILLEGAL {
        return core::iter::once(0).chain(5..=65_535).collect();
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let mut parts: Vec<u32> = TELLING.iter().map(|part| u32::from(*part)).take(count).collect();
    while parts.len() < count {
        #[allow(clippy::cast_possible_truncation)] // below 65,536
        parts.push(seed.between(5, 65_535) as u32);
    }
    parts
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let port: PortInfo = t.get(PORT, key)?;
    if port.vl_cap() == VlCap::VL0 {
        t.ask_at(ONE_VL, key, modifier(1))?;
        return Ok(());
    }
    let mut random = t.random("tables");
    let (legal, beyond): (Vec<u32>, Vec<u32>) = (1..=4).partition(|part| entries(&port, *part) > 0);
    for part in &beyond {
        t.ask_at(BEYOND, key, modifier(*part))?;
    }
    let modifiers: Vec<u32> = (1..=4).map(modifier).collect();
    let parts = t.guard_parts(FOUND, key, &modifiers)?;
    if let Some(why) = t.not_taken_back((BACK, BACK_GET), &parts)? {
        return Err(Stop::NotOffered(why));
    }

    for part in &legal {
        let value = table(&mut random, &port, *part);
        t.set_with(
            SET,
            &parts,
            (key, modifier(*part)),
            parts.quiet_at(modifier(*part)).change(|_| value),
        )?;
        t.ask_at(GET, key, modifier(*part))?;
    }
    for part in &legal {
        t.ask_at(ALL, key, modifier(*part))?;
    }

    for part in &legal {
        let mut value = table(&mut random, &port, *part);
        for entry in 1..32 {
            let foreign = random.byte() % 16;
            value = value.with_vl(entry, foreign).with_weight(entry, random.byte());
        }
        t.set_with(
            FOREIGN,
            &parts,
            (key, modifier(*part)),
            parts.quiet_at(modifier(*part)).change(|_| value),
        )?;
        t.ask_at(FOREIGN_GET, key, modifier(*part))?;
    }

    // The reverse order reveals a Set that also changes an earlier or a later part.
    for part in legal.iter().rev() {
        let value = table(&mut random, &port, *part);
        t.set_with(
            AGAIN,
            &parts,
            (key, modifier(*part)),
            parts.quiet_at(modifier(*part)).change(|_| value),
        )?;
    }
    for part in &legal {
        t.ask_at(ALL_AGAIN, key, modifier(*part))?;
    }
    let illegal = illegal_parts(&mut t.random("illegal parts"), t.parameter("illegal_parts"));
    let blank = parts.quiet_at(u32::MAX);
    let what = illegal.iter().map(|part| {
        // A few entries show whether the port stored anything; more entries would only enlarge the record.
        let value = (0..8).fold(VlArbitrationTable::default(), |table, entry| {
            table.with_vl(entry, 0).with_weight(entry, random.byte() | 1)
        });
        (modifier(*part), blank.change(|_| value))
    });
    let silent = t.set_many(BAD_SET, &parts, key, what)?;
    for modifier in silent {
        t.set_with(BAD_SET_REPEAT, &parts, (key, modifier), blank)?;
    }
    let silent = t.get_many(BAD_GET, key, illegal.iter().map(|part| modifier(*part)))?;
    for modifier in silent {
        t.ask_at(BAD_REPEAT, key, modifier)?;
    }
    for part in &legal {
        t.ask_at(LAST, key, modifier(*part))?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let port: PortInfo = t.answer(PORT)?;
    f.claim("C14-24", "VLCap")
        .on(PORT)
        .saw(format!("{} ({})", port.vl_cap().0, port.vl_cap()))
        .must("1 to 5", (1..=5).contains(&port.vl_cap().0));
    if port.vl_cap() == VlCap::VL0 {
        let one = t.exchange(ONE_VL)?;
        let allowed = [
            Status::OK,
            Status::METHOD_UNSUPPORTED,
            Status::METHOD_ATTRIBUTE_UNSUPPORTED,
            Status::INVALID_FIELD,
        ];
        f.status("C13-24", one, &allowed);
        f.not_applicable = Some("the port has one data VL: VLArbitrationTable is optional then".into());
        return Ok(());
    }
    t.not_judged(BACK); // a port may refuse VLs that are not operational
    t.not_judged(BACK_GET);
    t.not_judged(FOUND); // the restore itself checks the original values
    beyond(t, f)?;
    for (read, when) in [
        (SET, "after its Set"),
        (GET, "when read after its Set"),
        (ALL, "when read after all Sets"),
    ] {
        same(t, f, &port, "C14-24", SET, read, when)?;
    }
    same(
        t,
        f,
        &port,
        "C14-24",
        AGAIN,
        ALL_AGAIN,
        "when read after they were set again",
    )?;
    foreign(t, f);
    refused(t, f, "Set", BAD_SET, BAD_SET_REPEAT);
    refused(t, f, "Get", BAD_GET, BAD_REPEAT);
    for exchange in last_of_each(t, AGAIN).into_values() {
        f.status("C14-24", exchange, &[Status::OK]);
    }
    let when = "after Sets of illegal parts, which must store nothing";
    same(t, f, &port, "C13-24", AGAIN, LAST, when)
}

/// Returns the last exchange under a label for each part; the key is the AttributeModifier.
fn last_of_each(t: &Trace, label: Label<VlArbitrationTable>) -> BTreeMap<u32, &Exchange> {
    t.each(label)
        .map(|exchange| (exchange.request.modifier(), exchange))
        .collect()
}

/// Checks that the port refused parts beyond the capacity or returned zeros.
fn beyond(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let port: PortInfo = t.answer(PORT)?;
    let none = port.vl_arbitration_high_cap() == 0 && port.vl_arbitration_low_cap() == 0;
    let mut allowed = vec![Status::OK, Status::INVALID_FIELD];
    if none {
        // A port whose table has no entry may lack the attribute.
        allowed.extend([Status::METHOD_UNSUPPORTED, Status::METHOD_ATTRIBUTE_UNSUPPORTED]);
    }
    for exchange in last_of_each(t, BEYOND).into_values() {
        if f.status("C13-24", exchange, &allowed)
            && exchange
                .answer()
                .is_some_and(|answer| answer.mad.status() == Status::OK)
        {
            let zeros = t.answered::<VlArbitrationTable>(exchange)? == VlArbitrationTable::default();
            let about = format!("part {}, beyond the capacity", exchange.request.modifier() >> 16);
            f.claim("C14-24", about)
                .by(exchange)
                .saw(if zeros { "zeros" } else { "entries" })
                .must("zeros, or a refusal", zeros);
        }
    }
    Ok(())
}

/// Checks that the last read of each part returns the values of its last Set in the port's entries.
fn same(
    t: &Trace,
    f: &mut Findings<'_>,
    port: &PortInfo,
    statement: &str,
    set: Label<VlArbitrationTable>,
    read: Label<VlArbitrationTable>,
    when: &str,
) -> Result<(), Gap> {
    let sets = last_of_each(t, set);
    for (modifier, exchange) in last_of_each(t, read) {
        let part = modifier >> 16;
        if !f.status(statement, exchange, &[Status::OK]) {
            continue;
        }
        let seen: VlArbitrationTable = t.answered(exchange)?;
        let Some(wanted) = sets.get(&modifier) else { continue };
        let wanted: VlArbitrationTable = wanted.request.attribute();
        let count = entries(port, part);
        let differs = (0..count).find(|e| wanted.vl(*e) != seen.vl(*e) || wanted.weight(*e) != seen.weight(*e));
        let entry = differs.unwrap_or(0);
        let words = |table: &VlArbitrationTable| match differs {
            Some(entry) => format!("entry {entry}: VL {} weight {}", table.vl(entry), table.weight(entry)),
            None => format!("{count} entries as set"),
        };
        f.claim(statement, format!("part {part}, entry {entry} of {count}, {when}"))
            .by(exchange)
            .saw(words(&seen))
            .must(words(&wanted), differs.is_none());
    }
    Ok(())
}

/// Observes the effect on VLs that are not operational and on entries beyond the capacity; both are undefined.
fn foreign(t: &Trace, f: &mut Findings<'_>) {
    for exchange in last_of_each(t, FOREIGN).into_values() {
        let part = exchange.request.modifier() >> 16;
        let status = exchange
            .answer()
            .map_or("no answer".into(), |answer| format!("status {}", answer.mad.status()));
        let kept = t
            .keyed(FOREIGN_GET, exchange.request.modifier())
            .and_then(|get| t.answered::<VlArbitrationTable>(get).ok())
            .map_or("not read", |seen| {
                if seen == exchange.request.attribute() {
                    "kept as set"
                } else {
                    "not kept as set"
                }
            });
        f.observe_ambiguous(
            format!("foreign VLs and entries in part {part}: {status}, {kept}"),
            &[exchange],
        );
    }
}

/// Checks that the port refused illegal parts with 0x001C. Equal results share one check, with the first exchange as
/// evidence.
fn refused(
    t: &Trace,
    f: &mut Findings<'_>,
    method: &str,
    label: Label<VlArbitrationTable>,
    repeat: Label<VlArbitrationTable>,
) {
    let tried = t.each(label).filter(|exchange| exchange.attempt == 0).count() as u64;
    let asked = t.parameter("illegal_parts").unwrap_or(ILLEGAL);
    if tried != asked {
        f.claim("C13-24", format!("{method} of illegal parts"))
            .by_all(t.each(label).last())
            .saw(format!("{tried} tried; too many got no answer"))
            .comes_to(format!("all {asked} tried"), Passed::Inconclusive);
    }
    // The repeated requests for parts that got no response.
    let repeated = last_of_each(t, repeat);
    let mut groups: BTreeMap<String, (usize, &Exchange, Passed)> = BTreeMap::new();
    let mut seen = |words: String, exchange, result: Passed| {
        groups.entry(words).or_insert((0, exchange, result)).0 += 1;
    };
    // The procedure retried a busy or lost request in the same series, and finally alone, so only the last try counts.
    let last_of_series = last_of_each(t, label);
    for exchange in t.each(label) {
        let modifier = exchange.request.modifier();
        let is_last = last_of_series
            .get(&modifier)
            .is_some_and(|last| last.number == exchange.number);
        if (exchange.is_busy() || exchange.response().is_none()) && !is_last {
            continue;
        }
        let decided = match exchange.answer() {
            Some(_) if !exchange.is_busy() => exchange,
            _ => repeated.get(&modifier).copied().unwrap_or(exchange),
        };
        match decided.answer() {
            Some(answer) if answer.mad.status() == Status::INVALID_FIELD => {
                seen(String::new(), decided, Passed::Pass);
            }
            Some(answer) => seen(format!("status {}", answer.mad.status()), decided, Passed::Fail),
            None if decided.is_waited_out(&t.begin) => seen("no answer".into(), decided, f.silence_of(decided)),
            None => seen(
                "no answer, and the wait was too short to prove silence".into(),
                decided,
                Passed::Inconclusive,
            ),
        }
    }
    let expected = format!("status {}", Status::INVALID_FIELD);
    for (words, (count, first, result)) in groups {
        let about = format!(
            "status of {method} for part {:#06x} and {} alike",
            first.request.modifier() >> 16,
            count - 1
        );
        f.claim("C13-24", about)
            .by(first)
            .saw(if words.is_empty() { &expected } else { &words })
            .comes_to(&expected, result);
    }
}
