//! Shared parts of the tests of the link layer. The procedure sends a packet, waits for its response, and reads the
//! port's counters before and after. The judge gets the effect on a conforming port from
//! [`verbatim_oracle::packet_check`].

mod counted;
mod judge;
mod wire;

pub(crate) use counted::differences;
pub(crate) use judge::{
    Holds, NOTHING_SENT, answer_to, came_to, is_alive_behind, judge, last, strays, took, wait_behind,
};
pub(crate) use wire::{MULTICAST, Wire, mad_in};

use core::net::Ipv6Addr;

use verbatim_record::{Frames, Label, Wait};
use verbatim_tester::peer::Native;
use verbatim_tester::{Step, Stop, Tester};
use verbatim_wire::{
    Attribute, AttributeId, Lid, Mad, Method, NodeInfo, PKey, PKeyTable, PortCounters, PortInfo, PortRcvErrorDetails,
    PortState, Status,
};

/// PortInfo, before and after each packet.
pub(crate) const PORT: Label<PortInfo> = Label::new("the port");
/// The port's counters, before and after each packet.
pub(crate) const COUNTERS: Label<PortCounters> = Label::new("its counters");
/// The port's detailed counters, if it has them.
pub(crate) const DETAILS: Label<PortRcvErrorDetails> = Label::new("its counters in detail");
/// The blocks of the port's P_Key table.
pub(crate) const P_KEYS: Label<PKeyTable> = Label::new("its P_Keys");
/// NodeInfo, which limits the number of P_Keys.
pub(crate) const NODE: Label<NodeInfo> = Label::new("the node");
/// The wait that proves a missing response.
pub(crate) const SILENCE: Label<Wait> = Label::new("no answer");

/// The number of P_Keys in a block of P_KeyTable.
const BLOCK: usize = 32;

/// A statement, and the label of the packets that probe it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// The label of the packets.
    pub(crate) label: Label<Frames>,
    pub(crate) statement: &'static str,
}

impl Rule {
    /// Makes a rule whose label is the statement's id.
    pub(crate) const fn new(statement: &'static str) -> Self {
        Self {
            label: Label::new(statement),
            statement,
        }
    }
}

/// The native link to the port under test, with the port's last read attributes.
pub(crate) struct Link<'l, 'r> {
    pub(crate) t: &'l mut Tester<'r>,
    pub(crate) port: PortInfo,
    pub(crate) p_keys: Vec<PKey>,
    /// Whether the port has PortRcvErrorDetails; `None` before the first request.
    has_details: Option<bool>,
    blocks: u32,
    /// The port's first GID.
    pub(crate) gid: Ipv6Addr,
    /// The upper half of the transaction IDs.
    run: u64,
    serial: u64,
}

impl<'l, 'r> Link<'l, 'r> {
    /// Reads the attributes that the judge needs.
    pub(crate) fn open(t: &'l mut Tester<'r>) -> Step<Self> {
        let key = t.rig_key();
        let node = t.get(NODE, key)?;
        let run = t.random("transaction ids of packets").bits() & 0xFFFF_FFFF;
        let mut link = Self {
            t,
            port: PortInfo::default(),
            p_keys: Vec::new(),
            has_details: None,
            blocks: u32::from(node.partition_cap()).div_ceil(BLOCK as u32).max(1),
            gid: Ipv6Addr::UNSPECIFIED,
            run: run << 32,
            serial: 0,
        };
        link.read_p_keys()?;
        link.read()?;
        let gid = u128::from(link.port.gid_prefix().0) << 64 | u128::from(node.port_guid().0);
        link.gid = Ipv6Addr::from(gid);
        Ok(link)
    }

    /// Reads PortInfo and the counters again.
    pub(crate) fn read(&mut self) -> Step {
        let key = self.t.rig_key();
        self.port = self.t.get(PORT, key)?;
        let select = self.port.local_port_num();
        let lost = |label: &str| Stop::NoAnswer(label.to_owned());
        // Each packet needs a reading before and after it. Without a reading in between, the judge could not tell
        // which of two packets the port counted.
        let counters = PortCounters::default().with_port_select(select);
        self.t
            .ask_with(COUNTERS, &counters)?
            .ok_or_else(|| lost(COUNTERS.name))?;
        if self.has_details != Some(false) {
            let details = PortRcvErrorDetails::default().with_port_select(select);
            let answer = self.t.ask_with(DETAILS, &details)?;
            if self.has_details == Some(true) && answer.is_none() {
                return Err(lost(DETAILS.name));
            }
            self.has_details = Some(answer.is_some_and(|answer| answer.status == Status::OK));
        }
        Ok(())
    }

