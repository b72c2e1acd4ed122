//! A port of this machine, used with libibumad.

pub(super) mod manager;
mod places;

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use nix::errno::Errno;
use umad::{Destination, Device, DevicePort, Library, Port, PortGone, SendError, awaits_answer};
use verbatim_tester::{Need, Route};
use verbatim_wire::{AttributeId, DrSmp, Layout, Lid, Mad, Method, MgmtClass, PortInfo, Status};

use super::both::Both;
use super::error::RigError;
use super::file::{AgentConfig, RigConfig};
use super::fingerprint::DUT_HOST;
use super::port::{Incoming, Link, NotSent, PortRig};
use super::{OpenRig, Session, env, fingerprint, info, peer};
use manager::{Manager, came_between};
use places::{AFTERWARDS, Places, Room};

/// Initial response timeout. It is longer than the wait that tests require for a port whose timeouts are still unknown.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// Time limit for opening the port.
const OPEN_WITHIN: Duration = Duration::from_secs(30);
/// Time limit for sending a MAD that has no response.
const LEAVES_WITHIN: Duration = Duration::from_secs(1);
/// Interval between two tries to send such a MAD.
const AGAIN: Duration = Duration::from_millis(1);
/// QPN and Q_Key of the General Service Interface.
const GSI: (u32, u32) = (1, 0x8001_0000);

pub(super) fn open(
    config: &RigConfig,
    (device, number): (&str, u8),
    (agent, verbs): (Option<&AgentConfig>, bool),
    cancel: Arc<AtomicBool>,
) -> Result<OpenRig, RigError> {
    let rig = || config.name.clone();
    if let Some((name, value)) = env::missing(&config.env, |name| std::env::var_os(name)) {
        return Err(RigError::Environment {
            rig: rig(),
            expected: format!("{name}={value}"),
            seen: env::seen(std::env::var_os(name), name),
        });
    }
    let library = Library::open().map_err(|source| RigError::Unavailable { rig: rig(), source })?;
    let devices = library
        .devices(OPEN_WITHIN)
        .map_err(|source| RigError::Listing { rig: rig(), source })?;
    let ours = devices.iter().find(|known| known.name == device);
    let our_port = ours.and_then(|known| known.ports.iter().find(|port| port.number == number));
    refuse_omni_path(config, fingerprint::driver(device)["name"].as_str())?;
    let mut port =
        Port::open(&library, device, number, OPEN_WITHIN).map_err(|source| RigError::Port { rig: rig(), source })?;
    refuse_what_has_no_smi(config, our_port, &port)?;
    let manager = our_port.map_or(Ok(Manager::None), |seen| Manager::of(seen, &mut port));
    let manager = manager.map_err(|why| RigError::Lost { rig: rig(), why })?;
    if let (Some(seen), false) = (our_port, config.shared_subnet) {
        refuse_foreign_manager(config, device, seen, manager)?;
    }
    let mut fingerprint = fingerprint::of_umad(ours.map(without_ports).as_ref(), our_port, &port);
    fingerprint["subnet_manager"] = manager.in_words().into();
    let mut hosts = None;
    match agent {
        Some(of) if verbs => {
            let (opened, told, is_native) = peer::hosts(config, (device, number), of, Arc::clone(&cancel))?;
            if !is_native {
                return Err(RigError::Refused {
                    rig: rig(),
                    why:
                        "verbs = true needs two adapters on InfiniBand, and these are on Ethernet; remove the key, or \
                          use a rig of kind verbs"
                            .into(),
                });
            }
            fingerprint[DUT_HOST] = told;
            hosts = Some(opened);
        }
        Some(of) => fingerprint[DUT_HOST] = peer::dut_host(config, of, Arc::clone(&cancel))?,
        None => {}
    }
    let link = UmadLink {
        library,
        device: device.into(),
        number,
        manager,
        port: Some(port),
        route: config.route.clone(),
        lid_seen: None,
        answer_within: ANSWER_WITHIN,
        places: Places::of_this_kernel(),
        taken_out: VecDeque::new(),
    };
    let mut port = PortRig::new(link, 1, cancel);
    let bound = port
        .measure_host_bound()
        .map_err(|why| RigError::Lost { rig: rig(), why })?;
    let bound = hosts
        .as_mut()
        .map_or(bound, |hosts| bound.max(hosts.measure_host_bound()));
    let mut info = info(config, bound);
    if manager.is_there() {
        // A subnet manager on this host disturbs the tests too: its sweeps stop lease timers and carry its own
        // keys.
        info.shared_subnet = true;
        info.offers.retain(|need| *need != Need::OwnSubnet);
    }
    Ok(OpenRig {
        info,
        session: Session::Real(match hosts {
            Some(hosts) => Box::new(Both::new(port.on_clock(hosts.clock()), hosts)),
            None => Box::new(port),
        }),
        fingerprint,
    })
}

