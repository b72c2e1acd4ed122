//! What the tests of the link layer share: a packet is sent, its answer is waited for, and what the port counts is read
//! before and after; the judge asks [`crate::link`] what a conforming port does.

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

/// The port, before and after each packet.
pub(crate) const PORT: Label<PortInfo> = Label::new("the port");
/// Its counters, before and after each packet.
pub(crate) const COUNTERS: Label<PortCounters> = Label::new("its counters");
/// The finer counters, where it has them.
pub(crate) const DETAILS: Label<PortRcvErrorDetails> = Label::new("its counters in detail");
/// Its P_Keys, block by block.
pub(crate) const P_KEYS: Label<PKeyTable> = Label::new("its P_Keys");
/// How many P_Keys it can have.
pub(crate) const NODE: Label<NodeInfo> = Label::new("the node");
/// The wait that proves that nothing answers.
pub(crate) const SILENCE: Label<Wait> = Label::new("no answer");

/// Entries of a P_KeyTable's block.
const BLOCK: usize = 32;

/// A rule and the packets that probe it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// What its packets are sent under.
    pub(crate) label: Label<Frames>,
    /// The statement.
    pub(crate) statement: &'static str,
}

impl Rule {
    /// A rule under its statement's id.
    pub(crate) const fn new(statement: &'static str) -> Self {
        Self {
            label: Label::new(statement),
            statement,
        }
    }
}

/// The link to the port under test.
pub(crate) struct Link<'l, 'r> {
    pub(crate) t: &'l mut Tester<'r>,
    /// The port as last read.
    pub(crate) port: PortInfo,
    /// Its P_Keys as last read.
    pub(crate) p_keys: Vec<PKey>,
    /// Not known before it was asked.
    has_details: Option<bool>,
    blocks: u32,
    /// The port's first GID.
    pub(crate) gid: Ipv6Addr,
    /// High half of the transaction ids.
    run: u64,
    serial: u64,
}

impl<'l, 'r> Link<'l, 'r> {
    /// Reads all that the judge must know of the port.
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

    /// Reads the port and its counters anew.
    pub(crate) fn read(&mut self) -> Step {
        let key = self.t.rig_key();
        self.port = self.t.get(PORT, key)?;
        let select = self.port.local_port_num();
        let lost = |label: &str| Stop::NoAnswer(label.to_owned());
        // A packet that is counted must lie between two readings: without one the next packet would be blamed for it.
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

    /// Reads the P_KeyTable anew.
    pub(crate) fn read_p_keys(&mut self) -> Step {
        let key = self.t.rig_key();
        self.p_keys.clear();
        for block in 0..self.blocks {
            let table = self.t.get_at(P_KEYS, key, block)?;
            self.p_keys.extend((0..BLOCK).map(|entry| table.p_key(entry)));
        }
        Ok(())
    }

    /// Whether packets on data VLs reach the port: it has a LID, and its state lets them in.
    pub(crate) fn takes_data(&self) -> bool {
        self.port.lid().is_unicast() && matches!(self.port.port_state(), PortState::ARMED | PortState::ACTIVE)
    }

    /// Where an SMP goes: to the port's LID, or to the port at the end of the link while it has none.
    pub(crate) fn smp_lid(&self) -> Lid {
        if self.port.lid().is_unicast() {
            self.port.lid()
        } else {
            Lid::PERMISSIVE
        }
    }

    /// A P_Key with which the port takes packets.
    pub(crate) fn p_key(&self) -> PKey {
        let valid = self.p_keys.iter().find(|key| key.0 & 0x7FFF != 0);
        PKey(valid.map_or(0xFFFF, |key| key.0 | 0x8000))
    }

    /// A Get(NodeInfo) as a MAD of its own number.
    pub(crate) fn get_node(&mut self) -> Mad {
        let mad = Mad::lid_routed(Method::GET, NodeInfo::ID, 0).with_m_key(self.t.rig_key());
        mad.with_transaction_id(self.next())
    }

    /// A Get(ClassPortInfo) of the performance class as a MAD of its own number.
    pub(crate) fn get_class(&mut self) -> Mad {
        Mad::performance(Method::GET, AttributeId::CLASS_PORT_INFO, 0).with_transaction_id(self.next())
    }

    /// A sound SMP to the port.
    pub(crate) fn smp(&mut self) -> Wire {
        let mad = self.get_node();
        Wire::smp(self.smp_lid(), &mad)
    }

    /// A sound general management packet to the port's LID.
    pub(crate) fn gmp(&mut self) -> Wire {
        let mad = self.get_class();
        Wire::gmp(self.port.lid(), self.p_key(), &mad)
    }

    /// The same with a GRH.
    pub(crate) fn global(&mut self) -> Wire {
        let mad = self.get_class();
        Wire::global((self.port.lid(), self.gid), self.p_key(), &mad)
    }

    fn next(&mut self) -> u64 {
        self.serial += 1;
        // The top bit of the low half keeps it apart from the tester's own.
        self.run | 0x8000_0000 | self.serial
    }

    /// Sends a packet, waits for its answer or for proven silence, and reads what the port counted.
    pub(crate) fn probe(&mut self, rule: &Rule, wire: &Wire) -> Step {
        self.send(rule, wire)?;
        self.read()
    }

    /// Probes with a packet for each of these values.
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

    /// The same as [`Link::probe`], the counters left unread.
    pub(crate) fn send(&mut self, rule: &Rule, wire: &Wire) -> Step {
        let sent = self.t.send_packet(rule.label, &wire.bytes, wire.delimiter)?;
        let until = sent.latest.after(self.t.silence());
        let request = mad_in(&wire.bytes);
        let answers = |native: &Native| request.is_some_and(|request| is_answer(&request, &native.bytes));
        self.t.await_native(SILENCE, until, answers)?;
        Ok(())
    }

    /// Sends a packet and waits for nothing.
    pub(crate) fn throw(&mut self, rule: &Rule, wire: &Wire) -> Step {
        self.t.send_packet(rule.label, &wire.bytes, wire.delimiter)?;
        Ok(())
    }
}

/// Whether a packet that came in is the response to a request.
fn is_answer(request: &Mad, bytes: &[u8]) -> bool {
    mad_in(bytes).is_some_and(|mad| {
        mad.method().is_response() && mad.transaction_id() == request.transaction_id() && mad.class() == request.class()
    })
}
