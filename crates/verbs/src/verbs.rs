//! A device through libibverbs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use verbatim_hw::verbs::{
    AccessFlags, AddressVector, AtomicCapability, Capacity, Completion, CompletionQueue, Context, Destination,
    EventSubject, GidType, GlobalRoute, Library, LinkLayer, MemoryRegion, Mtu, ProtectionDomain, QpType, QueuePair,
    QueuePairSetup, ReceiveRequest, Segment, SendOperation, SendRequest, VerbsError,
};
use verbatim_proto::agent::{Gid, Opened, QpStatus};

use crate::device::{Completed, Device, Failure, Memory, Pair, Report};
use crate::values::{Access, Address, Modify, Piece, Post, QpState, SendPost, Service, Work};

/// Where the kernel lists the devices that programs may open.
const OPENABLE: &str = "/sys/class/infiniband_verbs";

impl From<VerbsError> for Failure {
    fn from(error: VerbsError) -> Self {
        Self {
            errno: error.errno().unwrap_or(0),
            text: error.to_string(),
        }
    }
}

/// An open device, one port of it, and a protection domain.
#[derive(Debug)]
pub struct VerbsDevice {
    // Handles own what they were made from, so the order of these does not matter.
    domain: ProtectionDomain,
    context: Context,
    port: u8,
    listed: Option<Listed>,
}

/// The kernel's entry of a device, as it was when the device was opened.
#[derive(Debug)]
struct Listed {
    path: PathBuf,
    inode: u64,
}

impl Listed {
    fn find(directory: &Path, device: &str) -> Option<Self> {
        fs::read_dir(directory).ok()?.flatten().find_map(|entry| {
            let path = entry.path();
            let name = fs::read_to_string(path.join("ibdev")).ok()?;
            let inode = fs::metadata(&path).ok()?.ino();
            (name.trim() == device).then_some(Self { path, inode })
        })
    }

    /// A device that was taken away and came back is another one, though its name is the same.
    fn is_there(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|now| now.ino() == self.inode)
    }
}

impl VerbsDevice {
    /// Opens a device and looks at its port.
    ///
    /// # Errors
    /// When there is no such device (the text names those that exist) or port, or it cannot be opened.
    pub fn open(library: &Arc<Library>, device: &str, port: u8) -> Result<Self, Failure> {
        let context = library.open_device(device)?;
        let ports = context.query_device()?.phys_port_cnt;
        if port == 0 || port > ports {
            return Err(Failure::refused(format!(
                "{device} has no port {port}; expected 1..={ports}, choose one with --port"
            )));
        }
        let domain = context.create_protection_domain()?;
        let listed = Listed::find(Path::new(OPENABLE), device);
        Ok(Self {
            domain,
            context,
            port,
            listed,
        })
    }
}

impl Device for VerbsDevice {
    type Memory = MemoryRegion;
    type Pair = VerbsPair;

    fn describe(&self) -> Result<Opened, Failure> {
        let device = self.context.query_device()?;
        let port = self.context.query_port(self.port)?;
        let gids = self.context.gid_table(self.port)?;
        let count = |value: i32| u32::try_from(value).unwrap_or(0);
        Ok(Opened {
            device: self.context.name().into(),
            port: self.port.into(),
            firmware: device.fw_ver,
            node_guid: device.node_guid,
            vendor_id: device.vendor_id,
            vendor_part_id: device.vendor_part_id,
            hw_ver: device.hw_ver,
            port_state: port.state.0,
            active_mtu: port.active_mtu.0,
            lid: port.lid.into(),
            ethernet: port.link_layer == LinkLayer::ETHERNET,
            gids: gids
                .iter()
                .filter(|entry| entry.gid != [0; 16])
                .map(|entry| Gid {
                    index: entry.index,
                    gid: entry.gid.to_vec(),
                    kind: kind(entry.kind),
                })
                .collect(),
            max_qp_rd_atom: count(device.max_qp_rd_atom),
            max_qp_init_rd_atom: count(device.max_qp_init_rd_atom),
            atomics: device.atomic_cap != AtomicCapability::NONE,
            max_qp: count(device.max_qp),
            host: crate::host(),
        })
    }

    fn register(&self, length: usize, access: Access) -> Result<MemoryRegion, Failure> {
        Ok(self.domain.register(length, flags(access))?)
    }

    fn create_pair(&self, service: Service, send_depth: u32, receive_depth: u32) -> Result<VerbsPair, Failure> {
        // Drivers round the depths of queues up, and a completion queue that overflows is lost.
        let entries = send_depth.saturating_add(receive_depth).saturating_mul(2);
        let completions = self.context.create_completion_queue(entries, None)?;
        let pair = self.domain.create_queue_pair(&QueuePairSetup {
            kind: match service {
                Service::Ud => QpType::UD,
                Service::Rc | Service::Unspecified => QpType::RC,
            },
            send_cq: completions.clone(),
            receive_cq: completions.clone(),
            capacity: Capacity {
                max_send_wr: send_depth,
                max_recv_wr: receive_depth,
                ..Capacity::default()
            },
            signal_all: false,
        })?;
        Ok(VerbsPair {
            pair,
            completions,
            found: Vec::new(),
            domain: self.domain.clone(),
            port: self.port,
        })
    }

