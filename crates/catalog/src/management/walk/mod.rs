//! `c14-walk`: a walk of random SMPs finds no broken rule.
//!
//! The seed determines the steps. They read and set any attribute, with legal and illegal values, with the right key
//! and other keys, and with limit values of the AttributeModifier. They lock the port at every level with leases that
//! expire, and use undefined methods and class versions. The management oracle judges the whole walk, as it does in
//! every management test. In this test, each rule that applied and was not broken is a passed check.
//!
//! Each step has its own stream of random numbers, so leaving out a step does not change the others. A failed walk is
//! therefore reduced to the fewest steps that still fail, and `--set` repeats these steps.
//!
//! Reading: no step takes the link down or makes a change that cannot be restored. The steps change the LID only
//! if the rig does not reach the device by it. False alarm: another SM; the test runs only on rigs without another
//! SM.

mod step;

use verbatim_record::{Findings, Gap, Label, Passed, Trace};
use verbatim_tester::{Guarded, Need, Parameter, Quiet, Settable, Step, Stop, Stream, Test, Tester};
use verbatim_wire::{
    AnyAttribute, AttributeId, Guid, GuidInfo, Layout, LedInfo, Lid, LinkDownDefault, LinkSpeedExt, LinkSpeeds,
    LinkWidths, MKey, Mtu, NodeDescription, NodeInfo, Notice, PKey, PKeyTable, PortInfo, SlToVlMappingTable,
    SubnetTimeout, VlArbitrationTable, VlCap,
};

use verbatim_oracle::management as oracle;

use super::keys;
use step::{Action, Key, What};

const FOUND: Label<PortInfo> = Label::new("PortInfo as found");
const FOUND_TABLE: Label<AnyAttribute> = Label::new("other attributes as found");
const LOCK: Label<PortInfo> = Label::new("set key, protect level and lease");
const GET: Label<AnyAttribute> = Label::new("Get");
const SET: Label<PortInfo> = Label::new("Set PortInfo");
const SET_OTHER: Label<AnyAttribute> = Label::new("Set another attribute");
const REPRESS: Label<Notice> = Label::new("TrapRepress");
const METHOD: Label<NodeInfo> = Label::new("a method or version that does not exist, or a response");
const LAST: Label<PortInfo> = Label::new("PortInfo at the end");

/// The prefix of a note that lists the remaining steps of a reduced walk.
const SHRUNK: &str = "shrunk: ";
/// CapabilityMask: the port has LedInfo. Some ports without LedInfo do not respond to a Get of it.
const HAS_LED: u32 = 1 << 9;
/// The number of steps that the mask `keep` can hold.
const MOST: u64 = 48;
/// The mask of all steps.
const ALL: u64 = (1 << MOST) - 1;

pub(super) static TEST: Test = Test {
    id: "c14-walk",
    aliases: &[],
    revision: 5,
    about: "After SMPs with random keys and values the port shows the values that were Set, and no other SMP changes \
        them.",
    reading: "The seed decides the steps. A failed walk is shrunk; an observation gives the shortest walk that still \
        fails and the parameters that repeat it. No step takes the link down, changes a LID that the rig uses, or \
        makes a change that cannot be restored.",
    statements: &[
        "C13-24",
        "13.4.2 MAD header",
        "C14-16",
        "C14-19",
        "C14-20",
        "C14-21",
        "C14-24",
        "C14-27",
        "C14-29",
        "14.2.5.1 traps",
    ],
    needs: &[Need::Mad, Need::OwnSubnet],
    parameters: &[
        Parameter {
            name: "steps",
            about: "steps of the walk",
            range: (1, MOST),
            simulated: MOST,
            default: 16,
        },
        Parameter {
            name: "keep",
            about: "bit mask of the steps to take; the lowest bit is the first step",
            range: (0, ALL),
            simulated: ALL,
            default: ALL,
        },
    ],
    procedure,
    judge,
};

