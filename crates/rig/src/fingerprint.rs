//! Fingerprints: descriptions of a rig and its device that are stored with every run.

use core::net::Ipv6Addr;
use core::time::Duration;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use umad::{Device, DevicePort, Port};
use verbatim_record::Side;
use verbatim_record::verbs::{Command, Reply, pb, reply_words};
use verbatim_tester::{Arrival, Need, Rig, RigInfo, Route, Step, Stimulus, Stop};
use verbatim_wire::{Attribute, Layout, Mad, Method, Mtu, NodeDescription, NodeInfo, PortInfo, Status, Style};

use super::file::VirtualConfig;

/// Transaction IDs of this module's requests count up from this number. The top bit keeps them apart from the
/// tester's own transaction IDs.
const FIRST_ID: u32 = 0xFFFF_FE00;
/// Key of the fingerprint under which a rig with MADs stores its agent's description of the DUT's host.
pub(super) const DUT_HOST: &str = "dut_host";
/// Maximum number of times that one request is sent.
const TRIES: u32 = 3;
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// Time limit for a host to open its device.
const OPENED_WITHIN: Duration = Duration::from_secs(30);

pub(super) fn of_virtual(config: &VirtualConfig) -> Value {
    let mut known = json!({
        "kind": "virtual",
        "program": env!("CARGO_PKG_VERSION"),
        "profile": config.profile.name(),
        "seed": config.varied_by(),
        "defects": config.defect_names(),
    });
    // These keys appear only if their value is not the default.
    let (choices, disturbance) = (config.link_choice_names(), config.disturbance_names());
    for (key, value, is_usual) in [
        ("link_choices", json!(choices), choices.is_empty()),
        ("disturbance", json!(disturbance), disturbance.is_empty()),
        ("busy", json!(config.busy), config.busy.is_none()),
        ("infiniband", json!(config.infiniband), !config.infiniband),
        ("ipv6", json!(config.ipv6), !config.ipv6),
        ("simulated", json!(false), !config.rules_of_hardware),
    ] {
        if !is_usual {
            known[key] = value;
        }
    }
    known
}

pub(super) fn of_model(socket: &Path) -> Value {
    json!({
        "kind": "model",
        "program": env!("CARGO_PKG_VERSION"),
        "kernel": kernel(),
        "socket": socket.to_string_lossy(),
    })
}

/// Describes the tester's own adapter and port; a value that cannot be read is null.
pub(super) fn of_umad(device: Option<&Device>, seen: Option<&DevicePort>, port: &Port) -> Value {
    let hex = |guid: u64| format!("{guid:#018x}");
    let adapter = device.map(|device| {
        json!({
            "name": device.name,
            "type": device.kind,
            "firmware": device.firmware,
            "hardware": device.hardware,
            "node_guid": hex(device.node_guid),
            "system_image_guid": hex(device.system_guid),
            "driver": driver(&device.name),
        })
    });
    let link = seen.map(|port| {
        json!({
            "port": port.number,
            "state": port.state,
            "physical_state": port.physical_state,
            "lid": port.lid,
            "lmc": port.lmc,
            "sm_lid": port.sm_lid,
            "rate_gbps": port.rate_gbps,
            "capability_mask": format!("{:#010x}", port.capability_mask),
            "port_guid": hex(port.guid),
            "link_layer": port.link_layer,
        })
    });
    json!({
        "kind": "umad",
        "program": env!("CARGO_PKG_VERSION"),
        "kernel": kernel(),
        "adapter": adapter,
        "link": link,
        "receives_traps": port.receives_traps(),
    })
}

/// Reads the fingerprint of the device under test: NodeInfo, NodeDescription and PortInfo without its M_Key. An
/// attribute is null if the device does not respond. On a rig without MADs, returns the DUT host's description of the
/// device.
///
/// Call this function after the device's state was restored. The requests carry the rig's M_Key, and an interrupted
/// run may have left another M_Key in the device.
///
/// # Errors
/// When the rig stops the run.
pub fn device(rig: &mut dyn Rig, info: &RigInfo) -> Step<Value> {
    if !info.offers.contains(&Need::Mad) {
        return Ok(of_host(&ask_host(rig, Side::Dut)?));
    }
    let mut id = FIRST_ID;
    Ok(json!({
        "node_info": ask::<NodeInfo>(rig, info, &mut id)?,
        "node_description": ask::<NodeDescription>(rig, info, &mut id)?,
        "port_info": ask::<PortInfo>(rig, info, &mut id)?,
    }))
}

/// Combines the fingerprints of the tester's own side and of the device. Adds a note if the DUT's agent describes a
/// device with another NodeGUID than the device that responds to MADs.
#[must_use]
pub fn whole(mut tester: Value, device: Value) -> Value {
    let told = tester[DUT_HOST]["device"]["node_guid"].as_str();
    let answers = device["node_info"]["NodeGUID"].as_str();
    if let (Some(told), Some(answers)) = (told, answers)
        && told != answers
    {
        let words = format!(
            "the agent opened the device with NodeGUID {told}, and the device that answers MADs has {answers}: the \
             agent's description is of another device; correct `agent` or `route` of the rig"
        );
        tester[DUT_HOST]["is_another"] = words.into();
    }
    json!({ "tester": tester, "device": device })
}

