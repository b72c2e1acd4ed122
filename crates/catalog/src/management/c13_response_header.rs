//! `c13-response-header`: the header of a response repeats the fields of its request, and its reserved fields are 0.
//!
//! The test requests every attribute, some with a modifier that the port refuses, and sets PortInfo and the P_KeyTable
//! to their current values. Each response must have 1 in both version fields. It must repeat the request's class,
//! TransactionID, attribute, modifier and route, and have the D bit if the route is directed. The reserved bits of its
//! status, and all reserved fields of the header and the attribute, must be 0. The same applies to a request with
//! reserved bits set, because ports ignore these bits. Reading: the test ignores the response's M_Key. It also ignores
//! the HopPointer and the upper half of the TransactionID, which the tester's host changes. False alarm: none known.

use verbatim_oracle::management::differences;
use verbatim_record::{Exchange, Findings, Gap, Label, Match, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{AnyAttribute, AttributeId, NodeInfo, PKeyTable, PortInfo, Status, Style};

use super::shadow;

pub(crate) const STATEMENT: &str = "13.4.2 MAD header";
const NODE: Label<NodeInfo> = Label::new("NodeInfo");
const GETS: Label<AnyAttribute> = Label::new("Gets of every attribute");
const RESERVED: Label<NodeInfo> = Label::new("NodeInfo, asked for with reserved bits set");
const PORT: Label<PortInfo> = Label::new("PortInfo as found");
const SET_PORT: Label<PortInfo> = Label::new("set PortInfo to what it is");
const P_KEYS: Label<PKeyTable> = Label::new("P_KeyTable as found");
const SET_P_KEYS: Label<PKeyTable> = Label::new("set P_KeyTable to what it is");

pub(super) static TEST: Test = Test {
    id: "c13-response-header",
    aliases: &[],
    revision: 3,
    about: "The header of every response repeats the request's class, attribute, modifier and route, and has 0 in \
        reserved bits.",
    reading: "The M_Key, the HopPointer and the high half of the TransactionID are not judged.",
    statements: &[STATEMENT, "C14-24"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let node = t.get(NODE, key)?;
    let own = u32::from(node.local_port_num());
    let others = [
        (AttributeId::SWITCH_INFO, 0),
        (AttributeId::PORT_INFO, own),
        (AttributeId::GUID_INFO, 0xFFFF),
        (AttributeId::P_KEY_TABLE, 0xFFFF),
        (AttributeId::VL_ARBITRATION, 0x1234_0000),
        (AttributeId::LED_INFO, 0),
    ];
    for what in shadow::ALL.into_iter().chain(others) {
        t.ask_any(GETS, what, key)?;
    }
    t.ask_with_reserved_set(None, RESERVED, key)?;
    let port = t.guard(PORT, key)?;
    t.set(SET_PORT, &port, port.quiet())?;
    let table = t.guard(P_KEYS, key)?;
    t.set(SET_P_KEYS, &table, table.quiet())?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let all = t
        .each(NODE)
        .chain(t.each(GETS))
        .chain(t.each(RESERVED))
        .chain(t.each(PORT))
        .chain(t.each(SET_PORT));
    for exchange in all.chain(t.each(P_KEYS)).chain(t.each(SET_P_KEYS)) {
        match *exchange.label == *RESERVED.name {
            true => header_of(f, exchange, " with reserved bits set"),
            false => header(f, exchange),
        }
        reserved(f, exchange);
    }
    t.answer::<PKeyTable>(P_KEYS)?;
    Ok(())
}

/// Checks the header of each response to a request.
pub(crate) fn header(f: &mut Findings<'_>, exchange: &Exchange) {
    header_of(f, exchange, "");
}

/// Checks the headers as [`header`] does; `how` describes the request.
fn header_of(f: &mut Findings<'_>, exchange: &Exchange, how: &str) {
    let responses = exchange
        .arrivals
        .iter()
        .filter(|arrived| matches!(arrived.how, Match::Answer | Match::Late | Match::Wrong));
    for arrived in responses {
        let mut wrong = differences(&exchange.request, &arrived.mad);
        if arrived.how == Match::Wrong {
            wrong.push(format!("the response is {}", arrived.mad));
        }
        let about = format!(
            "header of the response to {}{how}",
            shadow::name(shadow::what(exchange))
        );
        let is_right = wrong.is_empty();
        let seen = if is_right {
            "as expected".into()
        } else {
            wrong.join(", ")
        };
        f.claim(STATEMENT, about).by(exchange).saw(seen).must(
            "versions 1, the fields of the request, and 0 in reserved bits",
            is_right,
        );
    }
}

/// Checks the reserved bits of a response's attribute.
fn reserved(f: &mut Findings<'_>, exchange: &Exchange) {
    let answer = exchange.answer().filter(|answer| answer.mad.status() == Status::OK);
    let Some((mad, attribute)) = answer.and_then(|answer| Some((answer.mad, AnyAttribute::of(&answer.mad)?))) else {
        return;
    };
    let fields = attribute.fields().iter().filter(|field| field.style == Style::Reserved);
    let set: Vec<_> = fields
        .filter(|field| (0..field.count).any(|index| field.bits(mad.data(), index) != 0))
        .map(|field| format!("{} {}", field.name, field.words(mad.data())))
        .collect();
    let is_right = set.is_empty();
    f.claim(
        "C14-24",
        format!("reserved bits of {}", shadow::name(shadow::what(exchange))),
    )
    .by(exchange)
    .saw(if is_right { "0".into() } else { set.join(", ") })
    .must("0", is_right);
}