/// Returns the steps of the walk, each with its number, counted from 1.
fn steps(steps: u64, keep: u64, stream: impl Fn(&str) -> Stream) -> Vec<(u64, Action)> {
    let taken = (1..=steps).filter(|at| keep >> (at - 1) & 1 == 1);
    taken
        .map(|at| (at, Action::drawn(&mut stream(&format!("step {at}")))))
        .collect()
}

/// The attributes that the walk may set, with their original values in the journal.
struct Walk {
    port: Guarded<PortInfo>,
    keys: [MKey; 4],
    description: Option<Guarded<NodeDescription>>,
    node: Option<Guarded<NodeInfo>>,
    guids: Option<Guarded<GuidInfo>>,
    p_keys: Option<Guarded<PKeyTable>>,
    sl_to_vl: Option<Guarded<SlToVlMappingTable>>,
    arbitration: Option<Guarded<VlArbitrationTable>>,
    led: Option<Guarded<LedInfo>>,
}

/// Stores an attribute in the journal. Returns `None` if the device lacks the attribute, or does not accept its
/// original value back.
fn guarded<A: Settable>(t: &mut Tester<'_>, modifier: u32) -> Step<Option<Guarded<A>>> {
    match t.guard_parts(Label::<A>::new(FOUND_TABLE.name), t.rig_key(), &[modifier]) {
        Ok(guard) => {
            let labels = (Label::new(SET_OTHER.name), Label::new(FOUND_TABLE.name));
            let why = t.not_taken_back(labels, &guard)?;
            Ok(why.is_none().then_some(guard))
        }
        Err(Stop::Refused(_)) => Ok(None),
        Err(stop) => Err(stop),
    }
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let steps = steps(t.parameter("steps"), t.parameter("keep"), |name| t.random(name));
    let (ours, [other, another, ..]) = keys::keys(t);
    let key = t.rig_key();
    let port = t.guard(FOUND, key)?;
    let walk = Walk {
        port,
        keys: [MKey(0), ours, other, another],
        description: guarded(t, 0)?,
        node: guarded(t, 0)?,
        guids: guarded(t, 0)?,
        p_keys: guarded(t, 0)?,
        sl_to_vl: guarded(t, 0)?,
        arbitration: guarded(t, 1 << 16)?,
        led: if t.shown().capability_mask().has(HAS_LED) {
            guarded(t, 0)?
        } else {
            None
        },
    };
    // Lock the port first: without an M_Key, the port drops no request.
    let mut random = t.random("first lock");
    let (level, lease) = (random.between(0, 3) as u8, random.between(0, 20) as u16);
    walk.take(t, Action::Lock(1, level, lease))?;
    for (_, action) in steps {
        walk.take(t, action)?;
    }
    t.get(LAST, t.key())?;
    Ok(())
}

fn key_of(t: &Tester<'_>, key: Key) -> MKey {
    match key {
        Key::Right => t.key(),
        Key::Other(key) => MKey(key),
        Key::OneBit(bit) => MKey(t.key().0 ^ 1 << bit),
        Key::Zero => MKey(0),
    }
}

impl Walk {
    fn take(&self, t: &mut Tester<'_>, action: Action) -> Step {
        match action {
            Action::Lock(key, level, lease) => {
                let value = keys::protected(&self.port, self.keys[usize::from(key % 4)], level, lease);
                t.set(LOCK, &self.port, value)?;
            }
            Action::Get(attribute, modifier, key) => {
                let key = key_of(t, key);
                t.ask_any_once(GET, (attribute, modifier), key)?;
            }
            Action::Set(what, value, key) => self.set(t, what, value, key)?,
            Action::Repress(key) => {
                let key = key_of(t, key);
                t.repress(REPRESS, key, &keys::bad_m_key_notice())?;
            }
            Action::ByLid(attribute, modifier, key) => {
                let (lid, key) = (t.shown().lid(), key_of(t, key));
                // On a fabric, a LID-routed packet may be lost.
                if t.is_simulated() && lid.is_unicast() {
                    t.ask_any_by_lid(lid, GET, (attribute, modifier), key)?;
                }
            }
            // On a real rig, the host's kernel would handle an unsolicited response.
            Action::Method(method) if method.is_response() && !t.is_simulated() => {}
            Action::Method(method) => {
                t.send_once(METHOD, method, 0, t.key())?;
            }
            Action::Version(version) => {
                t.get_as_version(METHOD, (1, version), t.key())?;
            }
            Action::Wait(time) => t.pause(time)?,
        }
        Ok(())
    }

