//! A port of this machine, through libibumad.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use verbatim_hw::umad::{Destination, Device, DevicePort, Library, Port, PortGone, SendError};
use verbatim_tester::{Need, Route};
use verbatim_wire::{AttributeId, Lid, Mad, Method, MgmtClass, PortInfo, Status};

use super::error::RigError;
use super::file::RigConfig;
use super::port::{Incoming, Link, NotSent, PortRig};
use super::{OpenRig, Session, env, fingerprint, info};

/// How long the kernel waits before it gives a MAD back: longer than any of our own deadlines, so that ours rule.
const KERNEL_TIMEOUT: Duration = Duration::from_secs(4 * 3600);
/// How long opening may take.
const OPEN_WITHIN: Duration = Duration::from_secs(5);
/// Queue pair and key of the general services interface.
const GSI: (u32, u32) = (1, 0x8001_0000);

/// Opens the rig.
pub(super) fn open(config: &RigConfig, device: &str, number: u8, cancel: Arc<AtomicBool>) -> Result<OpenRig, RigError> {
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
    if let (Some(port), false) = (our_port, config.shared_subnet) {
        refuse_foreign_manager(config, device, port)?;
    }
    let port =
        Port::open(&library, device, number, OPEN_WITHIN).map_err(|source| RigError::Port { rig: rig(), source })?;
    let fingerprint = fingerprint::of_umad(ours.map(without_ports).as_ref(), our_port, &port);
    let link = UmadLink {
        port,
        route: config.route.clone(),
        lid_seen: None,
    };
    let mut port = PortRig::new(link, cancel);
    let bound = port
        .measure_host_bound()
        .map_err(|why| RigError::Lost { rig: rig(), why })?;
    let mut info = info(config, bound);
    if our_port.is_some_and(|port| port.sm_lid != 0) {
        // Also one of this very host sweeps: it stops lease timers and sends keys of its own.
        info.shared_subnet = true;
        info.offers.retain(|need| *need != Need::OwnSubnet);
    }
    Ok(OpenRig {
        info,
        session: Session::Real(Box::new(port)),
        fingerprint,
    })
}

fn without_ports(device: &Device) -> Device {
    Device {
        ports: Vec::new(),
        ..device.clone()
    }
}

fn refuse_foreign_manager(config: &RigConfig, device: &str, port: &DevicePort) -> Result<(), RigError> {
    if port.sm_lid == 0 || port.sm_lid == port.lid {
        return Ok(());
    }
    Err(RigError::ForeignSubnetManager {
        rig: config.name.clone(),
        device: device.into(),
        port: port.number,
        sm_lid: port.sm_lid,
        lid: port.lid,
    })
}

/// One open port.
struct UmadLink {
    port: Port,
    route: Route,
    /// The DUT's LID, as its PortInfo told on a directed route.
    lid_seen: Option<Lid>,
}

impl UmadLink {
    fn put(&mut self, mad: &Mad, to: &Destination) -> Result<(), NotSent> {
        self.port
            .send(mad.bytes(), to, KERNEL_TIMEOUT)
            .map_err(|error| match error {
                SendError::PortGone(lost) => NotSent::Gone(gone(&lost)),
                other => NotSent::Refused(other.to_string()),
            })
    }

    /// Keeps the LID that the DUT shows, for MADs that go to a LID.
    fn learn(&mut self, mad: &Mad) {
        let shows_it = mad.is_directed()
            && (mad.method(), mad.attribute_id()) == (Method::GET_RESP, AttributeId::PORT_INFO)
            && mad.modifier() == 0
            && mad.status() == Status::OK;
        if shows_it {
            let lid = mad.attribute::<PortInfo>().lid();
            self.lid_seen = (1..=0xBFFF).contains(&lid.0).then_some(lid);
        }
    }
}

/// Where a MAD goes, by its class; `seen` is the DUT's LID, as it told it.
fn destination(route: &Route, seen: Option<&Lid>, mad: &Mad) -> Result<Destination, String> {
    let lid = match route {
        Route::Lid(lid) => Some(lid.0),
        Route::Directed(_) => seen.map(|lid| lid.0),
    };
    match (mad.class(), lid) {
        (MgmtClass::SUBN_DIRECTED, _) => Ok(Destination::DirectedRoute),
        (_, None) => Err(format!(
            "{mad} cannot be sent: it goes to a LID, the rig has a directed route, and the device showed no LID in a \
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
        let Some(received) = self.port.recv(timeout).map_err(|lost| gone(&lost))? else {
            return Ok(None);
        };
        let mad = Mad::from(received.mad);
        if received.status == 0 {
            self.learn(&mad);
        }
        Ok(Some(Incoming {
            mad,
            errno: received.status,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RigFile;

    fn config(shared: bool) -> RigConfig {
        let text = format!(
            "config_version = 1\n[[rig]]\nname = \"r\"\nkind = \"umad\"\ndevice = \"d\"\nport = 1\nroute = \"0,1\"\n\
             shared_subnet = {shared}\n"
        );
        RigFile::parse(text.as_bytes(), "/f".as_ref()).unwrap().rigs.remove(0)
    }

    fn port(lid: u16, sm_lid: u16) -> DevicePort {
        DevicePort {
            number: 1,
            state: 4,
            physical_state: 5,
            lid,
            lmc: 0,
            sm_lid,
            sm_sl: 0,
            rate_gbps: 100,
            capability_mask: 0,
            guid: 1,
            link_layer: "InfiniBand".into(),
        }
    }

    #[test]
    fn a_subnet_manager_elsewhere_is_refused_with_the_remedy_and_our_own_or_none_is_not() {
        let config = config(false);
        assert!(refuse_foreign_manager(&config, "d", &port(0, 0)).is_ok());
        assert!(refuse_foreign_manager(&config, "d", &port(7, 7)).is_ok());
        let error = refuse_foreign_manager(&config, "d", &port(7, 3))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("at LID 3") && error.contains("shared_subnet = true"),
            "{error}"
        );
    }

    #[test]
    fn the_class_of_a_mad_says_where_it_goes() {
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
