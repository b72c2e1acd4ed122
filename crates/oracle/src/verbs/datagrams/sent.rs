//! Rules for the datagrams that the device sends, and for the completions of their work requests.

use verbatim_record::verbs::{Command, pb};
use verbatim_record::{Evidence, FrameSeen, HostEvent, Passed, VerbsDone, WcStatus};
use verbatim_wire::packet::{Opcode, Packet, Psn};
use verbatim_wire::verbs::WcOpcode;

use super::super::asking::Asking;
use super::super::qp_history::{QpHistory, is_refused, posts};
use super::super::states::is_registered;
use super::{DUE, Image, LEFT, PARTITION, completions, frames, image, is_alive, is_of_datagrams, is_seen, part};

/// Work request of a datagram queue pair.
struct Post<'t> {
    done: &'t VerbsDone,
    post: &'t pb::PostSend,
    /// Q_Key of the queue pair when the request was posted.
    q_key: u32,
    /// Whether a datagram queue pair may send the request.
    may_be_sent: bool,
    /// Whether a datagram queue pair must send the request, and complete it with success.
    must_be_sent: bool,
    /// Bytes to send, as far as they are known.
    bytes: Image,
    completion: Option<(&'t HostEvent, &'t pb::Completion)>,
}

impl Post<'_> {
    /// Returns whether the request takes a PSN: a request that is not sent takes none.
    fn takes_psn(&self) -> bool {
        let has_failed = |(_, completion): (_, &pb::Completion)| completion.status != WcStatus::SUCCESS.0;
        self.must_be_sent && !self.completion.is_some_and(has_failed)
    }
}

/// Work requests between two resets of the queue pair.
struct Epoch<'t> {
    first: Psn,
    begin: usize,
    posts: Vec<Post<'t>>,
}

fn epochs<'t>(history: &QpHistory<'t>) -> Vec<Epoch<'t>> {
    let mut epochs: Vec<Epoch<'t>> = Vec::new();
    let mut q_key = 0;
    history.each(|is, done| match &done.command {
        Command::ModifyQp(modify) if super::is_done(done) => {
            let given = modify.attributes.clone().unwrap_or_default();
            q_key = given.qkey.unwrap_or(q_key);
            if let Some(psn) = given.sq_psn {
                epochs.push(Epoch {
                    first: Psn::new(psn),
                    begin: done.place,
                    posts: Vec::new(),
                });
            }
        }
        Command::PostSend(post) if !is_refused(done) => {
            let Some(epoch) = epochs.last_mut() else { return };
            let mut told = completions(history).filter(|(happened, _)| happened.place > done.place);
            let completion = told.find(|(_, completion)| completion.wr_id == post.wr_id);
            let until = completion.map_or(history.end, |(happened, _)| happened.place);
            let is_up = matches!(is.state, pb::QpState::Rts | pb::QpState::Sqd);
            let is_registered = |at: usize| is_registered(&history.memory, post.local, at, false);
            let operation = matches!(post.operation(), pb::Operation::Send | pb::Operation::SendImm);
            let may_be_sent = is_up && operation && !history.facts.exceeds_mtu(post);
            epoch.posts.push(Post {
                done,
                post,
                q_key,
                may_be_sent,
                must_be_sent: may_be_sent
                    && history.facts.fits_mtu(post)
                    && is_registered(done.place)
                    && is_registered(until),
                bytes: part(
                    &image(history.trace, post.local.unwrap_or_default().memory, None, done.place),
                    post.local,
                ),
                completion,
            });
        }
        _ => {}
    });
    epochs
}

/// Returns the datagrams that have the number of this queue pair as their source.
fn sent<'t>(history: &QpHistory<'t>) -> impl Iterator<Item = (&'t FrameSeen, Packet<'t>)> {
    let qpn = history.qpn;
    frames(history, true).filter(move |(_, packet)| packet.deth().is_some_and(|deth| deth.src_qp().0 == qpn))
}

