# The device under test: rxe0 on the data interface, and the agent behind the management interface.
#
# Optional script in the share: agent.cmd. Its process is the agent, which must listen on 10.0.2.15:7000.
. /etc/lab.sh
data=$(interface 52:54:00:00:00:01)
management=$(interface 52:54:00:00:00:02)
if [ -n "$management" ]; then up "$management" 10.0.2.15/24; fi
[ -n "$data" ] || fail "no data interface: the machine was booted without one"
up "$data" 10.0.0.1/24 fd00::1/64
settled "$data" $management
rdma link add rxe0 type rxe netdev "$data" || fail "no rxe0 on $data"
if [ -e /mnt/share/agent.cmd ]; then
    sh /mnt/share/agent.cmd &
    agent=$!
    echo $agent >/run/agent.pid
    started $agent "the agent" listens 1B58
fi
ready
if [ -n "$agent" ]; then
    wait "$agent"
    say "the agent ended, status $?"
fi
# Stay up until the host ends the machine, so that the tester can examine the state after the agent's end.
while :; do sleep 3600; done