    fn set(&self, t: &mut Tester<'_>, what: What, value: u64, key: Key) -> Step {
        let at = |count: u64| (value % count) as usize;
        let low = value.to_le_bytes();
        match what {
            What::Other(AttributeId::NODE_DESCRIPTION) => {
                other(t, &self.description, 0, key, |of| of.with_octet(at(64), low[1] & 0x7F))
            }
            What::Other(AttributeId::NODE_INFO) => {
                other(t, &self.node, 0, key, |of| of.with_partition_cap(value as u16))
            }
            What::Other(AttributeId::GUID_INFO) => other(t, &self.guids, 0, key, |of| of.with_guid(at(8), Guid(value))),
            What::Other(AttributeId::P_KEY_TABLE) => other(t, &self.p_keys, 0, key, |of| {
                of.with_p_key(1 + at(31), p_key((value >> 8) as u16))
            }),
            What::Other(AttributeId::SL_TO_VL) => other(t, &self.sl_to_vl, 0, key, |of| {
                of.with_vl(at(16), if value >> 8 & 1 == 0 { 0 } else { 15 })
            }),
            What::Other(AttributeId::VL_ARBITRATION) => other(t, &self.arbitration, 1 << 16, key, |of| {
                of.with_weight(at(8), low[1] | 1)
            }),
            What::Other(_) => other(t, &self.led, 0, key, |of| of.with_led_mask(value & 1 == 1)),
            What::Port(_) | What::Illegal(_) | What::ReadOnly | What::Counters => {
                let (found, lock) = (*self.port.found(), t.shown());
                if !may_be_set(t, &found, what) {
                    return Ok(());
                }
                let image = self.port.quiet().change(|info| {
                    let info = info.with_fields_of(&lock, &keys::LOCKED).with_m_key(t.key());
                    changed(info, &found, what, value)
                });
                match key {
                    Key::Right => t.set(SET, &self.port, image).map(|_| ()),
                    key => {
                        let key = key_of(t, key);
                        t.set_once(SET, &self.port, (key, 0), image).map(|_| ())
                    }
                }
            }
        }
    }
}

/// Returns whether the field can be set and restored on this rig.
fn may_be_set(t: &Tester<'_>, found: &PortInfo, what: What) -> bool {
    match what {
        // A defective device might take the link down permanently.
        What::Illegal("PortState" | "PortPhysicalState") => t.is_simulated(),
        What::Illegal("LID") => !t.is_lid_routed(),
        What::Port("addresses") => !t.is_lid_routed() && found.lid().is_unicast() && found.master_sm_lid().is_unicast(),
        _ => true,
    }
}

/// Sets another attribute to its original value with one change, if the device has the attribute.
fn other<A: Settable>(
    t: &mut Tester<'_>,
    guard: &Option<Guarded<A>>,
    modifier: u32,
    key: Key,
    change: impl FnOnce(A) -> A,
) -> Step {
    let Some(guard) = guard else { return Ok(()) };
    let value: Quiet<A> = guard.quiet_at(modifier).change(change);
    let key = key_of(t, key);
    let label = Label::<A>::new(SET_OTHER.name);
    t.set_once(label, guard, (key, modifier), value).map(|_| ())
}

/// Returns a P_Key whose base is neither 0 nor the base of the default partition.
fn p_key(value: u16) -> PKey {
    PKey((1 + (value & 0x7FFF) % 0x7FFE) | value & 0x8000)
}

