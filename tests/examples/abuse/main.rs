//! The campaign `abuse`: attacks a daemon with all its listeners open, one attack after the other. Meanwhile a
//! well-behaved client, the friend, lists the rigs. The daemon must not crash or hang. It must refuse every
//! unauthorized request, stay within its memory limit, and release the resources of each attack.
//!
//! `cargo xtask campaign abuse [--seconds N] [--requests N] [--seed S]`. The last line has the counts. The exit code is
//! 0 if the daemon passed.

mod bytes;
mod calls;
mod friend;
mod house;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use friend::Friend;
use house::{House, settled, takes};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;
use tokio::time::Instant;
use verbatim_lab::campaign::{argument, number};

/// Limit of the daemon's resident memory in MiB, during and after each attack.
const MEMORY_MIB: u64 = 200;
/// Time within which the daemon must release an attack's resources. The daemon probes a silent connection after a
/// minute, and drops the connection after another minute.
const SETTLES_WITHIN: Duration = Duration::from_secs(150);
/// Limit of the friend's p99 latency. On a slow machine, the limit is this multiple of the latency before the attack.
const P99: Duration = Duration::from_millis(100);
const SLOWER: u32 = 40;
const ATTACKS: [&str; 16] = [
    "certificates",
    "not_theirs",
    "forged",
    "noise",
    "frames",
    "endless_headers",
    "messages",
    "large",
    "slow_readers",
    "slow_writers",
    "single_bytes",
    "costly",
    "captures",
    "pages",
    "together",
    "connections",
];

/// The outcome of an attack.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Came {
    /// Requests sent.
    pub(crate) requests: u64,
    /// Requests that wrongly got access.
    pub(crate) let_in: u64,
}

fn main() -> ExitCode {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().on_thread_start(on_one_processor).build();
    match runtime
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(campaign()))
    {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("abuse campaign: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Keeps a thread of attackers on one processor, so that they do not take the daemon's. The daemon and the friend use
/// all processors.
fn on_one_processor() {
    let this_thread = Pid::from_raw(0);
    let Ok(all) = sched_getaffinity(this_thread) else {
        return;
    };
    let mut one = CpuSet::new();
    let first = (0..CpuSet::count()).find(|number| all.is_set(*number) == Ok(true));
    // Without the limit, the campaign only finds the daemon slower.
    if first.is_some_and(|first| one.set(first).is_ok()) {
        let _ = sched_setaffinity(this_thread, &one);
    }
}

/// Runs the attacks that cost the daemon most at the same time.
async fn together(house: &Arc<House>, seed: u64, until: Instant) -> anyhow::Result<Came> {
    let (bytes, frames, writers, costly, captures) = tokio::join!(
        bytes::single_bytes(house, until),
        bytes::frames(house, seed, until),
        bytes::slow_writers(house, until),
        calls::costly(house, until),
        calls::captures(house, until),
    );
    let all = [bytes, frames, writers, costly?, captures?];
    Ok(Came {
        requests: all.iter().map(|came| came.requests).sum(),
        let_in: all.iter().map(|came| came.let_in).sum(),
    })
}

async fn campaign() -> anyhow::Result<bool> {
    let seconds = Duration::from_secs(number("--times")?);
    let binaries = PathBuf::from(argument("--binaries").context("--binaries DIR")?);
    let seed = argument("--seed").map_or(Ok(1), |seed| seed.parse())?;
    let requests: u64 = argument("--requests").map_or(Ok(u64::MAX), |requests| requests.parse())?;
    let only = argument("--only");
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;

    let mut house = Arc::new(House::open(&binaries)?);
    let calm = Friend::begin(Arc::clone(&house)).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let calm = calm.end().await?.percentile(99);
    println!("calm: ListRigs p99 {calm:?}");
    let bound = P99.max(calm * SLOWER);
    let (mut total, mut hung, mut leaked, mut slow, mut memory) = (Came::default(), 0, 0, 0, 0);
    let (mut worst, mut attacks) = (Duration::ZERO, 0);
    for attack in ATTACKS
        .into_iter()
        .filter(|attack| only.as_deref().is_none_or(|only| only == *attack))
    {
        let before = takes(house.pid())?;
        let friend = Friend::begin(Arc::clone(&house)).await?;
        let until = Instant::now() + seconds;
        let came = match attack {
            "certificates" => calls::certificates(&house).await?,
            "not_theirs" => calls::not_theirs(&house).await?,
            "forged" => calls::forged(&house).await?,
            "noise" => bytes::noise(&house, seed, until).await,
            "frames" => bytes::frames(&house, seed, until).await,
            "endless_headers" => bytes::endless_headers(&house, seed, until).await,
            // If the user gave a number of requests, the attack lasts until all requests are sent.
            "messages" if requests < u64::MAX => {
                calls::messages(&house, seed, requests, until + Duration::from_secs(7200)).await?
            }
            "messages" => calls::messages(&house, seed, requests, until).await?,
            "large" => calls::large(&house, until).await?,
            "slow_readers" => calls::slow_readers(&house, until).await?,
            "slow_writers" => bytes::slow_writers(&house, until).await,
            "single_bytes" => bytes::single_bytes(&house, until).await,
            "costly" => calls::costly(&house, until).await?,
            "captures" => calls::captures(&house, until).await?,
            "pages" => bytes::pages(&house, seed, until).await,
            "together" => together(&house, seed, until).await?,
            _ => bytes::connections(&house, calls::connections_at_most().min(10_000), until).await,
        };
        let mut heard = friend.end().await?;
        let after = settled(house.pid(), before, SETTLES_WITHIN).await?;
        let p99 = heard.percentile(99);
        println!(
            "{attack}: {} sent, {} let in; ListRigs p99 {p99:?}, {} unanswered{}; at most {} MiB, {} descriptors, {} threads; \
             afterwards at most {} MiB, {} descriptors, {} threads",
            came.requests,
            came.let_in,
            heard.unanswered,
            heard.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default(),
            heard.most.mib,
            heard.most.descriptors,
            heard.most.threads,
            after.mib,
            after.descriptors,
            after.threads,
        );
        attacks += 1;
        total.requests += came.requests;
        total.let_in += came.let_in;
        hung += heard.unanswered;
        leaked += usize::from(after.descriptors > before.descriptors + 8 || after.threads > before.threads + 8);
        slow += usize::from(p99 > bound);
        worst = worst.max(p99);
        memory = memory.max(heard.most.mib).max(after.mib);
    }
    let whole = Arc::get_mut(&mut house).context("somebody still uses the daemon")?;
    let crashed = whole.panics() + usize::from(!whole.is_alive());
    let sound = crashed + hung + leaked + slow == 0 && total.let_in == 0 && memory <= MEMORY_MIB;
    if !sound {
        println!("what is left of it: {}", whole.keep().display());
    }
    println!(
        "abuse: {attacks} attacks (seed {seed}), {} requests, {crashed} crashed, {hung} hung, {leaked} leaked, {slow} too slow, {} let \
         in; ListRigs p99 {worst:?} (calm {calm:?}), memory at most {memory} MiB",
        total.requests, total.let_in
    );
    Ok(sound)
}
