//! A test bench: a device, the number of the port that receives the MADs, and the time.

use std::time::Duration;

use verbatim_device::{Defect, Device, Profile};
use verbatim_wire::values::{LeasePeriod, ProtectBits};
use verbatim_wire::{
    Attribute, AttributeId, LinkDownDefault, LinkSpeedExt, LinkSpeeds, LinkWidths, MKey, Mad, Method, PhysState,
    PortInfo, PortState, Status, VlCap,
};

pub const KEY: MKey = MKey(0x1122_3344_5566_7788);
pub const OTHER: MKey = MKey(0x1122_3344_0000_0001);
pub const NONE: MKey = MKey(0);

/// Time for which the bench waits for a response.
const PATIENCE: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub struct Bench {
    pub device: Device,
    pub now: Duration,
    pub traps: Vec<(Duration, Mad)>,
    pub port: u8,
    transaction: u64,
}

impl Bench {
    pub fn new(profile: Profile, defects: &[Defect]) -> Self {
        Self {
            device: Device::new(profile, defects),
            now: Duration::ZERO,
            traps: Vec::new(),
            port: 1,
            transaction: 0,
        }
    }

    /// Creates a conforming device of the full profile.
    pub fn sound() -> Self {
        Self::new(Profile::full(), &[])
    }

    /// Creates a device of the full profile with one defect.
    pub fn with(defect: Defect) -> Self {
        Self::new(Profile::full(), &[defect])
    }

    /// Sends a MAD unchanged. Returns the response, if one arrives within `PATIENCE`.
    pub fn send(&mut self, mad: &Mad) -> Option<Mad> {
        self.send_for(mad, PATIENCE)
    }

    pub fn send_for(&mut self, mad: &Mad, patience: Duration) -> Option<Mad> {
        let until = self.now + patience;
        self.device.handle(self.now, self.port, mad.bytes());
        loop {
            while let Some(sent) = self.device.poll_transmit() {
                let answer = Mad::from(sent.bytes);
                if answer.method() == Method::TRAP {
                    self.traps.push((self.now, answer));
                } else {
                    assert_eq!(sent.port, self.port);
                    assert_eq!(answer.transaction_id(), mad.transaction_id());
                    return Some(answer);
                }
            }
            match self.device.poll_at() {
                Some(at) if at <= until => {
                    self.now = self.now.max(at);
                    self.device.tick(self.now);
                }
                _ => return None,
            }
        }
    }

    /// Creates a directed-route request with the hop pointer 1, as the device's neighbour sends it.
    pub fn request(&mut self, method: Method, attribute: AttributeId, modifier: u32) -> Mad {
        self.transaction += 1;
        let mut mad = Mad::directed(method, attribute, modifier, &[1]);
        mad.bytes_mut()[6] = 1;
        mad.with_transaction_id(self.transaction)
    }

    pub fn get(&mut self, attribute: AttributeId, modifier: u32, key: MKey) -> Option<Mad> {
        let request = self.request(Method::GET, attribute, modifier);
        self.send(&request.with_m_key(key))
    }

    pub fn set<A: Attribute>(&mut self, modifier: u32, key: MKey, value: &A) -> Option<Mad> {
        let request = self.request(Method::SET, A::ID, modifier);
        self.send(&request.with_m_key(key).with_data(value.bytes()))
    }

    pub fn port_info(&mut self, key: MKey) -> PortInfo {
        loop {
            let answer = self.get(AttributeId::PORT_INFO, 0, key).expect("PortInfo is answered");
            if answer.status() != Status::BUSY {
                return answer.attribute();
            }
        }
    }

    /// Advances the time, and collects traps.
    pub fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.device.poll_at().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.device.tick(self.now);
            while let Some(sent) = self.device.poll_transmit() {
                self.traps.push((self.now, Mad::from(sent.bytes)));
            }
        }
        self.now = until;
        self.device.tick(self.now);
    }

    /// Sets key, level and lease period (in seconds) on a device without a key.
    pub fn lock(&mut self, key: MKey, level: u8, lease: u16) {
        let info = quiet(&self.port_info(NONE))
            .with_m_key(key)
            .with_protect_bits(ProtectBits(level))
            .with_m_key_lease_period(LeasePeriod(lease));
        self.set(0, NONE, &info);
    }
}

/// Returns a PortInfo whose Set changes nothing.
pub fn quiet(info: &PortInfo) -> PortInfo {
    info.with_port_state(PortState::NO_CHANGE)
        .with_port_physical_state(PhysState::NO_CHANGE)
        .with_link_down_default_state(LinkDownDefault::NO_CHANGE)
        .with_link_width_enabled(LinkWidths(0))
        .with_link_speed_enabled(LinkSpeeds(0))
        .with_link_speed_ext_enabled(LinkSpeedExt(0))
        .with_operational_vls(VlCap(0))
        .with_client_reregister(false)
        .with_m_key_violations(0xFFFF)
        .with_p_key_violations(0xFFFF)
        .with_q_key_violations(0xFFFF)
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
