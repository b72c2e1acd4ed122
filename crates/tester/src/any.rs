//! Requests for any attribute by its number, and requests that must stay unanswered.

use core::time::Duration;

use verbatim_record::Label;
use verbatim_wire::trap::m_key_of;
use verbatim_wire::{AnyAttribute, AttributeId, DrSmp, Layout, Lid, MKey, Mad, Method, Notice};

use crate::guard::{Guarded, Quiet, Settable};
use crate::rig::Arrival;
use crate::stop::Step;
use crate::tester::{TRIES, Tester};

impl Tester<'_> {
    /// Gets an attribute by its AttributeID, in up to three tries. Returns any response, even with an error status.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn ask_any(&mut self, label: Label<AnyAttribute>, what: (AttributeId, u32), key: MKey) -> Step<Option<Mad>> {
        self.ask_up_to(TRIES, label, what, key)
    }

    /// Gets an attribute by its AttributeID without retries after silence. Use this if the device counts the requests,
    /// for example as M_Key violations.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn ask_any_once(
        &mut self,
        label: Label<AnyAttribute>,
        what: (AttributeId, u32),
        key: MKey,
    ) -> Step<Option<Mad>> {
        self.ask_up_to(1, label, what, key)
    }

    /// Gets an attribute by its AttributeID with a LID-routed SMP to `lid`, without retries after silence.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn ask_any_by_lid(
        &mut self,
        lid: Lid,
        label: Label<AnyAttribute>,
        what: (AttributeId, u32),
        key: MKey,
    ) -> Step<Option<Mad>> {
        self.to = Some(lid);
        let answer = self.ask_any_once(label, what, key);
        self.to = None;
        answer
    }

    fn ask_up_to(
        &mut self,
        tries: u32,
        label: Label<AnyAttribute>,
        (attribute, modifier): (AttributeId, u32),
        key: MKey,
    ) -> Step<Option<Mad>> {
        let mad = self.mad_of(Method::GET, attribute, modifier).with_m_key(key);
        for attempt in 0..tries {
            if let Some((answer, _)) = self.exchange_any(label.name, attempt, &mad)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// Sends Gets with M_Keys that the device must reject, with several Gets outstanding at once. Waits until the
    /// silence period of each Get has passed. Repeats a Get only if the device answers busy.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn provoke(&mut self, label: Label<AnyAttribute>, what: &[(AttributeId, u32, MKey)]) -> Step {
        let mads: Vec<Mad> = what
            .iter()
            .map(|(attribute, modifier, key)| self.mad_of(Method::GET, *attribute, *modifier).with_m_key(*key))
            .collect();
        self.many(label, mads.into_iter(), usize::MAX).map(|_| ())
    }

    /// Sends Gets with M_Keys that the device must reject, and returns before their silence periods have passed.
    /// [`Tester::wait_out`] waits for the silences of all requests together. A right-key Get with the label
    /// [`HANDLED`](crate::HANDLED) follows every few requests.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn provoke_soon<A>(&mut self, label: Label<A>, what: &[(AttributeId, u32, MKey)]) -> Step {
        let mad = |(attribute, modifier, key): &(AttributeId, u32, MKey)| {
            self.mad_of(Method::GET, *attribute, *modifier).with_m_key(*key)
        };
        let mads = what.iter().map(mad).collect();
        self.soon(label.name, mads)
    }

    /// Sends Sets with M_Keys that the device must reject, like [`Tester::provoke_soon`].
    ///
    /// # Errors
    /// When the run must stop, or the journal cannot be written.
    pub fn provoke_by_set_soon<A: Settable>(
        &mut self,
        label: Label<A>,
        guard: &Guarded<A>,
        modifier: u32,
        value: Quiet<A>,
        keys: &[MKey],
    ) -> Step {
        let mads = keys.iter().map(|key| self.prepared(guard, (*key, modifier), value));
        let mads = mads.collect::<Step<Vec<Mad>>>()?;
        self.soon(label.name, mads)
    }

    /// Sends one Get with a wrong M_Key and returns the trap that names the key. Returns `None` if the silence period
    /// passes without that trap. The Get may still be outstanding on return: [`Tester::wait_out`] waits for its
    /// deadline and records the silence.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn provoke_trap(
        &mut self,
        label: Label<AnyAttribute>,
        (attribute, modifier): (AttributeId, u32),
        key: MKey,
    ) -> Step<Option<Mad>> {
        let mad = self.mad_of(Method::GET, attribute, modifier).with_m_key(key);
        self.provoke_trap_by(label, &mad)
    }

    /// Provokes a trap like [`Tester::provoke_trap`], with a directed-route SMP of `hops` hops whose header says
    /// that only the last hop remains.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn provoke_trap_from_afar(
        &mut self,
        label: Label<AnyAttribute>,
        hops: u8,
        what: (AttributeId, u32),
        key: MKey,
    ) -> Step<Option<Mad>> {
        let mad = from_afar(hops, what).with_m_key(key);
        self.provoke_trap_by(label, &mad)
    }

    /// Gets an attribute with a directed-route SMP of `hops` hops whose header says that only the last hop
    /// remains. Tries up to three times. Use this only on a direct cable: real switches would write the route
    /// themselves.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn ask_from_afar(
        &mut self,
        label: Label<AnyAttribute>,
        hops: u8,
        what: (AttributeId, u32),
        key: MKey,
    ) -> Step<Option<Mad>> {
        let mad = from_afar(hops, what).with_m_key(key);
        self.ask_thrice(label, &mad)
    }

    /// Gets an attribute of the performance class by its AttributeID, in up to three tries. Returns any response, even
    /// with an error status.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn ask_performance(&mut self, label: Label<AnyAttribute>, attribute: AttributeId) -> Step<Option<Mad>> {
        self.ask_thrice(label, &Mad::performance(Method::GET, attribute, 0))
    }

    fn ask_thrice(&mut self, label: Label<AnyAttribute>, mad: &Mad) -> Step<Option<Mad>> {
        for attempt in 0..TRIES {
            if let Some((answer, _)) = self.exchange_any(label.name, attempt, mad)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    fn provoke_trap_by(&mut self, label: Label<AnyAttribute>, mad: &Mad) -> Step<Option<Mad>> {
        let key = mad.m_key();
        // Only a trap that names this M_Key counts: other ports send traps too, and this port repeats traps of
        // earlier tests.
        let names_it = |trap: &Mad| m_key_of(trap) == key;
        self.last_trap = None;
        self.launch(label.name, 0, mad)?;
        let until = self.now().after(self.silence());
        while !self.last_trap.as_ref().is_some_and(names_it) {
            match self.rig.wait(until) {
                Arrival::Deadline => break,
                other => self.take(other)?,
            }
        }
        Ok(self.last_trap.filter(names_it))
    }

    /// Whether a trap that names one of these M_Keys arrived during this run.
    #[must_use]
    pub fn has_trap_of(&self, keys: &[MKey]) -> bool {
        self.trap_keys.iter().any(|key| keys.contains(key))
    }

    /// Sends the TrapRepress for a trap and returns at once: a TrapRepress has no response.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn repress_trap(&mut self, label: Label<Notice>, key: MKey, trap: &Mad) -> Step {
        let mad = self.mad_of(Method::TRAP_REPRESS, AttributeId::NOTICE, 0);
        let mad = mad.with_m_key(key).with_data(trap.data());
        let mad = mad.with_transaction_id(trap.transaction_id());
        self.launch_as(label.name, 0, &mad).map(|_| ())
    }

    /// Sends a TrapRepress with an M_Key that the device must reject, like [`Tester::provoke_soon`].
    ///
    /// # Errors
    /// When the run must stop.
    pub fn repress_soon(&mut self, label: Label<Notice>, key: MKey, notice: &Notice) -> Step {
        let mad = self.mad_of(Method::TRAP_REPRESS, AttributeId::NOTICE, 0);
        self.soon(label.name, vec![mad.with_m_key(key).with_data(notice.bytes())])
    }

    /// Sends the same TrapRepress three times, because the network may lose some. Waits until the silence period
    /// of each has passed.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn repress_often(&mut self, label: Label<Notice>, key: MKey, notice: &Notice) -> Step {
        let mad = self.mad_of(Method::TRAP_REPRESS, AttributeId::NOTICE, 0);
        let mad = mad.with_m_key(key).with_data(notice.bytes());
        for _ in 0..TRIES {
            if self.outstanding.len() >= self.window() {
                self.wait_out(Duration::ZERO)?;
            }
            self.launch(label.name, 0, &mad)?;
        }
        self.wait_out(Duration::ZERO)
    }

    /// Waits until the deadlines of all outstanding requests have passed, and at least for the duration `least`.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn wait_out(&mut self, least: Duration) -> Step {
        let deadlines = self.outstanding.iter().map(|out| out.deadline);
        let until = deadlines.fold(self.now().after(least), core::cmp::Ord::max);
        self.wait_until(until)?;
        self.expire();
        Ok(())
    }

    /// Returns a lease period in seconds that is longer than a test with `silences` silence periods.
    #[must_use]
    pub fn longer_than(&self, silences: usize) -> u16 {
        let seconds = (self.silence().as_secs() + 1).saturating_mul(silences as u64 + 12);
        u16::try_from(seconds.max(60)).unwrap_or(u16::MAX)
    }
}

/// Makes a directed-route Get with a path of `hops` hops whose header says that only the last hop remains. Fills
/// in the Return Path of the other hops.
fn from_afar(hops: u8, (attribute, modifier): (AttributeId, u32)) -> Mad {
    let path: Vec<u8> = (1..=hops).collect();
    let mad = Mad::directed(Method::GET, attribute, modifier, &path);
    let smp = DrSmp::from_bytes(mad.bytes()).with_hop_pointer(hops.saturating_sub(1));
    let behind = 1..usize::from(hops);
    let smp = behind.fold(smp, |smp, hop| smp.with_return_path(hop, 100 + path[hop]));
    Mad::try_from(smp.bytes()).unwrap_or(mad)
}
