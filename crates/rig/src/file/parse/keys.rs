//! The keys that each kind of rig may have.

use core::ops::Range;

use toml::Spanned;
use verbatim_tester::{ACK_TIMEOUT_LEAST, OUT_OF_ORDER};

use super::{RawRig, Wrong, wrong};

/// Kinds that send MADs.
const OF_MADS: [&str; 3] = ["virtual", "umad", "model"];
/// Kinds that can have an agent on the DUT's host.
const OF_AGENTS: [&str; 3] = ["umad", "packet", "verbs"];
/// Kinds that have RC connections.
const OF_CONNECTIONS: [&str; 3] = ["virtual", "packet", "verbs"];
/// A key, the kinds that may have it, and its place in the file if it is there.
pub(super) type Key<'a> = (&'a str, &'a [&'a str], Option<Range<usize>>);

/// Refuses keys that rigs of this kind do not have, because such a key is always a mistake.
pub(super) fn only_its_own(rig: &RawRig, kind: &str) -> Result<(), Wrong> {
    fn at<T>(key: Option<&Spanned<T>>) -> Option<Range<usize>> {
        key.map(Spanned::span)
    }
    let keys: [Key<'_>; 37] = [
        ("m_key", &OF_MADS, at(rig.m_key.as_ref())),
        ("shared_subnet", &OF_MADS, at(rig.shared_subnet.as_ref())),
        ("window", &OF_MADS, at(rig.window.as_ref())),
        ("subnet_timeout", &OF_MADS, at(rig.subnet_timeout.as_ref())),
        ("assign_lid", &OF_MADS, at(rig.assign_lid.as_ref())),
        ("write_counters", &["umad", "model"], at(rig.write_counters.as_ref())),
        ("may_crash", &["packet"], at(rig.may_crash.as_ref())),
        ("route", &OF_MADS, at(rig.route.as_ref())),
        ("lid", &OF_MADS, at(rig.lid.as_ref())),
        ("device", &["umad", "verbs"], at(rig.device.as_ref())),
        ("port", &["umad", "verbs"], at(rig.port.as_ref())),
        ("verbs", &["umad"], at(rig.verbs.as_ref())),
        ("env", &["umad"], at(rig.env.as_ref())),
        ("socket", &["model", "packet"], at(rig.socket.as_ref())),
        ("profile", &["virtual"], at(rig.profile.as_ref())),
        ("seed", &["virtual"], at(rig.seed.as_ref())),
        ("defects", &["virtual"], at(rig.defects.as_ref())),
        ("link_choices", &["virtual"], at(rig.link_choices.as_ref())),
        ("disturbance", &["virtual"], at(rig.disturbance.as_ref())),
        ("busy", &["virtual"], at(rig.busy.as_ref())),
        ("infiniband", &["virtual"], at(rig.infiniband.as_ref())),
        ("ipv6", &["virtual"], at(rig.ipv6.as_ref())),
        ("simulated", &["virtual"], at(rig.simulated.as_ref())),
        ("interface", &["packet"], at(rig.interface.as_ref())),
        ("mac", &["packet"], at(rig.mac.as_ref())),
        ("ip", &["packet"], at(rig.ip.as_ref())),
        ("dut_ip", &["packet"], at(rig.dut_ip.as_ref())),
        ("gid_index", &["packet", "verbs"], at(rig.gid_index.as_ref())),
        ("dut_gid_index", &["verbs"], at(rig.dut_gid_index.as_ref())),
        ("agent", &OF_AGENTS, at(rig.agent.as_ref())),
        ("agent_ca", &OF_AGENTS, at(rig.agent_ca.as_ref())),
        ("agent_cert", &OF_AGENTS, at(rig.agent_cert.as_ref())),
        ("agent_key", &OF_AGENTS, at(rig.agent_key.as_ref())),
        ("agent_name", &OF_AGENTS, at(rig.agent_name.as_ref())),
        ("dut_device", &OF_AGENTS, at(rig.dut_device.as_ref())),
        (
            ACK_TIMEOUT_LEAST,
            &OF_CONNECTIONS,
            at(rig.dut_ack_timeout_least.as_ref()),
        ),
        (OUT_OF_ORDER, &OF_CONNECTIONS, at(rig.dut_out_of_order.as_ref())),
    ];
    for (key, owners, span) in keys.into_iter().chain(super::slow::places(rig)) {
        if let Some(span) = span.filter(|_| !owners.contains(&kind)) {
            let owners: Vec<_> = owners.iter().map(|owner| format!("{owner:?}")).collect();
            return wrong(
                span,
                format!(
                    "{key:?} is a key of rigs of kind {}, and this one is {kind:?}; remove it",
                    owners.join(" or ")
                ),
            );
        }
    }
    Ok(())
}
