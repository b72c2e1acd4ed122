//! Lifetime of handles: children are destroyed before their parents, in any order of drops.

use nix::errno::Errno;
use verbatim_wire::verbs::{Access, AddressVector, Service};

use crate::verbs::VerbsError;

use super::{
    Bench, bench,
    fake::{library, opened, world},
};

fn log() -> Vec<&'static str> {
    world(|world| std::mem::take(&mut world.log))
}

#[test]
fn children_are_destroyed_before_parents() {
    let bench = bench(Service::Rc);
    let region = bench.pd.register(64, Access::default()).unwrap();
    let handle = bench.pd.create_address_handle(&AddressVector::default(), 1).unwrap();
    assert_eq!(log(), ["+pd", "+cq", "+qp", "+mr", "+ah"]);
    let Bench { qp, cq, pd, context } = bench;
    // Drops the parent handles first: this must not destroy any object.
    drop((context, pd, cq));
    assert_eq!(log(), [""; 0]);
    drop(qp);
    assert_eq!(log(), ["-qp", "-cq"]);
    drop(region);
    assert_eq!(log(), ["-mr"]);
    drop(handle);
    assert_eq!(log(), ["-ah", "-pd", "-context"]);
}

#[test]
fn failed_creation_leaves_nothing_behind() {
    for call in ["+pd", "+cq", "+qp", "+ah"] {
        let context = opened();
        world(|world| world.fails.push((call, Errno::ENOMEM)));
        let attempt = || -> Result<(), VerbsError> {
            let pd = context.create_protection_domain()?;
            let cq = context.create_completion_queue(4)?;
            pd.create_address_handle(&AddressVector::default(), 1)?;
            pd.create_queue_pair(Service::Rc, 1, &cq, (2, 2))?;
            Ok(())
        };
        let error = attempt().unwrap_err();
        assert_eq!(error.errno(), Some(Errno::ENOMEM as i32), "{call}: {error}");
        world(|world| world.fails.clear());
        drop(context);
        let log = log();
        let made = log.iter().filter(|entry| entry.starts_with('+')).count();
        // The log does not contain the creation of the context, because `opened` empties it.
        assert_eq!(log.len() - made, made + 1, "{call}: {log:?}");
    }
}

#[test]
fn failed_destruction_does_not_stop_others() {
    let bench = bench(Service::Rc);
    log();
    world(|world| world.fails.push(("-qp", Errno::EBUSY)));
    drop(bench);
    assert_eq!(log(), ["-qp", "-cq", "-pd", "-context"]);
}

#[test]
fn refuses_objects_of_two_contexts() {
    let bench = bench(Service::Rc);
    let other = library().open_device("fake0").unwrap();
    let queue = other.create_completion_queue(4).unwrap();
    let error = bench.pd.create_queue_pair(Service::Rc, 1, &queue, (2, 2)).unwrap_err();
    assert!(error.to_string().contains("belongs to another context"), "{error}");
}

#[test]
fn handles_are_send_and_sync() {
    fn assert_shared<T: Send + Sync>() {}
    assert_shared::<Bench>();
    assert_shared::<crate::verbs::MemoryRegion>();
    assert_shared::<crate::verbs::AddressHandle>();
}
