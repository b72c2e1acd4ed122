//! The loaded library libibumad, and the devices that it lists.

use std::{
    ffi::{CStr, CString, OsStr, c_char},
    mem::MaybeUninit,
    sync::Arc,
    time::Duration,
};

use super::{
    error::{ListError, Unavailable},
    ffi::{Ca, MAX_DEVICES, NAME_LENGTH, Symbols},
    open::{Helper, bounded},
};

/// The file that [`Library::open`] loads.
const LIBRARY: &str = "libibumad.so.3";

/// The loaded library libibumad, with every function that this crate needs.
/// Cheap to clone. The library stays loaded as long as a clone of this value, or a port opened with it, exists.
#[derive(Clone, Debug)]
pub struct Library {
    pub(super) symbols: Arc<Symbols>,
}

impl Library {
    /// Loads `libibumad.so.3` from the system's directories of shared libraries.
    ///
    /// # Errors
    ///
    /// [`Unavailable`] when the library is not installed or lacks a function.
    pub fn open() -> Result<Library, Unavailable> {
        Self::load(OsStr::new(LIBRARY))
    }

    pub(super) fn load(path: &OsStr) -> Result<Library, Unavailable> {
        Ok(Library {
            symbols: Arc::new(Symbols::load(path)?),
        })
    }

    /// Returns the devices of this machine with their ports. Gives up after `bound`.
    ///
    /// # Errors
    ///
    /// [`ListError`] when the library does not return in time or cannot be called safely.
    pub fn devices(&self, bound: Duration) -> Result<Vec<Device>, ListError> {
        let symbols = Arc::clone(&self.symbols);
        bounded(bound, move || list(&symbols)).map_err(|failure| match failure {
            Helper::TimedOut => ListError::TimedOut { bound },
            Helper::Busy => ListError::StillOpening { bound },
            Helper::Thread(source) => ListError::Thread(source),
        })
    }
}

/// A device and its properties, as reported by libibumad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Name, for example `mlx5_0`.
    pub name: String,
    /// Device type, as the driver names it, for example `MT4123`.
    pub kind: String,
    /// Firmware version, as the driver reports it.
    pub firmware: String,
    /// Hardware revision, as the driver reports it.
    pub hardware: String,
    /// Node GUID.
    pub node_guid: u64,
    /// System image GUID.
    pub system_guid: u64,
    /// The ports that could be read.
    pub ports: Vec<DevicePort>,
}

/// A port of a [`Device`], with its state when the devices were listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePort {
    /// Port number; 0 is the management port of a switch.
    pub number: u8,
    /// PortState: 1 Down, 2 Initialize, 3 Armed, 4 Active.
    pub state: u8,
    /// PortPhysicalState: 2 Polling, 3 Disabled, 5 LinkUp.
    pub physical_state: u8,
    /// Base LID; 0 if none is assigned.
    pub lid: u16,
    /// LID mask control.
    pub lmc: u8,
    /// LID of the master subnet manager; 0 if there is none.
    pub sm_lid: u16,
    /// Rate in Gb/s, as the driver rounds it.
    pub rate_gbps: u32,
    /// Capability mask.
    pub capability_mask: u32,
    /// Port GUID.
    pub guid: u64,
    /// `InfiniBand` or `Ethernet`; `IB` or empty on old kernels.
    pub link_layer: String,
}

/// Returns every device that can be read. Skips a device that disappears during the call.
pub(super) fn list(symbols: &Symbols) -> Vec<Device> {
    claimed_names(symbols)
        .iter()
        .filter_map(|name| describe(symbols, name))
        .collect()
}

pub(super) fn names(symbols: &Symbols) -> Vec<String> {
    list(symbols).into_iter().map(|device| device.name).collect()
}

/// Returns the names that the library lists. On a machine without devices the library invents a name (`mthca0`), so the
/// caller must check each name.
fn claimed_names(symbols: &Symbols) -> Vec<String> {
    let mut names = [[0 as c_char; NAME_LENGTH]; MAX_DEVICES];
    let room = i32::try_from(MAX_DEVICES).expect("32 fits");
    // SAFETY: `names` has space for as many names of NAME_LENGTH bytes as `room` says.
    let count = unsafe { (symbols.umad_get_cas_names)(names.as_mut_ptr(), room) };
    let count = usize::try_from(count).unwrap_or(0).min(MAX_DEVICES);
    names[..count]
        .iter()
        .map(|name| text(name))
        .filter(|name| !name.is_empty())
        .collect()
}

/// Returns a device, or `None` if the library does not know it.
pub(super) fn describe(symbols: &Symbols, name: &str) -> Option<Device> {
    let c_name = CString::new(name).ok()?;
    // The buffer has twice the needed size, because a later release of the library may write a larger structure.
    let mut room = MaybeUninit::<[Ca; 2]>::zeroed();
    let ca = room.as_mut_ptr().cast::<Ca>();
    // SAFETY: the name is NUL-terminated; `ca` points to writable, zeroed memory larger than a umad_ca_t.
    if unsafe { (symbols.umad_get_ca)(c_name.as_ptr(), ca) } < 0 {
        return None;
    }
    // SAFETY: all-zero bytes are a valid `Ca` (null pointers, zero numbers), and the library has filled it.
    let seen = unsafe { &*ca };
    let device = Device {
        name: text(&seen.ca_name),
        kind: text(&seen.ca_type),
        firmware: text(&seen.fw_ver),
        hardware: text(&seen.hw_ver),
        node_guid: u64::from_be(seen.node_guid),
        system_guid: u64::from_be(seen.system_guid),
        ports: seen.ports.iter().filter_map(|port| port_of(*port)).collect(),
    };
    // SAFETY: umad_get_ca filled `ca`; `seen` and everything behind it is copied and not used afterwards.
    unsafe { (symbols.umad_release_ca)(ca) };
    Some(device)
}

fn port_of(port: *const super::ffi::CaPort) -> Option<DevicePort> {
    // SAFETY: an entry of umad_ca_t.ports is null or points to a umad_port_t that lives until umad_release_ca.
    let port = unsafe { port.as_ref() }?;
    // The numbers come from the driver's files. A port with an invalid port number is skipped. Any other number that is
    // too large becomes the largest value of its type.
    Some(DevicePort {
        number: u8::try_from(port.portnum).ok()?,
        state: u8::try_from(port.state).unwrap_or(u8::MAX),
        physical_state: u8::try_from(port.phys_state).unwrap_or(u8::MAX),
        lid: u16::try_from(port.base_lid).unwrap_or(u16::MAX),
        lmc: u8::try_from(port.lmc).unwrap_or(u8::MAX),
        sm_lid: u16::try_from(port.sm_lid).unwrap_or(u16::MAX),
        rate_gbps: port.rate,
        capability_mask: u32::from_be(port.capmask),
        guid: u64::from_be(port.port_guid),
        link_layer: text(&port.link_layer),
    })
}

/// Returns the text of a C array of fixed size, up to its NUL or its end.
fn text(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field.iter().map(|c| *c as u8).collect();
    match CStr::from_bytes_until_nul(&bytes) {
        Ok(text) => text.to_string_lossy().trim().to_owned(),
        Err(_) => String::from_utf8_lossy(&bytes).trim().to_owned(),
    }
}
