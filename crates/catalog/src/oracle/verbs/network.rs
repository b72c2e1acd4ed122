//! Rules of the IP header: what the queue pair's address vector says, every packet carries, requests and responses alike.
//!
//! Source: architecture 8.3 (GRH), 11.2.2.1 (address handles); annex A17 (RoCEv2: where the fields of the GRH stand); Linux
//! rxe. The low two bits of the traffic class are ECN's, which congestion control has for itself. A flow label of 0 says
//! nothing, and IPv4 has none.

use verbatim_record::Passed;

use super::talk::Talk;
use super::{Asking, VerbsRule};
use crate::oracle::rule::Rule;
use crate::oracle::rules::rule;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[(
    rule!(
        "address-vector",
        "9.7.3 request generation",
        "Every packet carries the hop limit, the traffic class and the flow label of the queue pair's address vector."
    ),
    address_vector,
)];

/// Congestion experienced: no end of a connection says so of its own packets.
const CE: u8 = 3;

fn address_vector<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    let Some(asked) = talk.dialogue.attributes.address.as_ref() else {
        return;
    };
    for seen in talk.dialogue.of_dut() {
        let (hops, dscp, ecn, flow) = match (seen.packet.ipv4(), seen.packet.ipv6()) {
            (Some(ip), _) => (ip.ttl(), ip.dscp(), ip.ecn(), None),
            (_, Some(ip)) => (ip.hop_limit(), ip.dscp(), ip.ecn(), Some(ip.flow_label().0)),
            _ => continue,
        };
        let flow = flow.filter(|_| asked.flow_label != 0);
        // A kernel sets the hop limit of its route instead, what lies between may rewrite DSCP and ECN.
        let has_hops = !talk.is_lossless() || asked.hop_limit == 0 || u32::from(hops) == asked.hop_limit;
        let has_class = u32::from(dscp) == asked.traffic_class >> 2 && ecn != CE;
        let has_label = flow.is_none_or(|flow| flow == asked.flow_label);
        let result = match (has_label && has_hops, has_class) {
            (true, true) => Passed::Pass,
            (true, false) if !talk.is_lossless() => Passed::Inconclusive,
            _ => Passed::Fail,
        };
        asking.say(result, [seen.frame.into()], || {
            let words = |hops: u32, dscp: u32, flow: Option<u32>| {
                let flow = flow.map(|flow| format!(", flow label {flow:#07x}"));
                format!("hop limit {hops}, DSCP {dscp}{}", flow.unwrap_or_default())
            };
            let expected = words(
                asked.hop_limit,
                asked.traffic_class >> 2,
                flow.map(|_| asked.flow_label),
            );
            let found = words(hops.into(), dscp.into(), flow);
            let ecn = if ecn == CE { ", congestion experienced" } else { "" };
            (seen.packet.to_string(), expected, format!("{found}{ecn}"))
        });
    }
}
