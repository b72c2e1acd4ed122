//! Checks the content of trap 256, which describes the SMP that raised it, field by field.
//!
//! Source: architecture 13.4.8.2 (Notice), 14.2.5.1 (trap 256).

use verbatim_record::{Arrived, Exchange, Findings, Trace};
use verbatim_wire::values::NodeType;
use verbatim_wire::{AttributeId, DrSmp, Layout, Lid, MKey, MgmtClass, NodeInfo, Notice, PortInfo, trap};

use super::{SECURITY, STATEMENT};

/// Checks the content of a trap against the SMP that raised it.
pub(super) fn content(
    t: &Trace,
    f: &mut Findings<'_>,
    (node, port): (&NodeInfo, &PortInfo),
    cause: &Exchange,
    trap: &Arrived,
) {
    let (mad, asked) = (&trap.mad, &cause.request);
    let notice: Notice = mad.attribute();
    let says = trap::BadMKey::from_bytes(notice.details());
    let producer = match node.node_type() {
        NodeType::SWITCH => 2,
        NodeType::ROUTER => 3,
        _ => 1,
    };
    let hops = if asked.is_directed() {
        DrSmp::from_bytes(asked.bytes()).hop_count()
    } else {
        0
    };
    let header = mad.header();
    let route = asked.is_directed().then(|| DrSmp::from_bytes(asked.bytes()));
    // The SMP's directed route begins and ends at the permissive LID. Some agents in use report the port's own LID.
    let dr_slid = route.as_ref().map_or(says.dr_slid(), DrSmp::dr_slid);
    let names_itself = says.lid() == port.lid();
    let lid = if route.is_some() && !names_itself {
        Lid::PERMISSIVE
    } else {
        says.lid()
    };
    if route.is_some() && names_itself {
        f.observe_ambiguous(
            "LIDADDR of a trap about a directed route is the port's own LID",
            &[cause],
        );
    }
    let path = returns(t, asked, hops);
    let shown = |first: usize| {
        (first..first + path.len())
            .map(|hop| says.return_path(hop))
            .collect::<Vec<_>>()
    };
    // The path may also have as many bytes as hops, beginning with the byte that no hop uses.
    let is_cut = shown(0)
        .split_first()
        .is_some_and(|(unused, hops)| *unused == 0 && path.starts_with(hops));
    let is_path = path.is_empty() || shown(0) == path || shown(1) == path || is_cut;
    let reserved = [("Reserved0"), ("Reserved56"), ("Reserved176")];
    let is_zero = reserved.iter().all(|name| says.is_zero_in(name));
    // Each row holds a field, its value, and the expected value.
    let header_zero = mad.header().is_zero_in("Reserved144");
    let words: [[String; 3]; 24] = [
        // The receiver of a trap does not have the port's key.
        ["M_Key".into(), mad.m_key().to_string(), MKey(0).to_string()],
        [
            "AttributeModifier".into(),
            format!("{:#x}", mad.modifier()),
            "0x0".into(),
        ],
        [
            "Status".into(),
            mad.status().to_string(),
            verbatim_wire::Status::OK.to_string(),
        ],
        [
            "reserved bytes of the MAD header are 0".into(),
            header_zero.to_string(),
            "true".into(),
        ],
        [
            "path truncated".into(),
            says.path_truncated().to_string(),
            // With 29 or more hops, the truncation of the path is not judged.
            if hops < 29 {
                "false".into()
            } else {
                says.path_truncated().to_string()
            },
        ],
        ["BaseVersion".into(), header.base_version().to_string(), "1".into()],
        [
            "MgmtClass".into(),
            mad.class().to_string(),
            MgmtClass::SUBN_LID.to_string(),
        ],
        ["ClassVersion".into(), header.class_version().to_string(), "1".into()],
        [
            "AttributeID".into(),
            mad.attribute_id().to_string(),
            AttributeId::NOTICE.to_string(),
        ],
        ["IsGeneric".into(), notice.is_generic().to_string(), "true".into()],
        ["Type".into(), notice.notice_type().to_string(), SECURITY.to_string()],
        [
            "ProducerType".into(),
            notice.producer_type().0.to_string(),
            producer.to_string(),
        ],
        [
            "TrapNumber".into(),
            notice.trap_number().to_string(),
            trap::BAD_M_KEY.to_string(),
        ],
        [
            "IssuerLID".into(),
            notice.issuer_lid().to_string(),
            port.lid().to_string(),
        ],
        ["METHOD".into(), says.method().to_string(), asked.method().to_string()],
        [
            "ATTRIBUTEID".into(),
            says.attribute().to_string(),
            asked.attribute_id().to_string(),
        ],
        [
            "ATTRIBUTEMODIFIER".into(),
            format!("{:#x}", says.modifier().0),
            format!("{:#x}", asked.modifier()),
        ],
        ["MKEY".into(), says.m_key().to_string(), asked.m_key().to_string()],
        [
            "DRNotice".into(),
            says.directed().to_string(),
            asked.is_directed().to_string(),
        ],
        ["DRHopCount".into(), says.hop_count().to_string(), hops.to_string()],
        ["LIDADDR".into(), says.lid().to_string(), lid.to_string()],
        ["DRSLID".into(), says.dr_slid().to_string(), dr_slid.to_string()],
        ["reserved bytes 0".into(), is_zero.to_string(), "true".into()],
        [
            "DRNoticeReturnPath".into(),
            if is_path {
                "as it came".into()
            } else {
                format!("{:?}", shown(1))
            },
            if is_path {
                "as it came".into()
            } else {
                format!("{path:?}")
            },
        ],
    ];
    let wrong: Vec<_> = words.iter().filter(|[_, seen, wanted]| seen != wanted).collect();
    let list = |column: usize| {
        let each = wrong.iter().map(|row| format!("{} {}", row[0], row[column]));
        each.collect::<Vec<_>>().join(", ")
    };
    let (seen, wanted) = (list(1), list(2));
    let is_right = wrong.is_empty();
    f.claim(STATEMENT, "SMP that trap 256 describes")
        .by(cause)
        .saw(if is_right { "as sent".into() } else { seen })
        .must(if is_right { "as sent".into() } else { wanted }, is_right);
}

/// Returns the ports on an SMP's route, as a response to an SMP on the same route shows them. Returns an empty path if
/// there is no such response, or if a notice cannot hold the path.
fn returns(t: &Trace, asked: &verbatim_wire::Mad, hops: u8) -> Vec<u8> {
    let route = |mad: &verbatim_wire::Mad| {
        let smp = DrSmp::from_bytes(mad.bytes());
        (1..=usize::from(hops))
            .map(|hop| smp.initial_path(hop))
            .collect::<Vec<_>>()
    };
    let same = t
        .exchanges
        .iter()
        .filter(|of| of.request.is_directed() && route(&of.request) == route(asked));
    let response = same
        .filter_map(Exchange::answer)
        .next()
        .filter(|_| (1..30).contains(&hops));
    let path = response.map(|response| {
        let smp = DrSmp::from_bytes(response.mad.bytes());
        (1..=usize::from(hops))
            .map(|hop| smp.return_path(hop))
            .collect::<Vec<_>>()
    });
    path.filter(|path| path.iter().any(|port| *port != 0))
        .unwrap_or_default()
}
