# Functions for the machine's scripts. Descriptor 4 is open to the host, for events.

# say TEXT: prints a line on the console.
say() { echo "machine: $*"; }

# argument NAME: prints the value of "machine.NAME=" on the kernel's command line.
argument() { sed -n "s/.*\<machine\.$1=\([^ ]*\).*/\1/p" /proc/cmdline; }

# port NAME: prints the device of a virtio port by the name that the host gave it. Waits until the port exists and the
# host is connected: a read before that would get an end of file.
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

# serve_shell: runs commands of the host, each a line of hexadecimal. The response is a line "STATUS LENGTH", then the
# command's output.
serve_shell() {
    while read -r line <&3; do
        echo "$line" | xxd -r -p >/run/shell.sh
        sh /run/shell.sh </dev/null >/run/shell.out 2>&1 3>&-
        status=$?
        # Send a copy, because a background process may still print.
        cp /run/shell.out /run/shell.answer
        echo "$status $(wc -c </run/shell.answer)" >&3
        cat /run/shell.answer >&3
    done
}

# ready: reports to the host that the machine serves.
ready() {
    say "ready at $(cut -d' ' -f1 /proc/uptime) s"
    echo ready >&4
}

# fail TEXT: reports to the host that the machine will not serve, and ends the script.
fail() {
    say "failed: $*"
    echo "failed $*" >&4
    sync
    exit 1
}

# interface MAC: prints the network interface with this MAC address.
interface() {
    for found in /sys/class/net/*; do
        [ "$(cat "$found/address")" = "$1" ] && echo "${found##*/}"
    done
}

# up INTERFACE ADDRESS/LENGTH…: sets the interface up with its link-local address and these addresses. The addresses are
# usable at once.
up() {
    name=$1
    shift
    for setting in accept_dad accept_ra; do echo 0 >"/proc/sys/net/ipv6/conf/$name/$setting"; done
    ip link set "$name" up || fail "interface $name"
    for address; do ip addr add "$address" dev "$name" || fail "address $address on $name"; done
}

# settled INTERFACE…: waits until each interface carries packets. The kernel notices a new carrier up to a second late,
# and drops packets before that. The link-local IPv6 address appears together with the carrier.
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

# started PROCESS WHAT CONDITION…: waits at most 30 s until the condition holds. Fails if the process ends first.
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

# listens PORT: succeeds if a process listens on this TCP port, given as four hexadecimal digits.
listens() { grep -q ":$1 0*:0000 0A " /proc/net/tcp /proc/net/tcp6; }

# served: runs command.cmd of the share and ends with its exit status. Without command.cmd, serves forever. $daemon, if
# set, is the process id of verbatimd.
served() {
    if [ -e /mnt/share/command.cmd ]; then
        sh -c 'echo $$ >/run/command.pid; exec sh /mnt/share/command.cmd' >"$(port out)" 2>"$(port err)" 4>&-
        status=$?
        if [ -n "$daemon" ]; then
            # The daemon stops its runs and restores the device.
            kill -TERM $daemon
            wait $daemon
        fi
        exit $status
    fi
    while :; do sleep 3600; done
}
