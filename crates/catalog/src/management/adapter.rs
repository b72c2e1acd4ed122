//! Shared parts of the attribute tests: the check of the node's type, and checks of requests that a port may refuse or
//! discard.

use verbatim_record::{Exchange, Findings, Gap, Label, Match, Trace};
use verbatim_tester::Settable;
use verbatim_wire::values::NodeType;
use verbatim_wire::{Attribute, Layout, NodeInfo, PortInfo, Status};

/// NodeInfo, which tells the type of the node.
pub(crate) const NODE: Label<NodeInfo> = Label::new("NodeInfo");

/// Returns whether the node is a channel adapter or a router. On switches, other rules apply to the attributes.
pub(crate) fn is_adapter(node: &NodeInfo) -> bool {
    matches!(node.node_type(), NodeType::CHANNEL_ADAPTER | NodeType::ROUTER)
}

/// Returns NodeInfo of a channel adapter or router. For another node, marks the test as not applicable and returns
/// `None`.
pub(crate) fn adapter(t: &Trace, f: &mut Findings<'_>) -> Result<Option<NodeInfo>, Gap> {
    let node: NodeInfo = t.answer(NODE)?;
    if is_adapter(&node) {
        return Ok(Some(node));
    }
    f.not_applicable = Some(format!(
        "the node reports that it is a {}, not a channel adapter or router",
        node.node_type()
    ));
    Ok(None)
}

/// Returns the fields of PortInfo that only a Set to this port changes. Excludes counters, and fields that the link or
/// the device changes.
pub(crate) fn steady_fields() -> Vec<&'static str> {
    let moves = |name: &&'static str| PortInfo::ITS_OWN.contains(name) || PortInfo::NOT_RESTORABLE.contains(name);
    let names = PortInfo::FIELDS.iter().map(|field| field.name);
    names.filter(|name| !moves(name)).collect()
}

/// Returns the last try under a label for one block or port.
pub(crate) fn last<A>(t: &Trace, label: Label<A>, modifier: u32) -> Result<&Exchange, Gap> {
    t.keyed(label, modifier).ok_or(Gap::Missing(label.name))
}

/// Checks a request for a block beyond the table. A conforming port refuses it with 0x001C or returns zeros.
pub(crate) fn unused_block<A: Attribute>(t: &Trace, f: &mut Findings<'_>, exchange: &Exchange) -> Result<(), Gap> {
    if !f.status("C13-24", exchange, &[Status::OK, Status::INVALID_FIELD]) {
        return Ok(());
    }
    let refused = exchange
        .answer()
        .is_some_and(|answer| answer.mad.status() != Status::OK);
    let zeros = refused || t.answered::<A>(exchange)? == A::default();
    let seen = match (refused, zeros) {
        (true, _) => "a refusal",
        (false, true) => "zeros",
        (false, false) => "entries",
    };
    let about = format!("{} {}, beyond the capacity", A::NAME, exchange.request.modifier());
    f.claim("C14-24", about)
        .by(exchange)
        .saw(seen)
        .must("zeros, or a refusal", zeros);
    Ok(())
}

/// Checks a request that a port may discard: a response must have one of the status codes in `allowed`.
///
/// The response to a method other than Get and Set may have that method's own response method.
pub(crate) fn refused_or_discarded(
    f: &mut Findings<'_>,
    statement: &str,
    exchange: &Exchange,
    what: &str,
    allowed: &[Status],
) {
    let response = exchange.arrivals.iter().find(|arrived| {
        matches!(arrived.how, Match::Answer | Match::Late | Match::Wrong) && arrived.mad.method().is_response()
    });
    let Some(response) = response else {
        return f.observe_ambiguous(
            format!("{what}: no answer; the specification lets the port discard or refuse the request"),
            &[exchange],
        );
    };
    let status = response.mad.status();
    let wanted: Vec<_> = allowed.iter().map(|status| format!("status {status}")).collect();
    f.claim(statement, what)
        .by(exchange)
        .saw(format!("status {status}"))
        .must(
            format!("{}, or no answer", wanted.join(" or ")),
            allowed.contains(&status),
        );
}
