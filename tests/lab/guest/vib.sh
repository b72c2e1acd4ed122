# The native set-up: vib0, an InfiniBand adapter of our own module, each port cabled to a device model outside.
#
# In the share: vib.ko, and `ports` with the number of ports. Optional scripts: opensm.cmd (a subnet manager, which must
# bring port 1 to Active), daemon.cmd (must make the socket /run/verbatim.sock) and command.cmd. The file `again` exists
# if the previous machine was killed. The machine powers off after command.cmd, with its exit status. Without
# command.cmd the machine stays up.
. /etc/lab.sh
ports=$(cat /mnt/share/ports)
insmod /mnt/share/vib.ko ports="$ports" || fail "the module vib was refused"
for number in $(seq "$ports"); do
    # Open the port once, because a virtio port cannot be opened twice.
    exec 5<>"$(port cable$number)"
    # The process that reads /dev/vib0p* is the far end of the cable. Opening the device for reading brings the link up.
    cat <&5 >/dev/vib0p$number &
    cat /dev/vib0p$number >&5 &
    exec 5>&-
done
state() { grep -q "$1" "/sys/class/infiniband/vib0/ports/$2/state"; }
up() {
    for number in $(seq "$ports"); do
        state INIT "$number" && [ -e "/dev/infiniband/umad$((number - 1))" ] || return 1
    done
}
started $! "a port of vib0" up

managed() { started $opensm OpenSM state ACTIVE 1; }
if [ -e /mnt/share/opensm.cmd ]; then
    sh /mnt/share/opensm.cmd &
    opensm=$!
    # A killed run may have left the device locked with an M_Key. Only the daemon can unlock it, so do not wait yet.
    [ -e /mnt/share/again ] || managed
fi
if [ -e /mnt/share/daemon.cmd ]; then
    sh /mnt/share/daemon.cmd &
    daemon=$!
    started $daemon "verbatimd" test -S /run/verbatim.sock
fi
if [ -e /mnt/share/opensm.cmd ]; then
    managed
fi
ready
served
