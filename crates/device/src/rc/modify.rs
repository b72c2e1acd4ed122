//! State transitions of a queue pair, with the required and optional attributes of each transition (architecture 10.3.1
//! and 11.2.5.2).

use verbatim_wire::verbs::{QpAttributes, QpState, Service};

use super::defect::RcDefect;
use super::qp::{Context, Qp};
use super::receive_queue::Message;
use super::verbs::Refusal;

/// A bit for each attribute.
mod bit {
    pub(super) const PKEY_INDEX: u16 = 1;
    pub(super) const PORT: u16 = 1 << 1;
    pub(super) const ACCESS: u16 = 1 << 2;
    pub(super) const PATH_MTU: u16 = 1 << 3;
    pub(super) const DEST_QPN: u16 = 1 << 4;
    pub(super) const RQ_PSN: u16 = 1 << 5;
    pub(super) const SQ_PSN: u16 = 1 << 6;
    pub(super) const MAX_DEST_RD_ATOMIC: u16 = 1 << 7;
    pub(super) const MAX_RD_ATOMIC: u16 = 1 << 8;
    pub(super) const MIN_RNR_TIMER: u16 = 1 << 9;
    pub(super) const TIMEOUT: u16 = 1 << 10;
    pub(super) const RETRY_CNT: u16 = 1 << 11;
    pub(super) const RNR_RETRY: u16 = 1 << 12;
    pub(super) const QKEY: u16 = 1 << 13;
    pub(super) const ADDRESS: u16 = 1 << 14;

    /// Names of the attributes in the order of their bits.
    pub(super) const NAMES: [&str; 15] = [
        "pkey_index",
        "port",
        "access",
        "path_mtu",
        "dest_qpn",
        "rq_psn",
        "sq_psn",
        "max_dest_rd_atomic",
        "max_rd_atomic",
        "min_rnr_timer",
        "timeout",
        "retry_cnt",
        "rnr_retry",
        "qkey",
        "address",
    ];
}

/// Returns the required and the optional attributes of a state transition, or `None` if the transition does not exist.
fn step(service: Service, from: QpState, to: QpState) -> Option<(u16, u16)> {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    use bit::{
        ACCESS, ADDRESS, DEST_QPN, MAX_DEST_RD_ATOMIC, MAX_RD_ATOMIC, MIN_RNR_TIMER, PATH_MTU, PKEY_INDEX, PORT, QKEY,
        RETRY_CNT, RNR_RETRY, RQ_PSN, SQ_PSN, TIMEOUT,
    };
    let rc = service == Service::Rc;
    let own = if rc { ACCESS } else { QKEY };
    let later = if rc { ACCESS | MIN_RNR_TIMER } else { QKEY };
    Some(match (from, to) {
        (_, Reset | Err) => (0, 0),
        (Reset, Init) => (PKEY_INDEX | PORT | own, 0),
        (Init, Init) => (0, PKEY_INDEX | PORT | own),
        (Init, Rtr) if rc => (
            ADDRESS | PATH_MTU | DEST_QPN | RQ_PSN | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER,
            ACCESS | PKEY_INDEX,
        ),
        (Init, Rtr) => (0, PKEY_INDEX | QKEY),
        (Rtr, Rts) if rc => (SQ_PSN | TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_RD_ATOMIC, later),
        (Rtr, Rts) => (SQ_PSN, later),
        (Rts | Sqd, Rts) => (0, later),
        (Rts, Sqd) => (0, 0),
        (Sqd, Sqd) if rc => (
            0,
            PKEY_INDEX
                | ACCESS
                | ADDRESS
                | MAX_DEST_RD_ATOMIC
                | MAX_RD_ATOMIC
                | MIN_RNR_TIMER
                | TIMEOUT
                | RETRY_CNT
                | RNR_RETRY,
        ),
        (Sqd, Sqd) => (0, PKEY_INDEX | QKEY),
        (Sqe, Rts) if !rc => (0, later),
        _ => return None,
    })
}

/// Returns the bits of the given attributes.
fn bits_of(named: &QpAttributes) -> u16 {
    [
        named.pkey_index.is_some(),
        named.port.is_some(),
        named.access.is_some(),
        named.path_mtu.is_some(),
        named.dest_qpn.is_some(),
        named.rq_psn.is_some(),
        named.sq_psn.is_some(),
        named.max_dest_rd_atomic.is_some(),
        named.max_rd_atomic.is_some(),
        named.min_rnr_timer.is_some(),
        named.timeout.is_some(),
        named.retry_cnt.is_some(),
        named.rnr_retry.is_some(),
        named.qkey.is_some(),
        named.address.is_some(),
    ]
    .iter()
    .enumerate()
    .fold(0, |bits, (at, &named)| bits | u16::from(named) << at)
}