    fn next_report(&self) -> Result<Option<Report>, Failure> {
        let event = self.context.next_event(Duration::ZERO)?;
        Ok(event.map(|event| Report {
            name: event.kind.to_string(),
            qpn: match event.subject {
                EventSubject::QueuePair(qpn) => Some(qpn),
                _ => None,
            },
        }))
    }

    fn gone(&self) -> Option<String> {
        let listed = self.listed.as_ref()?;
        (!listed.is_there()).then(|| {
            format!(
                "the kernel has taken {} away ({} is another one now, or none): was it removed, as by `rdma link delete`?",
                self.context.name(),
                listed.path.display()
            )
        })
    }
}

fn kind(kind: GidType) -> String {
    match kind {
        GidType::Ib => "IB".into(),
        GidType::RoceV1 => "RoCE v1".into(),
        GidType::RoceV2 => "RoCE v2".into(),
        other => format!("{other:?}"),
    }
}

fn flags(access: Access) -> AccessFlags {
    [
        (access.local_write, AccessFlags::LOCAL_WRITE),
        (access.remote_write, AccessFlags::REMOTE_WRITE),
        (access.remote_read, AccessFlags::REMOTE_READ),
        (access.remote_atomic, AccessFlags::REMOTE_ATOMIC),
    ]
    .into_iter()
    .filter(|(set, _)| *set)
    .fold(AccessFlags::NONE, |flags, (_, flag)| flags | flag)
}

impl Memory for MemoryRegion {
    fn address(&self) -> u64 {
        self.addr()
    }

    fn l_key(&self) -> u32 {
        self.lkey()
    }

    fn r_key(&self) -> u32 {
        self.rkey()
    }

    fn read(&self, offset: usize, length: usize) -> Result<Vec<u8>, Failure> {
        Ok(MemoryRegion::read(self, offset, length)?)
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Failure> {
        Ok(MemoryRegion::write(self, offset, bytes)?)
    }
}

/// A queue pair and its completion queue.
#[derive(Debug)]
pub struct VerbsPair {
    pair: QueuePair,
    completions: CompletionQueue,
    /// Empty but for its room.
    found: Vec<Completion>,
    domain: ProtectionDomain,
    port: u8,
}

impl VerbsPair {
    fn address(&self, address: &Address) -> AddressVector {
        AddressVector {
            dlid: address.dlid,
            sl: address.sl,
            port: self.port,
            gid: address.route.as_ref().map(|route| GlobalRoute {
                dgid: route.dgid,
                sgid_index: route.sgid_index,
                flow_label: route.flow_label,
                hop_limit: route.hop_limit,
                traffic_class: route.traffic_class,
            }),
            ..AddressVector::default()
        }
    }

    fn send(&self, post: &SendPost<'_, MemoryRegion>) -> Result<Duration, Failure> {
        let destination = match &post.to {
            None => None,
            Some(to) => Some(Destination {
                address: self.domain.create_address_handle(&self.address(&to.address))?,
                qpn: to.qpn,
                qkey: to.qkey,
            }),
        };
        let request = SendRequest {
            data: segments(post.local.as_ref()),
            signalled: post.signaled,
            solicited: post.solicited,
            fence: post.fence,
            destination,
            ..SendRequest::new(post.wr_id, operation(post.work))
        };
        Ok(self.pair.post_send(request)?)
    }
}

fn segments(piece: Option<&Piece<'_, MemoryRegion>>) -> Vec<Segment> {
    piece
        .map(|piece| {
            let length = u32::try_from(piece.length).unwrap_or(u32::MAX);
            piece.memory.segment(piece.offset, length)
        })
        .into_iter()
        .collect()
}

fn operation(work: Work) -> SendOperation {
    match work {
        Work::Send => SendOperation::Send,
        Work::SendImm { imm } => SendOperation::SendImm(imm),
        Work::SendInvalidate { r_key } => SendOperation::SendInvalidate(r_key),
        Work::Write { address, r_key } => SendOperation::Write {
            remote_address: address,
            rkey: r_key,
        },
        Work::WriteImm { address, r_key, imm } => SendOperation::WriteImm {
            remote_address: address,
            rkey: r_key,
            immediate: imm,
        },
        Work::Read { address, r_key } => SendOperation::Read {
            remote_address: address,
            rkey: r_key,
        },
        Work::CompareSwap {
            address,
            r_key,
            compare,
            swap,
        } => SendOperation::CompareSwap {
            remote_address: address,
            rkey: r_key,
            compare,
            swap,
        },
        Work::FetchAdd { address, r_key, add } => SendOperation::FetchAdd {
            remote_address: address,
            rkey: r_key,
            add,
        },
    }
}

/// On the clock that both read.
fn nanoseconds(at: Duration) -> u64 {
    u64::try_from(at.as_nanos()).unwrap_or(u64::MAX)
}

/// Our numbers begin with 1, those of `enum ibv_qp_state` with 0.
fn state(state: QpState) -> verbatim_hw::verbs::QpState {
    verbatim_hw::verbs::QpState(u32::try_from(i32::from(state) - 1).unwrap_or(u32::MAX))
}

fn state_back(seen: verbatim_hw::verbs::QpState) -> QpState {
    let number = i32::try_from(seen.0).ok().and_then(|number| number.checked_add(1));
    let known = number.and_then(|number| QpState::try_from(number).ok());
    known.unwrap_or(QpState::Unspecified)
}

impl Pair for VerbsPair {
    type Memory = MemoryRegion;

