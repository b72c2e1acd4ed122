# The lab's service in a Debian with systemd. The script uses Debian's programs, and busybox only by name.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
cd /root
. /etc/lab.sh
xxd() { busybox xxd "$@"; }
[ -d /sys/kernel/debug/virtio-ports ] || mount -t debugfs debug /sys/kernel/debug
management=$(interface 52:54:00:00:00:02)
if [ -n "$management" ]; then up "$management" 10.0.2.15/24; fi
useradd --create-home alice
useradd --create-home bob

shell=$(port shell)
serve_shell 3<>"$shell" &
exec 4>"$(port events)"

if [ -e /mnt/share/command.cmd ]; then
    # Install and configure the services as an administrator would.
    dpkg --install /mnt/share/debs/*.deb >/run/dpkg.out 2>&1 || fail "dpkg: $(tail -n 3 /run/dpkg.out | tr '\n' ' ')"
    usermod --append --groups verbatim alice
    systemctl start verbatimd.service || fail "verbatimd: $(systemctl status verbatimd.service | tr '\n' ' ')"
    ready
    # Run the command as an ordinary user of the group, with the host's ports as its output.
    setpriv --reuid alice --regid alice --init-groups --inh-caps=-all \
        sh -c 'echo $$ >/tmp/command.pid; export HOME=/home/alice; cd; exec sh /mnt/share/command.cmd' \
        >"$(port out)" 2>"$(port err)" 4>&- </dev/null
    status=$?
    systemctl stop verbatimd.socket verbatimd.service
    echo "exit $status" >&4
    sync
    systemctl poweroff --force --force
fi
ready
while :; do sleep 3600; done
