//! The implementation of a session's device with libibverbs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use verbatim_hw::verbs::{
    Completion, CompletionQueue, Context, Destination, Library, MemoryRegion, ProtectionDomain, QueuePair,
    ReceiveRequest, Segment, SendRequest, VerbsError,
};
use verbatim_proto::agent::{Gid, Opened};
use verbatim_wire::verbs::{Access, QpAttributes, QpState, QpStatus, Service};

use crate::device::{Completed, Device, Failure, Memory, Pair, Report};
use crate::values::{Piece, SendPost, WorkRequest};

/// Directory in which the kernel lists the devices that programs may open.
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
    // Each handle keeps its parent alive, so the order of these fields does not matter.
    domain: ProtectionDomain,
    context: Context,
    port: u8,
    listed: Option<Listed>,
}

/// The kernel's directory entry of a device at the time when it was opened.
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

    /// Whether the device still exists. A device that was removed and added again is another device of the same name.
    fn is_there(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|now| now.ino() == self.inode)
    }
}

impl VerbsDevice {
    /// Opens a device and checks that it has the port.
    ///
    /// # Errors
    /// When the device (the text lists the existing ones) or the port is missing, or the device cannot be opened.
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
            port_state: port.state,
            active_mtu: port.active_mtu.0.into(),
            lid: port.lid.0.into(),
            ethernet: port.ethernet,
            gids: gids
                .iter()
                .filter(|entry| entry.gid.0 != [0; 16])
                .map(|entry| Gid {
                    index: entry.index,
                    gid: entry.gid.0.to_vec(),
                    kind: entry.kind.to_string(),
                })
                .collect(),
            max_qp_rd_atom: count(device.max_qp_rd_atom),
            max_qp_init_rd_atom: count(device.max_qp_init_rd_atom),
            atomics: device.atomics,
            max_qp: count(device.max_qp),
            host: crate::host(),
            driver: {
                let (name, version) = crate::driver(&Path::new("/sys/class/infiniband").join(self.context.name()));
                [name, version].into_iter().flatten().collect::<Vec<_>>().join(" ")
            },
            // Verbs have no call that reports capabilities in advance. A driver refuses an unsupported request.
            capabilities: None,
            local_ca_ack_delay: device.local_ca_ack_delay.into(),
        })
    }

    fn register(&self, length: usize, access: Access) -> Result<MemoryRegion, Failure> {
        Ok(self.domain.register(length, access)?)
    }

    fn create_pair(&self, service: Service, send_depth: u32, receive_depth: u32) -> Result<VerbsPair, Failure> {
        // Doubles the number of entries, because drivers round queue depths up. An overflow would make the completion
        // queue unusable.
        let entries = send_depth.saturating_add(receive_depth).saturating_mul(2);
        let completions = self.context.create_completion_queue(entries)?;
        let depths = (send_depth, receive_depth);
        let pair = self
            .domain
            .create_queue_pair(service, self.port, &completions, depths)?;
        Ok(VerbsPair {
            pair,
            completions,
            found: Vec::new(),
            domain: self.domain.clone(),
            port: self.port,
        })
    }

    fn next_report(&self) -> Result<Option<Report>, Failure> {
        let event = self.context.next_event()?;
        Ok(event.map(|event| Report {
            name: event.kind.to_string(),
            qpn: event.qpn.map(|qpn| qpn.0),
        }))
    }

    fn gone(&self) -> Option<String> {
        let listed = self.listed.as_ref()?;
        (!listed.is_there()).then(|| {
            format!(
                "{} is gone from the kernel ({} is absent or names another device): was it removed, for example with \
                 `rdma link delete`?",
                self.context.name(),
                listed.path.display()
            )
        })
    }
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
    /// Buffer for completions, empty between polls. It avoids an allocation for each poll.
    found: Vec<Completion>,
    domain: ProtectionDomain,
    port: u8,
}

impl VerbsPair {
    fn send(&self, post: &SendPost<'_, MemoryRegion>) -> Result<Duration, Failure> {
        let destination = match &post.to {
            None => None,
            Some(to) => Some(Destination {
                address: self.domain.create_address_handle(&to.address, self.port)?,
                qpn: to.qpn,
                qkey: to.qkey,
            }),
        };
        Ok(self.pair.post_send(SendRequest {
            wr_id: post.wr_id,
            work: post.work,
            data: segment(post.local.as_ref()),
            signaled: post.signaled,
            solicited: post.solicited,
            fence: post.fence,
            destination,
        })?)
    }
}

fn segment(piece: Option<&Piece<'_, MemoryRegion>>) -> Option<Segment> {
    piece.map(|piece| {
        let length = u32::try_from(piece.length).unwrap_or(u32::MAX);
        piece.memory.segment(piece.offset, length)
    })
}

/// Converts a time to nanoseconds; both clocks are CLOCK_MONOTONIC.
fn nanoseconds(at: Duration) -> u64 {
    u64::try_from(at.as_nanos()).unwrap_or(u64::MAX)
}

impl Pair for VerbsPair {
    type Memory = MemoryRegion;

    fn qpn(&self) -> u32 {
        self.pair.qpn()
    }

    fn modify(&mut self, to: QpState, given: &QpAttributes) -> Result<(), Failure> {
        Ok(self.pair.modify(to, given)?)
    }

    fn query(&self) -> Result<QpStatus, Failure> {
        Ok(self.pair.query()?)
    }

    fn post(&mut self, post: &WorkRequest<'_, MemoryRegion>) -> Result<u64, Failure> {
        let called = match post {
            WorkRequest::Send(post) => self.send(post)?,
            WorkRequest::Receive { wr_id, into } => self.pair.post_receive(ReceiveRequest {
                wr_id: *wr_id,
                data: segment(into.as_ref()),
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
    fn removed_or_recreated_device_is_absent() {
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
        // Makes another entry of the same name. The first directory still exists, so its inode is not reused.
        fs::create_dir(&listed.path).unwrap();
        assert!(!listed.is_there());
    }
}
