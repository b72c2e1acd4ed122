# Functions for the machine's scripts. They run with descriptor 4 open to the host, for events.

# For people: a line on the console.
say() { echo "machine: $*"; }

# What the kernel's command line says after "machine.$1=".
argument() { sed -n "s/.*\<machine\.$1=\([^ ]*\).*/\1/p" /proc/cmdline; }

# The device of a virtio port, by the name that the host gave it. Ports come up a little after their driver, and their
# other end a little after their name: who reads before that is told that the stream is over.
port() {
    tries=0
    while [ $tries -lt 100 ]; do
        for found in /sys/class/virtio-ports/*; do
            if [ "$(cat "$found/name" 2>/dev/null)" = "$1" ] &&
                grep -q "^host_connected: 1" "/sys/kernel/debug/virtio-ports/${found##*/}"; then
                echo "/dev/${found##*/}"
                return
            fi
        done
        tries=$((tries + 1))
        sleep 0.05
    done
    say "no port $1" >&2
}

# Commands of the host, each one line of hexadecimal; the answer is "STATUS LENGTH", then what it printed.
serve_shell() {
    while read -r line <&3; do
        echo "$line" | xxd -r -p >/run/shell.sh
        sh /run/shell.sh </dev/null >/run/shell.out 2>&1 3>&-
        status=$?
        # A copy, for what goes on in the background may print more.
        cp /run/shell.out /run/shell.answer
        echo "$status $(wc -c </run/shell.answer)" >&3
        cat /run/shell.answer >&3
    done
}

# Tells the host that the machine serves.
ready() {
    say "ready at $(cut -d' ' -f1 /proc/uptime) s"
    echo ready >&4
}

# Tells the host that it never will, and ends.
fail() {
    say "failed: $*"
    echo "failed $*" >&4
    sync
    exit 1
}

# The network interface with a MAC address.
interface() {
    for found in /sys/class/net/*; do
        [ "$(cat "$found/address")" = "$1" ] && echo "${found##*/}"
    done
}

# up INTERFACE ADDRESS/LENGTH…: these addresses, which count at once, and no others but the link's own.
up() {
    name=$1
    shift
    for setting in accept_dad accept_ra; do echo 0 >"/proc/sys/net/ipv6/conf/$name/$setting"; done
    ip link set "$name" up || fail "interface $name"
    for address; do ip addr add "$address" dev "$name" || fail "address $address on $name"; done
}

# settled INTERFACE…: waits until each carries packets. The kernel looks at a new carrier up to a second late, and drops
# what is sent before; the link's own IPv6 address comes with it.
settled() {
    for name; do
        tries=0
        until ip -6 address show dev "$name" scope link | grep -q fe80; do
            tries=$((tries + 1))
            [ $tries -gt 200 ] && fail "interface $name has no carrier"
            sleep 0.05
        done
    done
}

# started PROCESS WHAT CONDITION…: waits, 30 s at most, until the condition holds; fails when the process ends before.
started() {
    process=$1 what=$2
    shift 2
    tries=0
    until "$@"; do
        kill -0 "$process" 2>/dev/null || fail "$what ended before it was ready"
        tries=$((tries + 1))
        [ $tries -gt 300 ] && fail "$what was not ready within 30 s"
        sleep 0.1
    done
}

# Whether something listens on a TCP port, given as four hexadecimal digits.
listens() { grep -q ":$1 0*:0000 0A " /proc/net/tcp /proc/net/tcp6; }

# Runs command.cmd of the share, if there is one, and ends with its exit status; without it, serves for ever. $daemon, if
# it is set, is verbatimd's process.
served() {
    if [ -e /mnt/share/command.cmd ]; then
        sh -c 'echo $$ >/run/command.pid; exec sh /mnt/share/command.cmd' >"$(port out)" 2>"$(port err)" 4>&-
        status=$?
        if [ -n "$daemon" ]; then
            # It stops what runs, and restores the device.
            kill -TERM $daemon
            wait $daemon
        fi
        exit $status
    fi
    while :; do sleep 3600; done
}
