//! The verbs module against a stand-in for the library and the device's driver: no hardware.

mod device;
mod events;
mod fake;
mod library;
mod memory;
mod modify;
mod objects;
mod posting;

use super::{
    Capacity, CompletionChannel, CompletionQueue, Context, ProtectionDomain, QpType, QueuePair, QueuePairSetup,
};

/// A queue pair and all that it stands on.
struct Bench {
    qp: QueuePair,
    cq: CompletionQueue,
    channel: CompletionChannel,
    pd: ProtectionDomain,
    context: Context,
}

fn bench(kind: QpType) -> Bench {
    let context = fake::opened();
    let pd = context.create_protection_domain().unwrap();
    let channel = context.create_completion_channel().unwrap();
    let cq = context.create_completion_queue(16, Some(&channel)).unwrap();
    let setup = QueuePairSetup {
        kind,
        send_cq: cq.clone(),
        receive_cq: cq.clone(),
        capacity: Capacity {
            max_send_wr: 2,
            max_recv_wr: 2,
            ..Capacity::default()
        },
        signal_all: false,
    };
    let qp = pd.create_queue_pair(&setup).unwrap();
    Bench {
        qp,
        cq,
        channel,
        pd,
        context,
    }
}
