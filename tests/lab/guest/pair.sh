# The verbs set-up: rxe0, the device under test, and rxe1, the tester's adapter, on a veth pair.
#
# Optional scripts in the share: agent.cmd (must make the socket /run/agent.sock), daemon.cmd (must make the socket
# /run/verbatim.sock) and command.cmd. The machine powers off after command.cmd, with its exit status. Without
# command.cmd the machine stays up.
. /etc/lab.sh
ip link add veth0 address 52:54:00:00:00:01 type veth peer name veth1 address 52:54:00:00:00:0a || fail "no veth pair"
# Both ends are in one kernel. For IPv4, let the kernel accept packets from its own addresses. For IPv6, the kernel
# would deliver packets to its own addresses locally, so skip the local table for packets that must leave by an
# interface.
for name in all veth0 veth1; do
    echo 1 >/proc/sys/net/ipv4/conf/$name/accept_local
    echo 0 >/proc/sys/net/ipv4/conf/$name/rp_filter
done
for name in veth0 veth1; do ip -6 rule add pref 100 iif lo oif $name lookup main; done
ip -6 rule add pref 200 lookup local
ip -6 rule del pref 0
up veth0 10.0.0.1/24 fd00::1/64
up veth1 10.0.0.2/24 fd00::2/64
settled veth0 veth1
for n in 0 1; do rdma link add rxe$n type rxe netdev veth$n || fail "no rxe$n"; done

if [ -e /mnt/share/agent.cmd ]; then
    sh /mnt/share/agent.cmd &
    started $! "the agent" test -S /run/agent.sock
fi
if [ -e /mnt/share/daemon.cmd ]; then
    sh /mnt/share/daemon.cmd &
    daemon=$!
    started $daemon "verbatimd" test -S /run/verbatim.sock
fi
ready
served
