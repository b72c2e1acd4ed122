//! One attempt to boot a machine.

use std::{
    ffi::OsString,
    fs::OpenOptions,
    io::{Read as _, Seek as _, SeekFrom},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        net::UnixStream,
        process::CommandExt as _,
    },
    path::Path,
    process::{Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::machine::{
    BootOptions, DATA_MAC, DataSockets, Image, MANAGEMENT_MAC, MachineError,
    accelerator::{Accelerator, accelerator},
    error::{io_error, path_error},
    host,
    options::{DataNic, is_mountable},
    place::{PATH_LIMIT, Place},
    port::{Listener, Port, PortError},
};
use crate::process::Process;

/// Number of bytes of a console log that an error quotes.
const TAIL: u64 = 2000;
/// Maximum number of ports on a virtio-serial device. QEMU sends the guest three control messages for each port.
/// QEMU queues at most 32 unread messages, and drops further messages. A port with a dropped message never
/// connects.
const PORTS_PER_BUS: usize = 10;

/// The result of a boot.
#[derive(Debug)]
pub(crate) struct Booted {
    pub(crate) process: Process,
    pub(crate) place: Place,
    pub(crate) events: Mutex<Port>,
    pub(crate) shell: Mutex<Port>,
    pub(crate) output: Option<(UnixStream, UnixStream)>,
    pub(crate) data: Option<DataSockets>,
    pub(crate) agent: Option<SocketAddr>,
    pub(crate) took: Duration,
}

/// The error of an attempt, and whether another attempt may succeed.
pub(crate) struct Failure {
    pub(crate) error: MachineError,
    pub(crate) again: bool,
}

impl From<MachineError> for Failure {
    fn from(error: MachineError) -> Self {
        Failure { error, again: false }
    }
}

pub(crate) fn boot(image: &Image, options: &BootOptions) -> Result<Booted, Failure> {
    let start = Instant::now();
    let deadline = start + options.limit;
    let place = Place::new("vm")?;
    let data = match &options.data {
        DataNic::Absent => None,
        DataNic::At(sockets) => Some(sockets.clone()),
        DataNic::Private => Some(DataSockets {
            machine: place.path().join("machine"),
            tester: place.path().join("tester"),
        }),
    };
    if let Some(sockets) = &data {
        for path in [&sockets.machine, &sockets.tester] {
            check_socket(path)?;
        }
    }
    for path in &options.cables {
        check_socket(path)?;
    }
    let names: &[&str] = if options.output {
        &["events", "shell", "out", "err"]
    } else {
        &["events", "shell"]
    };
    let mut listeners = Vec::new();
    for name in names {
        let path = place.path().join(name);
        listeners.push(Listener::new(&path).map_err(path_error("making", &path))?);
    }
    let agent = options.agent_port.then(free_port).transpose()?;
    let arguments = arguments(image, options, place.path(), names, data.as_ref(), agent)?;
    let log = OpenOptions::new().create(true).append(true).open(&options.console);
    let log = log.map_err(path_error("opening", &options.console))?;
    let qemu = host::needed("qemu-system-x86_64")?;
    let prepare = |command: &mut Command| {
        command
            .args(arguments)
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            // Keep Ctrl-C away from QEMU: the lab's command on the host may still need the running machine to restore
            // the device.
            .process_group(0);
    };
    let process = Process::start(prepare, &qemu).map_err(io_error("starting QEMU"))?;

    let failure = |error: PortError| {
        let what = match error {
            PortError::Ended => "ended before it was ready".to_owned(),
            PortError::TooLate => format!("was not ready within {:?}", options.limit),
            PortError::Io(error) => format!("did not answer the lab: {error}"),
        };
        Failure {
            error: not_ready(what, &options.console),
            again: true,
        }
    };
    let mut streams = Vec::new();
    for listener in &listeners {
        streams.push(listener.accept(&process, deadline).map_err(failure)?);
    }
    let mut streams = streams.into_iter();
    let mut next = || streams.next().expect("one stream for each name");
    let (mut events, shell) = (Port::new(next()), Port::new(next()));
    let output = options.output.then(|| (next(), next()));
    let line = events.read_line(deadline).map_err(failure)?;
    if line != "ready" {
        // The script itself reported the failure. A second attempt would fail in the same way.
        return Err(not_ready(format!("did not come up: its script says \"{line}\""), &options.console).into());
    }
    Ok(Booted {
        process,
        place,
        events: Mutex::new(events),
        shell: Mutex::new(shell),
        output,
        data,
        agent,
        took: start.elapsed(),
    })
}

fn not_ready(what: String, console: &Path) -> MachineError {
    MachineError::NotReady {
        what,
        console: console.to_path_buf(),
        tail: tail(console),
    }
}

/// Returns the end of a console's log as text.
pub(crate) fn tail(console: &Path) -> String {
    let read = || {
        let mut file = std::fs::File::open(console)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    match read() {
        Ok(bytes) => String::from_utf8_lossy(&bytes).replace('\r', ""),
        Err(error) => format!("({error})"),
    }
}

fn check_socket(path: &Path) -> Result<(), MachineError> {
    let length = path.as_os_str().len();
    if length < PATH_LIMIT {
        return Ok(());
    }
    Err(MachineError::File {
        path: path.to_path_buf(),
        what: format!(
            "a socket's path must be shorter than {PATH_LIMIT} bytes; it has {length}: use a shorter directory"
        ),
    })
}

/// Returns a TCP port of 127.0.0.1 that is free now. If another process takes the port before QEMU does, the boot fails
/// and is repeated.
fn free_port() -> Result<SocketAddr, MachineError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io_error("looking for a free TCP port"))?;
    listener.local_addr().map_err(io_error("looking for a free TCP port"))
}

