//! Tests of the verbs module against a fake of the library and the device's driver: no hardware.

mod device;
mod events;
mod fake;
#[cfg(feature = "rdma-sys")]
mod header;
mod library;
mod memory;
mod modify;
mod objects;
mod posting;

use verbatim_wire::verbs::{Operation, Service, Work};

use super::{CompletionQueue, Context, ProtectionDomain, QueuePair, SendRequest};

/// A queue pair and the objects that it needs.
struct Bench {
    qp: QueuePair,
    cq: CompletionQueue,
    pd: ProtectionDomain,
    context: Context,
}

fn bench(service: Service) -> Bench {
    let context = fake::opened();
    let pd = context.create_protection_domain().unwrap();
    let cq = context.create_completion_queue(16).unwrap();
    let qp = pd.create_queue_pair(service, 1, &cq, (2, 2)).unwrap();
    Bench { qp, cq, pd, context }
}

/// Makes a signaled request without data, for an address in the other side's memory.
fn request(wr_id: u64, operation: Operation) -> SendRequest {
    SendRequest {
        wr_id,
        work: Work {
            operation,
            remote_address: 0x1111_2222_3333_4440,
            r_key: verbatim_wire::RKey(0x99),
            compare: 5,
            swap_add: 6,
            imm: 0x0102_0304,
        },
        data: None,
        signaled: true,
        solicited: false,
        fence: false,
        destination: None,
    }
}
