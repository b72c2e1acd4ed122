# The hardware of a lab's host, in Debian: vib0 with two ports, each cabled to a device model outside, and rxe0 on
# veth0. The tester's end of rxe0's cable is veth1.
. /etc/lab.sh
fail() { say "failed: $*"; echo "$*"; exit 1; }
busybox insmod /mnt/share/vib.ko ports=2 || fail "the module vib was refused"
for number in 1 2; do
    # Open the port once, because a virtio port cannot be opened twice. `setsid` detaches the `cat` processes from the
    # shell.
    exec 5<>"$(port cable$number)"
    setsid cat <&5 >/dev/vib0p$number 2>/dev/null &
    setsid cat /dev/vib0p$number >&5 2>/dev/null &
    exec 5>&-
done
ip link add veth0 address 52:54:00:00:00:01 type veth peer name veth1 || fail "no veth pair"
# The tester owns veth1: the tester makes its own frames and responds to ARP for 10.0.0.2.
echo 1 >/proc/sys/net/ipv6/conf/veth1/disable_ipv6
ip link set veth1 up
up veth0 10.0.0.1/24
rdma link add rxe0 type rxe netdev veth0 || fail "no rxe0"
tries=0
until grep -q INIT /sys/class/infiniband/vib0/ports/1/state && grep -q INIT /sys/class/infiniband/vib0/ports/2/state &&
    [ -e /dev/infiniband/umad1 ] && [ -e /dev/infiniband/uverbs0 ]; do
    tries=$((tries + 1))
    [ $tries -gt 600 ] && fail "no ports: $(ls /dev/infiniband /sys/class/infiniband/ 2>&1 | tr '\n' ' ')"
    busybox usleep 100000
done