    /// Reads the P_Key table again.
    pub(crate) fn read_p_keys(&mut self) -> Step {
        let key = self.t.rig_key();
        self.p_keys.clear();
        for block in 0..self.blocks {
            let table = self.t.get_at(P_KEYS, key, block)?;
            self.p_keys.extend((0..BLOCK).map(|entry| table.p_key(entry)));
        }
        Ok(())
    }

    /// Returns whether the port accepts packets on data VLs: it has a LID, and its state is Armed or Active.
    pub(crate) fn takes_data(&self) -> bool {
        self.port.lid().is_unicast() && matches!(self.port.port_state(), PortState::ARMED | PortState::ACTIVE)
    }

    /// Returns the DLID of SMPs to the port: its LID, or the permissive LID if it has none.
    pub(crate) fn smp_lid(&self) -> Lid {
        if self.port.lid().is_unicast() {
            self.port.lid()
        } else {
            Lid::PERMISSIVE
        }
    }

    /// Returns a P_Key that the port accepts.
    pub(crate) fn p_key(&self) -> PKey {
        let valid = self.p_keys.iter().find(|key| key.0 & 0x7FFF != 0);
        PKey(valid.map_or(0xFFFF, |key| key.0 | 0x8000))
    }

    /// Returns a Get(NodeInfo) with a new transaction ID.
    pub(crate) fn get_node(&mut self) -> Mad {
        let mad = Mad::lid_routed(Method::GET, NodeInfo::ID, 0).with_m_key(self.t.rig_key());
        mad.with_transaction_id(self.next())
    }

    /// Returns a Get(ClassPortInfo) of the performance class with a new transaction ID.
    pub(crate) fn get_class(&mut self) -> Mad {
        Mad::performance(Method::GET, AttributeId::CLASS_PORT_INFO, 0).with_transaction_id(self.next())
    }

    /// Returns a valid SMP to the port.
    pub(crate) fn smp(&mut self) -> Wire {
        let mad = self.get_node();
        Wire::smp(self.smp_lid(), &mad)
    }

    /// Returns a valid general management packet to the port's LID.
    pub(crate) fn gmp(&mut self) -> Wire {
        let mad = self.get_class();
        Wire::gmp(self.port.lid(), self.p_key(), &mad)
    }

    /// Returns a valid general management packet with a GRH.
    pub(crate) fn global(&mut self) -> Wire {
        let mad = self.get_class();
        Wire::global((self.port.lid(), self.gid), self.p_key(), &mad)
    }

    fn next(&mut self) -> u64 {
        self.serial += 1;
        // The top bit of the lower half distinguishes these IDs from the tester's own.
        self.run | 0x8000_0000 | self.serial
    }

    /// Sends a packet, waits for its response or for proven silence, and reads the counters.
    pub(crate) fn probe(&mut self, rule: &Rule, wire: &Wire) -> Step {
        self.send(rule, wire)?;
        self.read()
    }

    /// Probes the port with one packet per value.
    pub(crate) fn probe_each<V>(
        &mut self,
        rule: &Rule,
        values: impl IntoIterator<Item = V>,
        packet: impl Fn(&mut Self, V) -> Wire,
    ) -> Step {
        for value in values {
            let wire = packet(self, value);
            self.probe(rule, &wire)?;
        }
        Ok(())
    }

    /// Sends a packet and waits as [`Link::probe`] does, without reading the counters.
    pub(crate) fn send(&mut self, rule: &Rule, wire: &Wire) -> Step {
        let sent = self.t.send_packet(rule.label, &wire.bytes, wire.delimiter)?;
        let until = sent.latest.after(self.t.silence());
        let request = mad_in(&wire.bytes);
        let answers = |native: &Native| request.is_some_and(|request| is_answer(&request, &native.bytes));
        self.t.await_native(SILENCE, until, answers)?;
        Ok(())
    }

    /// Sends a packet without waiting.
    pub(crate) fn throw(&mut self, rule: &Rule, wire: &Wire) -> Step {
        self.t.send_packet(rule.label, &wire.bytes, wire.delimiter)?;
        Ok(())
    }
}

/// Returns whether a received packet is the response to a request.
fn is_answer(request: &Mad, bytes: &[u8]) -> bool {
    mad_in(bytes).is_some_and(|mad| {
        mad.method().is_response() && mad.transaction_id() == request.transaction_id() && mad.class() == request.class()
    })
}
