//! The campaign `soak`: mixed load on the installed service, in a Debian with systemd. Runs go to the model inside the
//! daemon and to a model behind a worker's unit. The campaign kills clients in mid-run, cancels and deletes runs, sends
//! bytes that are not HTTP, and reloads the service. Memory and descriptors must stay flat. At the end only the state
//! and files within the retention limits may remain.
//!
//! `cargo xtask campaign soak [--seconds N]`. The last line has the counts. The exit code is 0 if every check passed.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use verbatim_lab::campaign::number;
use verbatim_lab::{LAB_PROFILE, ServiceLab, build_packages};

/// Longest time of a command in the machine, on the busiest host.
const LIMIT: Duration = Duration::from_secs(600);
/// Largest number of samples of the daemon's resources.
const LOOKS: u32 = 40;
/// Smallest number of samples. On a busy host a sample takes longer, so there may be fewer than [`LOOKS`].
const LEAST_LOOKS: usize = 8;
/// Allowed growth of memory in MiB between the second and the last quarter of the time, in addition to 10 %. An
/// allocator may cause this growth without a leak.
const GROWS_MIB: f64 = 6.0;
/// Allowed increase of open descriptors from the calm state to the end.
const DESCRIPTORS: u64 = 8;
/// Installs the service, with a device model behind a worker's unit.
const SET_UP: &str = r#"set -e
apt-get install --yes /mnt/share/debs/*.deb >/run/apt.log 2>&1 || { cat /run/apt.log; exit 1; }
usermod --append --groups verbatim alice
systemd-run --quiet --unit model --property User=verbatim --property RuntimeDirectory=model --property Type=exec \
    verbatimd model --listen /run/model/socket
cat >>/etc/verbatim/rigs.toml <<'END'
[[rig]]
name = "model"
kind = "model"
socket = "/run/model/socket"
subnet_timeout = 8
END
place=/etc/systemd/system/verbatim-worker@model.service.d
mkdir -p $place
verbatimd worker-unit model >$place/rig.conf
systemctl daemon-reload
systemctl enable --now verbatim-worker@model.socket
systemctl start verbatimd
"#;
/// The load: five clients that run until /run/soak/stop exists. Each operation adds a line to /run/soak/NAME.
const LOAD: &str = r#"
mkdir -p /run/soak && chmod 0777 /run/soak
cat >/usr/local/bin/someone <<'END'
name=$1
cd /home/alice; export HOME=/home/alice
until [ -e /run/soak/stop ]; do
    case $name in
    inside) verbatim run --rig virtual c14-024-node-info 'c14-024-p*' ;;
    model) verbatim run --rig model c14-024-node-info c14-024-node-type ;;
    killed)
        run=$(verbatim run --detach --rig model 'c14-024-*')
        timeout -s KILL 2 verbatim runs watch "$run"; verbatim runs cancel "$run" ;;
    detached)
        run=$(verbatim run --detach --rig virtual 'c09-*')
        verbatim runs cancel "$run"; verbatim runs watch "$run"; verbatim runs delete "$run" ;;
    asks) verbatim rigs; verbatim runs --json; verbatim tests; verbatim trend virtual
        perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un("/run/verbatim/verbatim.sock"));
            syswrite(S, join("", map { chr rand 256 } 1 .. 4096)); close S' ;;
    esac >/run/soak/$name.last 2>&1
    echo $? >>/run/soak/$name
done
touch /run/soak/$name.ended
END
for name in inside model killed detached asks; do
    setsid setpriv --reuid alice --regid alice --init-groups sh /usr/local/bin/someone $name </dev/null >/dev/null 2>&1 &
done
"#;
/// Prints the daemon's resident KiB, descriptors, threads and restarts.
const LOOK: &str = r#"
pid=$(systemctl show --value --property MainPID verbatimd)
echo "$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' /proc/$pid/status) $(ls /proc/$pid/fd | wc -l) \
$(sed -n 's/^Threads:[^0-9]*//p' /proc/$pid/status) $(systemctl show --value --property NRestarts verbatimd)"
"#;
/// Ends the load, and waits until each client has ended.
const STOP: &str = r#"
touch /run/soak/stop
until [ "$(ls /run/soak/*.ended 2>/dev/null | wc -l)" = 5 ]; do busybox usleep 200000; done
"#;
/// Prints leftover files: files in temporary places, unfinished files of the state, and journals.
const LEFT: &str = r#"
for at in /run/verbatim /run/verbatim-worker /tmp/systemd-private-*-verbatim*/tmp /dev/shm; do
    find $at -mindepth 1 ! -name verbatim.sock ! -path '*/verbatim-[0-9]*' 2>/dev/null
done
find /var/lib/verbatim -name '*.part' -o -name '.tmp*'
find /var/lib/verbatim/journals -name '*.journal.json'
"#;
/// Stores the list of runs; prints the number of run directories, and the KiB of state.
const KEPT: &str = r#"
setpriv --reuid alice --regid alice --init-groups env HOME=/home/alice verbatim runs list --all --json >/run/runs.json
echo "$(find /var/lib/verbatim/runs -mindepth 2 -maxdepth 2 | wc -l) $(du -sk /var/lib/verbatim | cut -f1)"
"#;