    fn qpn(&self) -> u32 {
        self.pair.qpn()
    }

    fn modify(&mut self, modify: &Modify) -> Result<(), Failure> {
        let asked = &modify.attributes;
        let to = verbatim_hw::verbs::Modify {
            pkey_index: asked.pkey_index,
            port: asked.port,
            access: asked.access.map(flags),
            qkey: asked.qkey,
            path_mtu: asked.path_mtu.map(|code| Mtu(code.into())),
            dest_qpn: asked.dest_qpn,
            rq_psn: asked.rq_psn,
            sq_psn: asked.sq_psn,
            max_dest_rd_atomic: asked.max_dest_rd_atomic,
            max_rd_atomic: asked.max_rd_atomic,
            min_rnr_timer: asked.min_rnr_timer,
            address: asked.address.as_ref().map(|address| self.address(address)),
            timeout: asked.timeout,
            retry_cnt: asked.retry_cnt,
            rnr_retry: asked.rnr_retry,
            ..verbatim_hw::verbs::Modify::to(state(modify.state))
        };
        Ok(self.pair.modify(&to)?)
    }

    fn query(&self) -> Result<QpStatus, Failure> {
        let found = self.pair.query()?;
        Ok(QpStatus {
            state: state_back(found.state).into(),
            sq_psn: found.sq_psn,
            rq_psn: found.rq_psn,
        })
    }

    fn post(&mut self, post: &Post<'_, MemoryRegion>) -> Result<u64, Failure> {
        let called = match post {
            Post::Send(post) => self.send(post)?,
            Post::Receive { wr_id, into } => self.pair.post_receive(ReceiveRequest {
                wr_id: *wr_id,
                data: segments(into.as_ref()),
            })?,
        };
        Ok(nanoseconds(called))
    }

    fn poll(&mut self, into: &mut Vec<Completed>) -> Result<Option<u64>, Failure> {
        let polled = self.completions.poll(&mut self.found);
        into.extend(self.found.drain(..).map(|completion| Completed {
            wr_id: completion.wr_id,
            status: completion.status.0,
            opcode: completion.opcode.0,
            byte_len: completion.byte_len,
            imm: completion.imm,
            vendor_error: completion.vendor_err,
        }));
        Ok(polled?.at.map(nanoseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_number_in_the_header_and_back() {
        use verbatim_hw::verbs::QpState as Seen;
        let both = [
            (QpState::Reset, Seen::RESET),
            (QpState::Init, Seen::INIT),
            (QpState::Rtr, Seen::RTR),
            (QpState::Rts, Seen::RTS),
            (QpState::Sqd, Seen::SQD),
            (QpState::Sqe, Seen::SQE),
            (QpState::Err, Seen::ERR),
        ];
        for (ours, theirs) in both {
            assert_eq!(state(ours), theirs);
            assert_eq!(state_back(theirs), ours);
        }
        assert_eq!(state_back(Seen(7)), QpState::Unspecified);
        assert_eq!(state_back(Seen(u32::MAX)), QpState::Unspecified);
    }

    #[test]
    fn access_names_what_is_asked_for_and_nothing_else() {
        assert_eq!(flags(Access::default()), AccessFlags::NONE);
        let read = Access {
            remote_read: true,
            ..Access::default()
        };
        assert_eq!(flags(read), AccessFlags::REMOTE_READ);
        let all = Access {
            local_write: true,
            remote_write: true,
            remote_read: true,
            remote_atomic: true,
        };
        assert_eq!(flags(all), AccessFlags::ALL);
    }

    #[test]
    fn a_device_that_left_or_came_back_anew_is_not_there() {
        let directory = tempfile::tempdir().unwrap();
        for (entry, device) in [("uverbs0", "rxe1"), ("uverbs1", "rxe0")] {
            fs::create_dir(directory.path().join(entry)).unwrap();
            fs::write(directory.path().join(entry).join("ibdev"), format!("{device}\n")).unwrap();
        }
        assert!(Listed::find(directory.path(), "rxe2").is_none());
        let listed = Listed::find(directory.path(), "rxe0").unwrap();
        assert!(listed.path.ends_with("uverbs1"));
        assert!(listed.is_there());
        fs::rename(&listed.path, directory.path().join("was")).unwrap();
        assert!(!listed.is_there());
        // Another one of the same name: the first still exists, so its inode is not reused.
        fs::create_dir(&listed.path).unwrap();
        assert!(!listed.is_there());
    }
}