fn without_ports(device: &Device) -> Device {
    Device {
        ports: Vec::new(),
        ..device.clone()
    }
}

/// Refuses a port without QP0. Such a port may open, but subnet management needs QP0.
fn refuse_what_has_no_smi(config: &RigConfig, seen: Option<&DevicePort>, port: &Port) -> Result<(), RigError> {
    let class = match config.route {
        Route::Directed(_) => MgmtClass::SUBN_DIRECTED,
        Route::Lid(_) => MgmtClass::SUBN_LID,
    };
    match port.refusal(class.0) {
        None => Ok(()),
        Some(refusal) => Err(RigError::Refused {
            rig: config.name.clone(),
            why: no_smi(config, seen.map_or("", |seen| &seen.link_layer), &refusal.to_string()),
        }),
    }
}

fn no_smi(config: &RigConfig, link_layer: &str, refusal: &str) -> String {
    let what = config.kind.device();
    if link_layer == "Ethernet" {
        return format!(
            "{what} is RoCE, which has no subnet management: take a rig of kind packet or verbs for it, or an InfiniBand port"
        );
    }
    format!(
        "the kernel offers no subnet management on {what} ({refusal}). On a multi-plane adapter, name its SMI device \
         as `device`: `rdma dev` shows it with `type smi`, `rdma dev add smi1 type SMI parent DEVICE` makes it. \
         Otherwise another program has all agents, or the driver has no QP0 for this port (see `dmesg`)"
    )
}

/// Refuses Omni-Path. libibumad shows Omni-Path adapters like InfiniBand adapters. Their MADs have 2048 bytes and their
/// LIDs 32 bits, and they need a different management agent.
fn refuse_omni_path(config: &RigConfig, driver: Option<&str>) -> Result<(), RigError> {
    match driver {
        Some(driver @ "hfi1") => Err(RigError::Refused {
            rig: config.name.clone(),
            why: format!(
                "{} is an Omni-Path adapter (driver {driver}), which is not InfiniBand: use an InfiniBand adapter",
                config.kind.device()
            ),
        }),
        _ => Ok(()),
    }
}

fn refuse_foreign_manager(
    config: &RigConfig,
    device: &str,
    port: &DevicePort,
    manager: Manager,
) -> Result<(), RigError> {
    let Manager::Elsewhere(sm_lid) = manager else {
        return Ok(());
    };
    Err(RigError::ForeignSubnetManager {
        rig: config.name.clone(),
        device: device.into(),
        port: port.number,
        sm_lid,
        lid: port.lid,
    })
}

struct UmadLink {
    library: Library,
    device: String,
    number: u8,
    /// The subnet manager when the rig was opened.
    manager: Manager,
    /// None if reopening the port failed.
    port: Option<Port>,
    route: Route,
    /// The DUT's LID, from a PortInfo read on a directed route.
    lid_seen: Option<Lid>,
    /// Response timeout of the MADs sent from now on.
    answer_within: Duration,
    places: Places,
    /// MADs that were read before the port was reopened, and the requests that the reopening cancelled.
    taken_out: VecDeque<Incoming>,
}

impl UmadLink {
    fn put(&mut self, mad: &Mad, to: &Destination) -> Result<(), NotSent> {
        let within = self.answer_within;
        let awaits_answer = awaits_answer(mad.bytes());
        let now = Instant::now();
        loop {
            let port = self.port().map_err(NotSent::Gone)?;
            match port.send(mad.bytes(), to, within.saturating_add(AFTERWARDS)) {
                Ok(()) => break,
                Err(SendError::PortGone(lost)) => return Err(NotSent::Gone(gone(&lost))),
                // The kernel refuses a TrapRepress while an earlier one with the same transaction ID has not left
                // yet. It does not report when the earlier one leaves, so try again.
                Err(SendError::Refused { seen, .. })
                    if !awaits_answer
                        && seen.raw_os_error() == Some(Errno::EINVAL as i32)
                        && now.elapsed() < LEAVES_WITHIN =>
                {
                    std::thread::sleep(AGAIN);
                }
                Err(other) => return Err(NotSent::Refused(other.to_string())),
            }
        }
        if awaits_answer {
            self.places.take(*mad, now, within);
        }
        Ok(())
    }

