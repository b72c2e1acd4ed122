//! Life and death of handles: children go before their parents, whatever the caller drops first.

use crate::verbs::{AccessFlags, AddressVector, QpType, QueuePairSetup, VerbsError};

use super::{
    Bench, bench,
    fake::{library, opened, world},
};

fn log() -> Vec<&'static str> {
    world(|world| std::mem::take(&mut world.log))
}

#[test]
fn objects_are_destroyed_before_what_they_were_made_from() {
    let bench = bench(QpType::RC);
    let region = bench.pd.register(64, AccessFlags::NONE).unwrap();
    let handle = bench.pd.create_address_handle(&AddressVector::default()).unwrap();
    assert_eq!(log(), ["+pd", "+channel", "+cq", "+qp", "+mr", "+ah"]);
    let Bench {
        qp,
        cq,
        channel,
        pd,
        context,
    } = bench;
    // Parents first: the library must hear of none of it.
    drop((context, pd, channel, cq));
    assert_eq!(log(), [""; 0]);
    drop(qp);
    assert_eq!(log(), ["-qp", "-cq", "-channel"]);
    drop(region);
    assert_eq!(log(), ["-mr"]);
    drop(handle);
    assert_eq!(log(), ["-ah", "-pd", "-context"]);
}

#[test]
fn a_queue_pair_with_two_queues_holds_both() {
    let bench = bench(QpType::RC);
    let receive_cq = bench.context.create_completion_queue(4, None).unwrap();
    let setup = QueuePairSetup {
        kind: QpType::UC,
        send_cq: bench.cq.clone(),
        receive_cq,
        capacity: bench.qp.capacity(),
        signal_all: true,
    };
    let second = bench.pd.create_queue_pair(&setup).unwrap();
    assert_ne!(second.qpn(), bench.qp.qpn());
    drop(setup);
    log();
    drop(bench);
    assert_eq!(log(), ["-qp"], "of the first only");
    drop(second);
    assert_eq!(log(), ["-qp", "-cq", "-channel", "-cq", "-pd", "-context"]);
}

#[test]
fn what_cannot_be_made_is_an_error_and_leaves_nothing_behind() {
    for call in ["+pd", "+channel", "+cq", "+qp", "+ah"] {
        let context = opened();
        world(|world| world.fails.push((call, libc::ENOMEM)));
        let attempt = || -> Result<(), VerbsError> {
            let pd = context.create_protection_domain()?;
            let channel = context.create_completion_channel()?;
            let cq = context.create_completion_queue(4, Some(&channel))?;
            pd.create_address_handle(&AddressVector::default())?;
            pd.create_queue_pair(&QueuePairSetup {
                kind: QpType::RC,
                send_cq: cq.clone(),
                receive_cq: cq,
                capacity: Default::default(),
                signal_all: false,
            })?;
            Ok(())
        };
        let error = attempt().unwrap_err();
        assert_eq!(error.errno(), Some(libc::ENOMEM), "{call}: {error}");
        world(|world| world.fails.clear());
        drop(context);
        let log = log();
        let made = log.iter().filter(|entry| entry.starts_with('+')).count();
        // The context was made before the log began.
        assert_eq!(log.len() - made, made + 1, "{call}: {log:?}");
    }
}

#[test]
fn a_failed_destruction_does_not_stop_the_others() {
    let bench = bench(QpType::RC);
    log();
    world(|world| world.fails.push(("-qp", libc::EBUSY)));
    drop(bench);
    assert_eq!(log(), ["-qp", "-cq", "-channel", "-pd", "-context"]);
}

#[test]
fn objects_of_two_contexts_are_not_mixed() {
    let bench = bench(QpType::RC);
    let other = library().open_device("fake0").unwrap();
    let error = other.create_completion_queue(4, Some(&bench.channel)).unwrap_err();
    assert!(error.to_string().contains("belongs to another context"), "{error}");
    let setup = QueuePairSetup {
        kind: QpType::RC,
        send_cq: bench.cq.clone(),
        receive_cq: other.create_completion_queue(4, None).unwrap(),
        capacity: Default::default(),
        signal_all: false,
    };
    let error = bench.pd.create_queue_pair(&setup).unwrap_err();
    assert!(
        error.to_string().contains("receive_cq belongs to another context"),
        "{error}"
    );
}

#[test]
fn a_service_that_is_not_offered_is_refused_here() {
    let bench = bench(QpType::RC);
    let setup = QueuePairSetup {
        kind: QpType(8),
        send_cq: bench.cq.clone(),
        receive_cq: bench.cq.clone(),
        capacity: Default::default(),
        signal_all: false,
    };
    let error = bench.pd.create_queue_pair(&setup).unwrap_err();
    assert!(error.to_string().contains("expected RC, UC or UD"), "{error}");
}

#[test]
fn handles_can_be_shared_between_threads() {
    fn assert_shared<T: Send + Sync>() {}
    assert_shared::<Bench>();
    assert_shared::<crate::verbs::MemoryRegion>();
    assert_shared::<crate::verbs::AddressHandle>();
}