/// Checks the ICRC of each datagram.
pub(super) fn icrc<'t>(history: &QpHistory<'t>, asking: &mut Asking<'_, 't>) {
    if !is_of_datagrams(history) {
        return;
    }
    for (frame, packet) in sent(history) {
        asking.must(packet.icrc_is_right(), [frame.into()], || {
            let hex = |crc: Option<[u8; 4]>| crc.map_or_else(|| "none".into(), |crc| format!("{crc:02x?}"));
            (packet.to_string(), hex(packet.computed_icrc()), hex(packet.icrc()))
        });
    }
}

/// Returns the fields of a datagram that its work request determines, in words.
fn fields(opcode: Opcode, se: bool, (q_key, to): (u32, u32), imm: Option<u32>, length: usize) -> String {
    let se = if se { ", SE" } else { "" };
    let imm = imm.map_or(String::new(), |imm| format!(", immediate {imm:#010x}"));
    format!("{opcode}{se}, Q_Key {q_key:#010x}, DestQP {to:#08x}{imm}, {length} bytes")
}

/// Field of a datagram that differs from its work request: name, expected and seen value.
type Difference = (&'static str, String, String);

/// Returns the first difference between a datagram and its work request.
fn difference(history: &QpHistory<'_>, of: &Post<'_>, packet: &Packet<'_>) -> Option<Difference> {
    let (bth, deth, post) = (packet.bth(), packet.deth().unwrap_or_default(), of.post);
    let with_imm = post.operation() == pb::Operation::SendImm;
    let opcode = if with_imm {
        Opcode::UD_SEND_ONLY_IMM
    } else {
        Opcode::UD_SEND_ONLY
    };
    if packet.opcode() != opcode {
        return Some(("opcode", opcode.to_string(), packet.opcode().to_string()));
    }
    let own_key = post.remote_qkey >> 31 == 1;
    let q_key = if own_key { of.q_key } else { post.remote_qkey };
    let imm = packet.imm().map_or(0, |imm| imm.data().0);
    let fields = [
        ("SE", u32::from(post.solicited), u32::from(bth.solicited_event())),
        ("Q_Key", q_key, deth.q_key().0),
        ("DestQP", post.remote_qpn, bth.dest_qp().0),
        ("immediate data", if with_imm { post.imm } else { 0 }, imm),
        ("payload length", of.bytes.len() as u32, packet.payload().len() as u32),
        ("TVer", 0, u32::from(bth.tver())),
        ("AckReq", 0, u32::from(bth.ack_request())),
        ("partition", u32::from(PARTITION), u32::from(bth.p_key().0 & PARTITION)),
        ("reserved byte of the DETH", 0, u32::from(deth.reserved_32().0 != 0)),
    ];
    if let Some((name, expected, seen)) = fields.into_iter().find(|(_, expected, seen)| expected != seen) {
        return Some((name, format!("{expected:#x}"), format!("{seen:#x}")));
    }
    let pairs = of.bytes.iter().zip(packet.payload());
    if let Some((at, (known, byte))) = pairs
        .enumerate()
        .find(|(_, (known, byte))| known.is_some_and(|known| known != **byte))
    {
        let known = known.unwrap_or_default();
        return Some(("payload", format!("byte {at} {known:#04x}"), format!("{byte:#04x}")));
    }
    // Switches may rewrite the traffic class.
    let address = post.address.as_ref().filter(|_| history.is_simulated())?;
    let dscp = packet
        .ipv4()
        .map(|ip| ip.dscp())
        .or(packet.ipv6().map(|ip| ip.dscp()))?;
    let label = packet
        .ipv6()
        .map(|ip| ip.flow_label().0)
        .filter(|_| address.flow_label != 0);
    let words = |dscp: u32, label: Option<u32>| {
        let label = label.map_or(String::new(), |label| format!(", flow label {label:#07x}"));
        format!("DSCP {dscp}{label}")
    };
    let expected = words(address.traffic_class >> 2, label.map(|_| address.flow_label));
    let seen = words(dscp.into(), label);
    (expected != seen).then_some(("network header", expected, seen))
}

/// Checks that each datagram has the next PSN and matches the work request of its PSN.
pub(super) fn datagram_sent<'t>(history: &QpHistory<'t>, asking: &mut Asking<'_, 't>) {
    if !is_seen(history) {
        return;
    }
    let epochs = epochs(history);
    let mut frames_of: Vec<Vec<Option<&'t FrameSeen>>> =
        epochs.iter().map(|epoch| vec![None; epoch.posts.len()]).collect();
    for (frame, packet) in sent(history) {
        let Some(of) = epochs.iter().rposition(|epoch| epoch.begin < frame.place) else {
            continue;
        };
        let (epoch, used) = (&epochs[of], &mut frames_of[of]);
        let offset = packet.bth().psn().since(epoch.first) as usize;
        let may_be = |at: &usize| {
            let spared = epoch.posts[..*at].iter().filter(|post| !post.takes_psn()).count();
            let is_before = epoch.posts[*at].done.place < frame.place;
            epoch.posts[*at].may_be_sent && is_before && (*at - spared..=*at).contains(&offset)
        };
        let candidates: Vec<usize> = (0..epoch.posts.len()).filter(may_be).collect();
        let differs = |at: &usize| difference(history, &epoch.posts[*at], &packet);
        let mut alike: Vec<usize> = candidates.iter().copied().filter(|at| differs(at).is_none()).collect();
        alike.sort_by_key(|at| used[*at].is_some());
        let at = alike.first().or(candidates.first()).copied();
        let Some(at) = at else {
            asking.must(false, [frame.into()], || {
                let last = epoch.first.plus(epoch.posts.len() as u32);
                let expected = format!(
                    "a PSN from {} on, before {last}, of a request that can be sent",
                    epoch.first
                );
                ("datagram without a request".into(), expected, packet.to_string())
            });
            continue;
        };
        let post = &epoch.posts[at];
        let about = format!("datagram of wr_id {}", post.post.wr_id);
        let again = used[at].filter(|earlier| history.is_simulated() || earlier.bytes != frame.bytes);
        used[at] = Some(frame);
        let evidence = [Evidence::from(post.done)]
            .into_iter()
            .chain(again.map(Evidence::from))
            .chain([frame.into()]);
        match (again, differs(&at)) {
            (None, None) => {
                let words = fields(
                    packet.opcode(),
                    packet.bth().solicited_event(),
                    (packet.deth().unwrap_or_default().q_key().0, packet.bth().dest_qp().0),
                    packet.imm().map(|imm| imm.data().0),
                    packet.payload().len(),
                );
                asking.held(format!("PSN {}, {words}", packet.bth().psn()), evidence);
            }
            (_, Some((name, expected, seen))) => {
                asking.must(false, evidence, || (format!("{name} of the {about}"), expected, seen));
            }
            (Some(_), None) => asking.must(false, evidence, || {
                (
                    about,
                    "each PSN once".into(),
                    format!("PSN {} again", packet.bth().psn()),
                )
            }),
        }
    }
    for (epoch, used) in epochs.iter().zip(&frames_of) {
        missing(history, asking, epoch, used);
    }
}