    fn port(&mut self) -> Result<&mut Port, String> {
        let (device, number) = (&self.device, self.number);
        self.port
            .as_mut()
            .ok_or_else(|| format!("umad port {device}/{number} was closed and could not be opened again: run again"))
    }

    /// Closes the port and opens it again, so that the kernel drops all outstanding requests at once. First stores
    /// the MADs that wait at the port in `taken_out`, and at the end the outstanding requests with ECANCELED.
    fn open_anew(&mut self) -> Result<(), String> {
        while let Some(incoming) = self.take(Duration::ZERO)? {
            self.taken_out.push_back(incoming);
        }
        self.port = None;
        let port = Port::open(&self.library, &self.device, self.number, OPEN_WITHIN).map_err(|error| {
            format!(
                "the tester closed the port to free the kernel's unanswered requests, and could not reopen it: {error}"
            )
        })?;
        self.port = Some(port);
        let errno = Errno::ECANCELED as i32;
        let cancelled = self.places.clear().into_iter().map(|mad| Incoming { mad, errno });
        self.taken_out.extend(cancelled);
        Ok(())
    }

    /// Reads one MAD from the port.
    fn take(&mut self, timeout: Duration) -> Result<Option<Incoming>, String> {
        let Some(received) = self.port()?.recv(timeout).map_err(|lost| gone(&lost))? else {
            return Ok(None);
        };
        let mad = Mad::from(received.mad);
        self.places.came(&mad, received.status);
        if received.status == 0 {
            self.learn(&mad);
        }
        Ok(Some(Incoming {
            mad,
            errno: received.status,
        }))
    }

    /// Stores the LID from the DUT's PortInfo, for LID-routed MADs.
    fn learn(&mut self, mad: &Mad) {
        // Without a hop, the response comes from the tester's own port.
        let shows_it = mad.is_directed()
            && DrSmp::from_bytes(mad.bytes()).hop_count() > 0
            && (mad.method(), mad.attribute_id()) == (Method::GET_RESP, AttributeId::PORT_INFO)
            && mad.modifier() == 0
            && mad.status() == Status::OK;
        if shows_it {
            let lid = mad.attribute::<PortInfo>().lid();
            self.lid_seen = (1..=0xBFFF).contains(&lid.0).then_some(lid);
        }
    }
}

/// Returns the destination of a MAD, by its class; `seen` is the LID in the DUT's PortInfo.
fn destination(route: &Route, seen: Option<&Lid>, mad: &Mad) -> Result<Destination, String> {
    let lid = match route {
        Route::Lid(lid) => Some(lid.0),
        Route::Directed(_) => seen.map(|lid| lid.0),
    };
    match (mad.class(), lid) {
        (MgmtClass::SUBN_DIRECTED, _) => Ok(Destination::DirectedRoute),
        (_, None) => Err(format!(
            "{mad} cannot be sent: it needs a LID, the rig has a directed route, and the device showed no LID in its \
             PortInfo; give the rig a `lid`, or let a subnet manager assign one"
        )),
        (MgmtClass::SUBN_LID, Some(dlid)) => Ok(Destination::Lid { dlid, sl: 0 }),
        (_, Some(dlid)) => Ok(Destination::Gsi {
            dlid,
            sl: 0,
            qpn: GSI.0,
            qkey: GSI.1,
            pkey_index: 0,
        }),
    }
}

fn gone(gone: &PortGone) -> String {
    gone.to_string()
}

impl Link for UmadLink {
    fn send(&mut self, mad: &Mad) -> Result<(), NotSent> {
        let to = destination(&self.route, self.lid_seen.as_ref(), mad).map_err(NotSent::Refused)?;
        self.put(mad, &to)
    }

    fn send_to(&mut self, lid: Lid, mad: &Mad) -> Result<(), NotSent> {
        self.put(mad, &Destination::Lid { dlid: lid.0, sl: 0 })
    }