/// Returns a site-local prefix. A port may refuse a prefix of multicast addresses.
fn site_local(value: u64) -> verbatim_wire::values::Hex64 {
    verbatim_wire::values::Hex64(0xFEC0_0000_0000_0000 | value & 0xFFFF_FFFF)
}

/// Returns a LID that no port can have: 0, the first multicast LID, or any multicast LID.
fn multicast_or_none(value: u64) -> Lid {
    match value >> 32 & 3 {
        0 => Lid(0),
        1 => Lid(0xC000),
        _ => Lid(0xC000 | (value as u16)),
    }
}

/// Returns PortInfo with the fields that a step changes.
fn changed(info: PortInfo, found: &PortInfo, what: What, value: u64) -> PortInfo {
    let low = value.to_le_bytes();
    let up_to = |most: u8| 1 + low[0] % most.max(1);
    match what {
        What::Port("GidPrefix") => info.with_gid_prefix(site_local(value)),
        What::Port("SubnetTimeOut") => info.with_subnet_timeout(SubnetTimeout(8 + low[0] % 12)),
        What::Port("LocalPhyErrors") => info.with_local_phy_errors(up_to(15)),
        What::Port("OverrunErrors") => info.with_overrun_errors(up_to(15)),
        What::Port("MasterSMSL") => info.with_master_sm_sl(low[0] & 0xF),
        What::Port("VLHighLimit") => info.with_vl_high_limit(low[0]),
        What::Port("NeighborMTU") => info.with_neighbor_mtu(Mtu(up_to(found.mtu_cap().0))),
        What::Port("OperationalVLs") => info.with_operational_vls(VlCap(up_to(found.vl_cap().0))),
        What::Port("LinkWidthEnabled") => info.with_link_width_enabled(LinkWidths(
            low[0] & found.link_width_supported().0 | found.link_width_active().0,
        )),
        What::Port("all widths") => info.with_link_width_enabled(LinkWidths(0xFF)),
        What::Port("all speeds") => info.with_link_speed_enabled(LinkSpeeds(0xF)),
        What::Port("LinkSpeedExtEnabled") => info.with_link_speed_ext_enabled(match low[0] % 3 {
            0 => LinkSpeedExt(0),
            1 => found.link_speed_ext_supported(),
            _ => LinkSpeedExt(low[1] & found.link_speed_ext_supported().0),
        }),
        What::Port("LinkDownDefaultState") => info.with_link_down_default_state(LinkDownDefault::POLLING),
        What::Port("InitType") => info.with_init_type(low[0] & 0xF),
        What::Port("McastPkeyTrapSuppressionEnabled") => info.with_mcast_pkey_trap_suppression(low[0] & 1),
        // The low LMC bits of a base LID are 0.
        What::Port("addresses") if low[5] & 3 == 0 => {
            let ends = [Lid(1), Lid(0xBFFF)];
            info.with_lid(ends[usize::from(low[0] & 1)])
                .with_lmc(0)
                .with_master_sm_lid(ends[usize::from(low[1] & 1)])
        }
        What::Port("addresses") => info
            .with_lid(Lid(0x80 | (value >> 8) as u16 & 0x7F80))
            .with_lmc(low[0] & 7)
            .with_master_sm_lid(Lid(1 + (value >> 32) as u16 % 0xBFFF)),
        What::Port("ClientReregister") => info.with_client_reregister(true),
        What::Port(_) => info.with_link_speed_enabled(found.link_speed_enabled()),
        What::Illegal("PortState") => info.with_port_state(verbatim_wire::PortState(if low[0] & 1 == 0 {
            2
        } else {
            5 + low[1] % 11
        })),
        What::Illegal("PortPhysicalState") => info.with_port_physical_state(verbatim_wire::PhysState(4 + low[0] % 12)),
        What::Illegal("LID") => info.with_lid(multicast_or_none(value)),
        What::Illegal("MasterSMLID") => info.with_master_sm_lid(multicast_or_none(value)),
        What::Illegal("NeighborMTU") => info.with_neighbor_mtu(Mtu(if low[0] & 1 == 0 {
            0
        } else {
            (found.mtu_cap().0 + 1) & 0xF
        })),
        What::Illegal("OperationalVLs") => {
            let cap = found.vl_cap().0;
            info.with_operational_vls(VlCap((cap + 1 + low[1] % (15 - cap.min(14))) & 0xF))
        }
        What::Illegal("LinkWidthEnabled") => {
            let missing = (0..8)
                .map(|bit| 1 << bit)
                .find(|width| found.link_width_supported().0 & width == 0);
            info.with_link_width_enabled(LinkWidths(found.link_width_supported().0 | missing.unwrap_or(0)))
        }
        What::Illegal("LinkSpeedEnabled") => {
            info.with_link_speed_enabled(LinkSpeeds((found.link_speed_supported().0 | 8) & 0xD))
        }
        What::Illegal(_) => info.with_link_down_default_state(LinkDownDefault(3 + low[0] % 13)),
        What::ReadOnly => info
            .with_capability_mask(verbatim_wire::values::CapabilityMask(value as u32))
            .with_vl_cap(VlCap(low[4] & 7))
            .with_mtu_cap(Mtu(low[4] >> 4))
            .with_guid_cap(low[5])
            .with_vl_arbitration_high_cap(low[6])
            .with_vl_arbitration_low_cap(low[7])
            .with_link_width_supported(LinkWidths(low[3])),
        _ => info
            .with_m_key_violations(0)
            .with_p_key_violations(0)
            .with_q_key_violations(0),
    }
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    for label in [FOUND, LOCK, SET, LAST] {
        t.not_judged(label);
    }
    for label in [FOUND_TABLE, GET, SET_OTHER] {
        t.not_judged(label);
    }
    t.not_judged(REPRESS);
    t.not_judged(METHOD);
    let judged = oracle::replay(true, t);
    let fails = |name: &str| judged.broken.iter().any(|broken| broken.rule.name() == name);
    for rule in oracle::RULES {
        let times = judged.asked.get(rule.name()).copied().unwrap_or(0);
        if times > 0 && !fails(rule.name()) {
            f.claim(rule.statement(), rule.name())
                .saw(format!("applied {times} {}", if times == 1 { "time" } else { "times" }))
                .comes_to(rule.says(), Passed::Pass);
        }
    }
    if !judged.broken.is_empty() || t.notes.iter().any(|note| note.starts_with(SHRUNK)) {
        tell(t, f);
    }
    t.answer::<PortInfo>(LAST).map(|_| ())
}

/// Adds an observation with the steps of the walk and the parameters that repeat it. A reduced walk is shown instead of
/// the original walk. The record does not name its rig, so the text is not a complete command.
fn tell(t: &Trace, f: &mut Findings<'_>) {
    let shrunk = t.notes.iter().rev().find_map(|note| note.strip_prefix(SHRUNK));
    let left = shrunk.and_then(|words| {
        words
            .split(' ')
            .find_map(|word| word.strip_prefix("keep=")?.parse().ok())
    });
    let keep = left.or(t.parameter("keep")).unwrap_or(ALL);
    let count = t.parameter("steps").unwrap_or(MOST);
    let steps = steps(count, keep, |name| Stream::new(t.begin.seed, TEST.id, name));
    let words: Vec<String> = steps.iter().map(|(at, step)| format!("{at}) {step}")).collect();
    let what = if shrunk.is_some() {
        "the shortest walk that still fails"
    } else {
        "to repeat this walk"
    };
    f.observe(format!("{} steps: {}", steps.len(), words.join(". ")), &[]);
    let (id, seed) = (TEST.id, t.begin.seed);
    f.observe(
        format!("{what}, on the same rig: {id} --seed {seed} --set steps={count} --set keep={keep}"),
        &[],
    );
}