/// Checks that each datagram that completed was sent. In simulations no datagram is lost.
fn missing<'t>(history: &QpHistory<'t>, asking: &mut Asking<'_, 't>, epoch: &Epoch<'t>, used: &[Option<&FrameSeen>]) {
    for (post, frame) in epoch.posts.iter().zip(used) {
        let Some((happened, completion)) = post.completion.filter(|_| frame.is_none() && post.must_be_sent) else {
            continue;
        };
        let due = happened
            .at
            .latest
            .after(if history.is_simulated() { LEFT } else { DUE });
        let is_owed = completion.status == WcStatus::SUCCESS.0 && is_alive(history, happened.place, due);
        let (result, seen) = match (is_owed, history.is_simulated()) {
            (false, _) => continue,
            (true, true) => (Passed::Fail, "none, though the request completed"),
            (true, false) => (Passed::Inconclusive, "none: the datagram may have been lost"),
        };
        asking.say(result, [post.done.into(), happened.into()], || {
            let about = format!("datagram of wr_id {}", post.post.wr_id);
            (about, "one packet".into(), seen.into())
        });
    }
}

/// Checks that each request that can be sent completes once, with success, in order.
pub(super) fn datagram_done<'t>(history: &QpHistory<'t>, asking: &mut Asking<'_, 't>) {
    if !is_of_datagrams(history) {
        return;
    }
    without_request(history, asking);
    for epoch in epochs(history) {
        let mut before = 0;
        // After a request that cannot be sent, the send queue may have failed.
        let posts = epoch.posts.iter().take_while(|of| of.must_be_sent);
        for of in posts.filter(|of| of.post.signaled) {
            let is_it = |completion: &pb::Completion| completion.wr_id == of.post.wr_id;
            let told: Vec<_> = completions(history)
                .filter(|(happened, completion)| happened.place > of.done.place && is_it(completion))
                .collect();
            let is_shared = history.commands.iter().any(|done| match &done.command {
                Command::PostReceive(post) => post.wr_id == of.post.wr_id,
                Command::PostSend(post) => post.wr_id == of.post.wr_id && done.number != of.done.number,
                _ => false,
            });
            let Some((happened, completion)) = told.first().copied().filter(|_| !is_shared) else {
                continue;
            };
            let stops = |done: &&VerbsDone| matches!(&done.command, Command::ModifyQp(modify) if modify.state() != pb::QpState::Rts);
            let is_stopped = history
                .commands
                .iter()
                .filter(|done| done.place > of.done.place)
                .any(|done| stops(done) && done.place < happened.place);
            if is_stopped {
                break;
            }
            let words = |wr_id: u64, status: u32, opcode: u32| {
                format!("wr_id {wr_id} with {}, {}", WcStatus(status), WcOpcode(opcode))
            };
            let expected = words(of.post.wr_id, WcStatus::SUCCESS.0, WcOpcode::SEND.0);
            let seen = words(completion.wr_id, completion.status, completion.opcode);
            let is_so = expected == seen && told.len() == 1 && happened.place > before;
            before = happened.place;
            let evidence = [Evidence::from(of.done)]
                .into_iter()
                .chain(told.iter().map(|(happened, _)| (*happened).into()));
            let result = if is_so { Passed::Pass } else { Passed::Fail };
            asking.say(result, evidence, || {
                let seen = match told.len() {
                    1 if expected == seen => format!("{seen}, before the completion of an earlier request"),
                    1 => seen,
                    count => format!("{count} completions, the first {seen}"),
                };
                (
                    format!("datagram of wr_id {}", of.post.wr_id),
                    format!("{expected}, once and in order"),
                    seen,
                )
            });
        }
    }
}

/// Checks that each completion has the wr_id of an earlier work request.
fn without_request<'t>(history: &QpHistory<'t>, asking: &mut Asking<'_, 't>) {
    for (happened, completion) in completions(history) {
        let mut earlier = history.commands.iter().filter(|done| done.place < happened.place);
        let is_known = earlier.any(|done| posts(&done.command).is_some_and(|(_, wr_id, _)| wr_id == completion.wr_id));
        if !is_known {
            asking.must(false, [happened.into()], || {
                let seen = format!("wr_id {} with {}", completion.wr_id, WcStatus(completion.status));
                (
                    "completion without a request".into(),
                    "wr_ids of posted requests".into(),
                    seen,
                )
            });
        }
    }
}