impl Qp {
    /// Changes the state and applies the attributes, or changes nothing and returns an error.
    pub(crate) fn modify(&mut self, cx: &mut Context<'_>, to: QpState, named: &QpAttributes) -> Result<(), Refusal> {
        if to == QpState::Sqd && !cx.profile.sqd {
            return Err(Refusal::absent("expected another state: this adapter has no SQD"));
        }
        let Some((needed, taken)) = step(self.service, self.state, to) else {
            return Err(Refusal::invalid(format!(
                "expected a change of state that a queue pair has; it has none from {} to {to}",
                self.state
            )));
        };
        let bits = bits_of(named);
        let checked = self
            .check_named("expected these attributes too: ", to, needed & !bits)
            .and_then(|()| self.check_named("expected none of these attributes: ", to, bits & !(needed | taken)))
            .and_then(|()| self.check_values(cx, named));
        if checked.is_err() && cx.has(RcDefect::RefusedStepTaken) {
            self.state = to;
        }
        checked?;
        if to == QpState::Reset && cx.has(RcDefect::ResetNotDone) {
            return Ok(());
        }
        if to == QpState::Reset {
            if cx.has(RcDefect::ResetFlushes) {
                self.enter_error(cx);
            }
            let spent = (self.send.retries, self.send.rnr_retries);
            let before = core::mem::take(&mut self.receive);
            self.reset();
            if cx.has(RcDefect::ResetKeepsReceives) {
                self.receive.posted = before.posted;
            }
            if cx.has(RcDefect::ResetKeepsHalfWrite) && matches!(before.message, Message::Write { .. }) {
                self.receive.message = before.message;
            }
            if cx.has(RcDefect::ResetKeepsNakSent) {
                self.receive.nak_sent = before.nak_sent;
            }
            if cx.has(RcDefect::ResetKeepsAtomics) {
                self.receive.kept = before.kept;
            }
            if cx.has(RcDefect::ResetKeepsRetries) {
                (self.send.retries, self.send.rnr_retries) = spent;
            }
            if cx.has(RcDefect::ResetKeepsMsn) {
                self.receive.msn = before.msn;
            }
            return Ok(());
        }
        let access = self.attributes.access;
        let keeps_access = match (self.state, to) {
            (QpState::Init, QpState::Init) => cx.has(RcDefect::AccessOfInitIgnored),
            (QpState::Init, _) => cx.has(RcDefect::AccessOfRtrIgnored),
            _ => false,
        };
        let is_later = matches!(self.state, QpState::Rts | QpState::Sqd);
        if !(is_later && cx.has(RcDefect::LaterAttributesIgnored)) {
            self.take_values(cx, named)?;
        }
        if keeps_access {
            self.attributes.access = access;
        }
        if let Some(path) = self.attributes.path.filter(|_| named.address.is_some()) {
            cx.port.resolve(cx.now, &path);
        }
        match to {
            QpState::Err => self.enter_error(cx),
            QpState::Sqd => {
                self.state = to;
                self.report_if_drained(cx);
            }
            _ => {
                self.state = to;
                self.pump(cx);
            }
        }
        Ok(())
    }

    fn check_named(&self, what: &str, to: QpState, wrong: u16) -> Result<(), Refusal> {
        if wrong == 0 {
            return Ok(());
        }
        let names: Vec<_> = (0..bit::NAMES.len())
            .filter(|at| wrong >> at & 1 == 1)
            .map(|at| bit::NAMES[at])
            .collect();
        Err(Refusal::invalid(format!(
            "{what}{} (from {} to {to})",
            names.join(", "),
            self.state
        )))
    }

