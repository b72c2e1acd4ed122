//! Several watchers of a run.

use verbatim_proto::v1::CancelRunRequest;

use super::harness::{Bench, LONG_TEST, WAITS_AT, request, within};

#[tokio::test]
async fn leaving_watcher_disturbs_no_other() {
    let mut bench = Bench::new();
    bench.start_model();
    let _daemon = bench.serve();
    let mut one = bench.clients().await;
    let mut other = bench.clients().await;
    let run = one.create(request("model", &[LONG_TEST, "c14-024-node-info"])).await;
    let mut stays = one.watch(&run.name, 0).await;
    let mut leaves = other.watch(&run.name, 0).await;
    leaves.reaches(WAITS_AT).await;
    stays.reaches(WAITS_AT).await;
    drop((leaves, other));
    assert_eq!(one.rig("rigs/model").await.current_run, run.name, "the run goes on");
    let cancel = CancelRunRequest { name: run.name.clone() };
    within(one.runs.cancel_run(cancel)).await.unwrap();
    let rest = stays.rest().await;
    // Another client that starts at the same cursor receives the same events.
    let mut comes_back = bench.clients().await;
    let first = rest.first().unwrap().cursor;
    assert_eq!(comes_back.watch(&run.name, first - 1).await.rest().await, rest);
}
