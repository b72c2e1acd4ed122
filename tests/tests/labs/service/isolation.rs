//! Checks which files and sockets a compromised worker in its rig's unit can reach.

use verbatim_lab::ServiceLab;

use crate::service::done;

/// A program that replaces the worker of the rig `vib`, and tries the accesses that an attacker would try. Its
/// arguments are the daemon's process id, and a file of another rig's run.
const PROBE: &str = r#"#!/usr/bin/perl
use Socket;
my ($daemon, $record) = @ARGV;
sub say_of { printf "probe %s: %s\n", $_[0], $_[1] ? "reached" : "refused ($!)"; }
sub file { my ($path, $mode) = @_; say_of("file $path", open(my $f, $mode, $path)); }
sub list { my ($path) = @_; opendir(my $d, $path) or return print "probe list $path: refused ($!)\n";
    printf "probe list %s: %s\n", $path, join(" ", sort grep { !/^\.\.?$/ } readdir $d); }
sub unix { my ($path, $type) = @_; socket(my $s, AF_UNIX, $type, 0) or return say_of("socket $path", 0);
    say_of("socket $path", connect($s, pack_sockaddr_un($path))); }
file("/dev/infiniband/umad0", "+<");
file("/dev/infiniband/umad1", "+<");
file($_, "+<") for glob("/dev/infiniband/uverbs* /dev/infiniband/issm*");
file("/dev/sda", "<"); file("/dev/mem", "<"); file("/dev/hvc0", "+<");
list("/var/lib/verbatim"); list("/var/lib/verbatim/journals"); list("/var/lib/verbatim/runs"); list("/run");
file("/var/lib/verbatim/journals/vib/probe", ">"); unlink "/var/lib/verbatim/journals/vib/probe";
file("/var/lib/verbatim/journals/vib2/vib2.lock", "<");
file("/proc/$daemon/root/var/lib/verbatim/journals/vib2/vib2.lock", "<");
list("/run/verbatim-locks");
file("/run/verbatim-locks/vib/probe", ">"); unlink "/run/verbatim-locks/vib/probe";
file("/run/verbatim-locks/vib2/probe", ">"); file("/run/verbatim-locks/probe", ">");
say_of("rename of a lock", rename("/run/verbatim-locks/vib2", "/run/verbatim-locks/vib/other"));
file("/var/lib/verbatim/runs/vib/probe", ">"); unlink "/var/lib/verbatim/runs/vib/probe";
file("$_$record", "<") for ("", "/proc/$daemon/root"); file("/var/lib/verbatim/verbatim.db", "<");
file("/proc/$daemon/mem", "<"); file("/proc/$daemon/environ", "<"); file("/proc/1/root/etc/hostname", "<");
unix($_, SOCK_STREAM) for ("/run/verbatim/verbatim.sock", "/run/verbatim-workers/vib2.sock", "/run/verbatim-workers/rxe.sock",
    "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/io.system.ManagedOOM", "/run/udev/control");
unix($_, SOCK_DGRAM) for ("/run/systemd/notify", "/run/systemd/journal/socket", "/run/systemd/journal/dev-log", "/dev/log");
say_of("socket tcp", socket(my $tcp, AF_INET, SOCK_STREAM, 0));
say_of("socket raw", socket(my $raw, 17, SOCK_RAW, 0));
say_of("socket netlink", socket(my $netlink, 16, SOCK_RAW, 0));
file("/etc/probe", ">"); file("/usr/bin/probe", ">"); file("/root/pki/ca-key.pem", "<"); file("/etc/verbatim/pki/server-key.pem", "<"); file("/home/alice/.profile", "<");
print "probe ended\n";
"#;

/// The accesses that the worker of `vib` needs.
const OWN: [&str; 4] = [
    "probe file /dev/infiniband/umad0: reached",
    "probe file /var/lib/verbatim/journals/vib/probe: reached",
    "probe file /var/lib/verbatim/runs/vib/probe: reached",
    "probe file /run/verbatim-locks/vib/probe: reached",
];

pub(crate) fn a_worker_reaches_its_own_rig_alone(lab: &ServiceLab) {
    done(
        lab,
        &format!("cat >/usr/local/bin/probe <<'END'\n{PROBE}END\nchmod 0755 /usr/local/bin/probe"),
    );
    done(
        lab,
        "test -e /var/lib/verbatim/journals/vib2/vib2.lock || ls -R /var/lib/verbatim/journals",
    );
    let record = done(lab, "ls /var/lib/verbatim/runs/rxe/*/record/manifest.json | head -n 1");
    let record = record.trim();
    assert!(!record.is_empty(), "another rig's run has left no record");
    // Replace the unit's program, and keep all other settings.
    done(
        lab,
        &format!(
            "record={record} && place=/run/systemd/system/verbatim-worker@vib.service.d && mkdir -p $place && \
         daemon=$(systemctl show --value --property MainPID verbatimd.service) && \
         printf '[Service]\\nExecStart=\\nExecStart=/usr/local/bin/probe %s %s\\n' $daemon $record >$place/zz-probe.conf && \
         systemctl daemon-reload && systemctl start --wait verbatim-worker@vib.service; \
         rm -r $place && systemctl daemon-reload"
        ),
    );
    let said = done(
        lab,
        "until journalctl --no-pager --output cat --unit verbatim-worker@vib.service | grep '^probe'; do :; done; \
         journalctl --sync; journalctl --no-pager --output cat --unit verbatim-worker@vib.service | grep '^probe'",
    );
    assert!(said.contains("probe ended"), "{said}");
    for own in OWN {
        assert!(said.contains(own), "{own}: {said}");
    }
    let reached = said.lines().filter(|line| line.ends_with(": reached"));
    let others: Vec<&str> = reached.filter(|line| !OWN.contains(line)).collect();
    assert!(others.is_empty(), "a worker of vib reaches {others:?}: {said}");
    for list in [
        "probe list /var/lib/verbatim: journals runs",
        "probe list /var/lib/verbatim/journals: vib",
        "probe list /var/lib/verbatim/runs: vib",
        "probe list /run/verbatim-locks: rxe vib vib2",
    ] {
        assert!(said.lines().any(|line| line == list), "{list}: {said}");
    }
}