/// Returns QEMU's command line.
fn arguments(
    image: &Image,
    options: &BootOptions,
    place: &Path,
    ports: &[&str],
    data: Option<&DataSockets>,
    agent: Option<SocketAddr>,
) -> Result<Vec<OsString>, MachineError> {
    if options.script.contains(char::is_whitespace) || !options.share.join(&options.script).is_file() {
        return Err(MachineError::File {
            path: options.share.join(&options.script),
            what: "expected a script here, with a name without white space".to_owned(),
        });
    }
    let accelerator = if options.counted_time {
        Accelerator::Tcg
    } else {
        accelerator(image)?
    };
    // Under emulation the time-stamp counter can run at a wrong rate, so Linux uses another clock.
    let clock = match accelerator {
        Accelerator::Kvm => "",
        Accelerator::Tcg => " clocksource=hpet tsc=unstable",
    };
    // On a busy host the emulated timer's first interrupts can be so late that Linux considers the timer disconnected
    // and hangs. `no_timer_check` prevents this.
    // `loglevel=5` prints warnings too: each WARN of the kernel must show on the console.
    let mut line = format!(
        "console=ttyS0 loglevel=5 panic=-1 mitigations=off nokaslr{clock} no_timer_check machine.script={}",
        options.script
    );
    if let Some(directory) = &options.directory {
        if !is_mountable(directory) {
            return Err(MachineError::File {
                path: directory.clone(),
                what: "it cannot be mounted in the machine at the same path: it would hide the machine's own \
                       directories, or its path has white space; use another directory"
                    .to_owned(),
            });
        }
        line.push_str(" machine.directory=");
        line.push_str(&directory.to_string_lossy());
    }
    if !image.append().is_empty() {
        line = format!("{line} {}", image.append());
    }
    let mut all: Vec<OsString> = Vec::new();
    let mut add = |words: &[&str]| all.extend(words.iter().map(OsString::from));
    add(&["-machine", "q35", "-cpu", "max", "-accel"]);
    let cpus = if options.counted_time { 1 } else { options.cpus };
    match accelerator {
        _ if options.counted_time => add(&["tcg,thread=single", "-icount", "shift=1,sleep=off"]),
        Accelerator::Kvm => add(&["kvm"]),
        Accelerator::Tcg => add(&["tcg,thread=multi"]),
    }
    add(&["-smp", &cpus.to_string(), "-m", &options.memory.to_string()]);
    add(&["-nodefaults", "-no-user-config", "-display", "none"]);
    if !options.reboots {
        add(&["-no-reboot"]);
    }
    add(&["-append", &line]);
    let mut pair = |name: &str, value: OsString| all.extend([OsString::from(name), value]);
    pair("-kernel", image.vmlinux().into());
    pair("-initrd", image.initramfs().into());
    let console = with_path("file,id=console,append=on,path=", &options.console);
    pair("-chardev", console);
    pair("-serial", "chardev:console".into());
    let ports = ports.iter().map(|&name| (name.to_owned(), place.join(name)));
    let cables = (1..).zip(&options.cables);
    let cables = cables.map(|(number, socket)| (format!("cable{number}"), socket.clone()));
    for (place, (name, socket)) in ports.chain(cables).enumerate() {
        let bus = place / PORTS_PER_BUS;
        if place % PORTS_PER_BUS == 0 {
            pair("-device", format!("virtio-serial-pci,id=serial{bus}").into());
        }
        let end = with_path(&format!("socket,id={name},path="), &socket);
        pair("-chardev", end);
        pair(
            "-device",
            format!("virtserialport,bus=serial{bus}.0,chardev={name},name={name}").into(),
        );
    }
    for (tag, path) in [
        ("share", Some(&options.share)),
        ("directory", options.directory.as_ref()),
    ] {
        let Some(path) = path else { continue };
        let device = with_path(
            &format!("local,id={tag},security_model=none,multidevs=remap,path="),
            path,
        );
        pair("-fsdev", device);
        pair("-device", format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}").into());
    }
    if let Some(data) = data {
        let mut cable = with_path("dgram,id=data,local.type=unix,local.path=", &data.machine);
        cable.push(with_path(",remote.type=unix,remote.path=", &data.tester));
        pair("-netdev", cable);
        pair("-device", format!("virtio-net-pci,netdev=data,mac={DATA_MAC}").into());
        if let Some(capture) = &options.capture {
            let dump = with_path("filter-dump,id=capture,netdev=data,file=", capture);
            pair("-object", dump);
        }
    }
    if let Some(agent) = agent {
        let forward = format!("user,id=management,restrict=on,ipv6=off,hostfwd=tcp:{agent}-10.0.2.15:7000");
        pair("-netdev", forward.into());
        pair(
            "-device",
            format!("virtio-net-pci,netdev=management,mac={MANAGEMENT_MAC}").into(),
        );
    }
    Ok(all)
}

/// Returns an option that contains a path. Commas in the path are doubled, as QEMU requires.
fn with_path(before: &str, path: &Path) -> OsString {
    let mut bytes = before.as_bytes().to_vec();
    for &byte in path.as_os_str().as_bytes() {
        bytes.extend(std::iter::repeat_n(byte, if byte == b',' { 2 } else { 1 }));
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_a_path_is_doubled() {
        assert_eq!(with_path("path=", Path::new("/a,b")), "path=/a,,b");
    }

    #[test]
    fn rejects_long_socket_path() {
        let long = std::path::PathBuf::from(format!("/tmp/{}", "x".repeat(103)));
        let error = check_socket(&long).unwrap_err().to_string();
        assert!(
            error.contains("108") && error.contains("use a shorter directory"),
            "{error}"
        );
        check_socket(Path::new("/tmp/short")).unwrap();
    }
}