    fn recv(&mut self, timeout: Duration) -> Result<Option<Incoming>, String> {
        match self.taken_out.pop_front() {
            Some(incoming) => Ok(Some(incoming)),
            None => self.take(timeout),
        }
    }

    fn answers_within(&mut self, how_long: Duration) {
        self.answer_within = how_long;
    }

    fn has_room(&mut self) -> Result<bool, String> {
        Ok(match self.places.room(Instant::now()) {
            Room::Free => true,
            Room::Taken => false,
            Room::Stale => {
                self.open_anew()?;
                true
            }
        })
    }

    fn is_undisturbed(&mut self) -> Result<(), String> {
        // A failed listing is no disturbance: if the port is gone, the next call on it reports that.
        let devices = self.library.devices(OPEN_WITHIN).unwrap_or_default();
        let ours = devices.iter().find(|known| known.name == self.device);
        let port = ours.and_then(|known| known.ports.iter().find(|port| port.number == self.number));
        port.map_or(Ok(()), |port| came_between(&self.device, port, self.manager))
    }

    fn give_up(&mut self) -> Result<(), String> {
        if self.places.give_up(Instant::now()) {
            self.open_anew()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RigFile;

    fn config() -> RigConfig {
        let text =
            "config_version = 1\n[[rig]]\nname = \"r\"\nkind = \"umad\"\ndevice = \"d\"\nport = 1\nroute = \"0,1\"\n";
        RigFile::parse(text.as_bytes(), "/f".as_ref()).unwrap().rigs.remove(0)
    }

    #[test]
    fn refuses_only_a_foreign_subnet_manager() {
        let text =
            "config_version = 1\n[[rig]]\nname = \"r\"\nkind = \"umad\"\ndevice = \"d\"\nport = 1\nroute = \"0,1\"\n";
        let config = RigFile::parse(text.as_bytes(), "/f".as_ref()).unwrap().rigs.remove(0);
        let seen = manager::tests::port(7, 3);
        for manager in [Manager::None, Manager::Left(3), Manager::Ours] {
            assert!(
                refuse_foreign_manager(&config, "d", &seen, manager).is_ok(),
                "{manager:?}"
            );
        }
        let error = refuse_foreign_manager(&config, "d", &seen, Manager::Elsewhere(3))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("at LID 3") && error.contains("shared_subnet = true"),
            "{error}"
        );
    }

    #[test]
    fn refuses_port_without_qp0() {
        let config = config();
        assert!(no_smi(&config, "Ethernet", "").contains("kind packet or verbs"));
        let said = no_smi(&config, "InfiniBand", "Invalid argument");
        assert!(
            said.contains("d port 1 (Invalid argument)") && said.contains("type SMI parent"),
            "{said}"
        );
    }

    #[test]
    fn refuses_omni_path() {
        let config = config();
        let error = refuse_omni_path(&config, Some("hfi1")).unwrap_err().to_string();
        assert!(error.contains("not InfiniBand"), "{error}");
        assert!(refuse_omni_path(&config, Some("mlx5_core")).is_ok() && refuse_omni_path(&config, None).is_ok());
    }

    #[test]
    fn mad_class_selects_destination() {
        let directed = Mad::directed(Method::GET, AttributeId::PORT_INFO, 0, &[1]);
        let by_lid = Mad::lid_routed(Method::GET, AttributeId::PORT_INFO, 0);
        let counters = Mad::performance(Method::GET, AttributeId::PORT_COUNTERS, 0);
        let (route, lid) = (Route::Directed(vec![1]), Route::Lid(Lid(9)));
        let seen = Lid(5);
        assert_eq!(destination(&route, None, &directed), Ok(Destination::DirectedRoute));
        assert_eq!(destination(&lid, None, &directed), Ok(Destination::DirectedRoute));
        assert_eq!(
            destination(&lid, Some(&seen), &by_lid),
            Ok(Destination::Lid { dlid: 9, sl: 0 })
        );
        assert!(
            destination(&route, None, &counters)
                .unwrap_err()
                .contains("give the rig a `lid`")
        );
        let Ok(Destination::Gsi { dlid: 5, qpn: 1, .. }) = destination(&route, Some(&seen), &counters) else {
            panic!("not to the LID that was seen");
        };
    }
}