/// Asks a host to open its device, or to describe an open one. Discards all other arrivals meanwhile.
pub(super) fn ask_host(rig: &mut dyn Rig, side: Side) -> Step<pb::Opened> {
    let open = Command::Open(pb::Open {});
    let until = rig
        .send(Stimulus::Verbs(side, FIRST_ID, &open))?
        .latest
        .after(OPENED_WITHIN);
    loop {
        match rig.wait(until) {
            Arrival::Stop(stop) => return Err(stop),
            Arrival::Deadline => {
                return Err(Stop::RigGone(format!(
                    "the host of the {side}'s device did not open it within {OPENED_WITHIN:?}: does its driver hang?"
                )));
            }
            Arrival::Verbs(of, FIRST_ID, _, _, reply) if of == side => {
                return match reply {
                    Reply::Opened(opened) => Ok(opened),
                    Reply::Refused(refused) => Err(Stop::Refused(format!(
                        "the host of the {side}'s device could not open it: {}",
                        refused.text
                    ))),
                    other => Err(Stop::Tester(format!(
                        "the host of the {side}'s device was told to open it and answered \"{}\": is it an agent of this \
                         version?",
                        reply_words(&other)
                    ))),
                };
            }
            _ => {}
        }
    }
}

/// Converts a host's description of its device.
pub(super) fn of_host(opened: &pb::Opened) -> Value {
    let gids: Vec<_> = opened
        .gids
        .iter()
        .map(|gid| {
            let bytes: Result<[u8; 16], _> = gid.gid.as_slice().try_into();
            json!({
                "index": gid.index,
                "gid": bytes.map(|bytes| Ipv6Addr::from(bytes).to_string()).ok(),
                "kind": gid.kind,
            })
        })
        .collect();
    json!({
        "name": opened.device,
        "port": opened.port,
        "firmware": opened.firmware,
        "node_guid": format!("{:#018x}", opened.node_guid),
        "vendor_id": format!("{:#08x}", opened.vendor_id),
        "vendor_part_id": opened.vendor_part_id,
        "hardware": opened.hw_ver,
        "port_state": opened.port_state,
        "active_mtu": Mtu(u8::try_from(opened.active_mtu).unwrap_or(0)).to_string(),
        "link_layer": if opened.ethernet { "Ethernet" } else { "InfiniBand" },
        "lid": opened.lid,
        "gids": gids,
        "host": opened.host,
        "driver": opened.driver,
    })
}

fn ask<A: Attribute>(rig: &mut dyn Rig, info: &RigInfo, id: &mut u32) -> Step<Value> {
    for _ in 0..TRIES {
        *id += 1;
        let blank = match &info.route {
            Route::Directed(path) => Mad::directed(Method::GET, A::ID, 0, path),
            Route::Lid(_) => Mad::lid_routed(Method::GET, A::ID, 0),
        };
        let ask = blank.with_m_key(info.key).with_transaction_id(u64::from(*id));
        let until = rig.send(Stimulus::Mad(0, &ask))?.latest.after(ANSWER_WITHIN);
        loop {
            match rig.wait(until) {
                Arrival::Stop(stop) => return Err(stop),
                Arrival::Deadline => break,
                // A busy device gets the request again after the timeout.
                Arrival::Mad(_, _, mad) if mad.transaction_id() as u32 == *id && mad.status() != Status::BUSY => {
                    return Ok(match mad.status() {
                        Status::OK => fields(&mad.attribute::<A>()),
                        refused => json!({ "refused": refused.to_string() }),
                    });
                }
                _ => {}
            }
        }
    }
    Ok(Value::Null)
}

/// Formats every field except reserved ones and keys.
fn fields<A: Layout>(attribute: &A) -> Value {
    let shown = A::FIELDS
        .iter()
        .filter(|field| field.style != Style::Reserved && field.name != "M_Key");
    let pairs = shown.map(|field| (field.name.into(), Value::String(field.words(attribute.bytes()))));
    Value::Object(pairs.collect::<Map<_, _>>())
}

pub(super) fn kernel() -> Option<String> {
    line("/proc/sys/kernel/osrelease".as_ref())
}

/// Returns the name and version of an adapter's driver; the version is null if the module has none.
pub(super) fn driver(adapter: &str) -> Value {
    module_of(&Path::new("/sys/class/infiniband").join(adapter))
}

/// Returns the name and version of a network interface's driver.
pub(super) fn interface_driver(interface: &str) -> Value {
    module_of(&Path::new("/sys/class/net").join(interface))
}

fn module_of(of: &Path) -> Value {
    let (name, version) = verbatim_verbs::driver(of);
    json!({ "name": name, "version": version })
}

fn line(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbatim_wire::Guid;

    #[test]
    fn omits_reserved_fields_and_keys() {
        let info = PortInfo::from_bytes(&[0xFF; 64]);
        let Value::Object(fields) = fields(&info) else {
            panic!("no object");
        };
        assert!(
            fields.contains_key("LID") && !fields.contains_key("M_Key"),
            "{fields:?}"
        );
        assert!(fields.keys().all(|name| !name.starts_with("Reserved")), "{fields:?}");
    }
    #[test]
    fn notes_an_agent_on_another_device() {
        let tester =
            json!({ "dut_host": { "device": { "node_guid": format!("{:#018x}", 0x0002_c900_0000_1000_u64) } } });
        let info = |guid: u64| NodeInfo::default().with_node_guid(Guid(guid));
        let device = |guid| json!({ "node_info": fields(&info(guid)) });
        let of = |guid| whole(tester.clone(), device(guid))["tester"][DUT_HOST]["is_another"].clone();
        assert_eq!(of(0x0002_c900_0000_1000), Value::Null);
        let said = of(0x0002_c900_0000_2000).to_string();
        assert!(
            said.contains("0x0002c90000001000") && said.contains("0x0002c90000002000"),
            "{said}"
        );
        // Nothing to compare: no agent, or no response.
        assert_eq!(whole(json!({}), device(1))["tester"], json!({}));
        assert_eq!(whole(tester.clone(), json!({ "node_info": null }))["tester"], tester);
    }
}