/// The daemon's use of resources at one moment.
#[derive(Clone, Copy, Debug)]
struct Takes {
    mib: f64,
    descriptors: u64,
    threads: u64,
    restarts: u64,
}

fn main() -> ExitCode {
    match campaign() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("soak campaign: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn done(lab: &ServiceLab, command: &str) -> anyhow::Result<String> {
    let ran = lab.run(command, LIMIT)?;
    ensure!(
        ran.status == 0,
        "exit {}: {}: {}",
        ran.status,
        command.trim(),
        ran.text()
    );
    Ok(ran.text())
}

fn look(lab: &ServiceLab) -> anyhow::Result<Takes> {
    let text = done(lab, LOOK)?;
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [kib, descriptors, threads, restarts] = numbers[..] else {
        anyhow::bail!("four numbers were expected of the daemon's process, seen {text:?}");
    };
    Ok(Takes {
        mib: kib as f64 / 1024.0,
        descriptors,
        threads,
        restarts,
    })
}

fn campaign() -> anyhow::Result<bool> {
    let seconds = number("--times")?;
    let lab = ServiceLab::start(&build_packages(LAB_PROFILE, None)?)?;
    done(&lab, SET_UP)?;
    let calm = look(&lab)?;
    println!("calm: {calm:?}");
    done(&lab, LOAD)?;
    let begun = Instant::now();
    let whole = Duration::from_secs(seconds);
    let mut seen = Vec::new();
    // On a busy host a sample takes longer. Fewer than [`LEAST_LOOKS`] samples do not show whether memory grows.
    while begun.elapsed() < whole || seen.len() < LEAST_LOOKS {
        thread::sleep(whole / LOOKS);
        let now = look(&lab)?;
        seen.push(now);
        println!("{:>6} s: {now:?}", begun.elapsed().as_secs());
        if seen.len().is_multiple_of(4) {
            // An administrator may reload the service at any time.
            done(&lab, "systemctl reload verbatimd")?;
        }
    }
    done(&lab, STOP)?;
    for state in ["QUEUED", "RUNNING"] {
        let ask = format!(
            "setpriv --reuid alice --regid alice --init-groups env HOME=/home/alice verbatim runs list --all --json --filter \
             state={state}"
        );
        // Wait for the runs whose clients were killed.
        while known(&done(&lab, &ask)?)? > 0 {
            thread::sleep(Duration::from_secs(1));
        }
    }
    let done_by = done(
        &lab,
        "cd /run/soak; wc -l inside model killed detached asks | tr '\\n' ' '",
    )?;
    let failed = done(
        &lab,
        "cd /run/soak; cat inside model | grep -vc '^0$'; tail -n 3 inside.last model.last",
    )?;
    // Every run of the load must have been accepted, and have passed.
    let all_passed = failed.lines().next() == Some("0");
    // The daemon closes the last connections a little later.
    let mut after = look(&lab)?;
    let until = Instant::now() + Duration::from_secs(180);
    while after.descriptors > calm.descriptors + DESCRIPTORS && Instant::now() < until {
        thread::sleep(Duration::from_secs(1));
        after = look(&lab)?;
    }
    println!("afterwards: {after:?}; done: {done_by}; runs that did not pass: {failed}");
    let left = done(&lab, LEFT)?;
    let kept = done(&lab, KEPT)?;
    let known = known(&done(&lab, "cat /run/runs.json")?)?;
    let directories: u64 = kept
        .split_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .context("how many runs have a directory")?;
    let quarter = seen.len() / 4;
    let most = |part: &[Takes]| part.iter().map(|takes| takes.mib).fold(0.0, f64::max);
    let (early, late) = (most(&seen[quarter..2 * quarter]), most(&seen[3 * quarter..]));
    let grew = late > early * 1.1 + GROWS_MIB;
    let open = after.descriptors > calm.descriptors + DESCRIPTORS;
    let restarts = after.restarts;
    println!(
        "left in temporary places: {:?}; runs known {known}, directories {directories}; state {kept}",
        left.trim()
    );
    let sound = all_passed && !grew && !open && restarts == 0 && left.trim().is_empty() && directories <= known;
    println!(
        "soak: {} s; memory at most {early:.1} MiB in the second quarter, {late:.1} in the last; descriptors {} calm, {} at most, {} \
         afterwards; threads {} at most; {restarts} restarts; {} things left; {}",
        begun.elapsed().as_secs(),
        calm.descriptors,
        seen.iter().map(|takes| takes.descriptors).max().unwrap_or(0),
        after.descriptors,
        seen.iter().map(|takes| takes.threads).max().unwrap_or(0),
        left.lines().count(),
        if sound { "flat" } else { "NOT flat" }
    );
    Ok(sound)
}

/// Returns how many runs the service lists.
fn known(json: &str) -> anyhow::Result<u64> {
    let runs: serde_json::Value = serde_json::from_str(json).context("`verbatim runs --json`")?;
    let count = runs["runs"].as_array().map_or(0, Vec::len);
    Ok(count as u64)
}