    fn check_values(&self, cx: &Context<'_>, named: &QpAttributes) -> Result<(), Refusal> {
        let p = cx.profile;
        let below = |name: &str, value: Option<u32>, bound: u64| match value {
            Some(value) if u64::from(value) >= bound => {
                Err(Refusal::invalid(format!("expected {name} below {bound}, not {value}")))
            }
            _ => Ok(()),
        };
        below("pkey_index", named.pkey_index.map(u32::from), p.p_keys.len() as u64)?;
        below("rq_psn", named.rq_psn.map(|psn| psn.0), 1 << 24)?;
        below("sq_psn", named.sq_psn.map(|psn| psn.0), 1 << 24)?;
        below("dest_qpn", named.dest_qpn.map(|qpn| qpn.0), 1 << 24)?;
        below(
            "max_dest_rd_atomic",
            named.max_dest_rd_atomic.map(u32::from),
            u64::from(p.max_dest_rd_atomic) + 1,
        )?;
        below(
            "max_rd_atomic",
            named.max_rd_atomic.map(u32::from),
            u64::from(p.max_rd_atomic) + 1,
        )?;
        below("min_rnr_timer", named.min_rnr_timer.map(|code| code.0.into()), 32)?;
        below("timeout", named.timeout.map(|code| code.0.into()), 32)?;
        let among = |name: &str, value: Option<u8>, has: &[u8]| match value {
            Some(value) if !has.is_empty() && !has.contains(&value) => {
                Err(Refusal::invalid(format!("expected a {name} of {has:?}, not {value}")))
            }
            _ => Ok(()),
        };
        among(
            "min_rnr_timer",
            named.min_rnr_timer.map(|code| code.0),
            &p.min_rnr_timers,
        )?;
        among("timeout", named.timeout.map(|code| code.0), &p.timeouts)?;
        below("retry_cnt", named.retry_cnt.map(u32::from), 8)?;
        below("rnr_retry", named.rnr_retry.map(u32::from), 8)?;
        if named.port.is_some_and(|port| port != 1) {
            return Err(Refusal::invalid("expected port 1, the only one of this adapter"));
        }
        if let Some(mtu) = named.path_mtu
            && (mtu.bytes().is_none() || mtu > p.mtu)
        {
            return Err(Refusal::invalid(format!(
                "expected a path MTU with a code of 1 to {}, the active MTU, not {}",
                p.mtu.0, mtu.0
            )));
        }
        if let Some(address) = &named.address {
            self.path(address, p)?;
        }
        Ok(())
    }

    fn take_values(&mut self, cx: &Context<'_>, named: &QpAttributes) -> Result<(), Refusal> {
        let path = match &named.address {
            Some(address) => Some(self.path(address, cx.profile)?),
            None => self.attributes.path,
        };
        let a = &mut self.attributes;
        a.path = path;
        if let Some(index) = named.pkey_index {
            a.p_key_index = index;
            a.p_key = cx.profile.p_keys[usize::from(index)];
        }
        let before = a.access;
        a.access = named.access.unwrap_or(before);
        if cx.has(RcDefect::RightsNotWithdrawn) {
            a.access.remote_write |= before.remote_write;
        }
        if cx.has(RcDefect::RightsNotWithdrawn) || cx.has(RcDefect::RightsOfReadsNotWithdrawn) {
            a.access.remote_read |= before.remote_read;
            a.access.remote_atomic |= before.remote_atomic;
        }
        a.path_mtu = named.path_mtu.unwrap_or(a.path_mtu);
        a.dest_qpn = named.dest_qpn.unwrap_or(a.dest_qpn);
        a.max_dest_rd_atomic = named.max_dest_rd_atomic.unwrap_or(a.max_dest_rd_atomic);
        a.max_rd_atomic = named.max_rd_atomic.unwrap_or(a.max_rd_atomic);
        if self.state != QpState::Rtr || !cx.has(RcDefect::RnrTimerOfRtsIgnored) {
            a.min_rnr_timer = named.min_rnr_timer.unwrap_or(a.min_rnr_timer);
        }
        a.timeout = named.timeout.unwrap_or(a.timeout);
        a.retry_cnt = named.retry_cnt.unwrap_or(a.retry_cnt);
        if named.timeout.is_some() && named.retry_cnt.is_none() && cx.has(RcDefect::TimeoutClearsRetryCnt) {
            a.retry_cnt = 0;
        }
        a.rnr_retry = named.rnr_retry.unwrap_or(a.rnr_retry);
        if cx.has(RcDefect::OldQKeyOpens) && matches!(self.state, QpState::Rts | QpState::Sqd) {
            self.old_qkey = named.qkey.map(|_| a.qkey);
        }
        a.qkey = named.qkey.unwrap_or(a.qkey);
        if let Some(psn) = named.rq_psn {
            self.receive.expected = psn;
        }
        if let Some(psn) = named.sq_psn {
            self.start_sending(psn);
        }
        Ok(())
    }
}
