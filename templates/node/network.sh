#!/bin/sh
# Managed by gpuaas; what is changed here is put back.
# Loads what tenants may reach, whole or not at all. What the kernel then says of it is kept, so
# that it shows when somebody changes it there, and when a file has changed since.
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
export PATH LC_ALL
umask 077
digest() {
  sha256sum | cut -d ' ' -f 1
}
# Of the host's own sshd: what its files say, what systemd listens on for it, and what root's sshd
# listens on just now, whoever started it. Where its files cannot be read yet it is the usual one.
ports() {
  by=user=root,host=localhost,addr=127.0.0.1,laddr=127.0.0.1,lport=22
  sshd -T -C "$by" 2> /dev/null | sed -n -e 's/^port //p' -e 's/^listenaddress .*:\([0-9]*\).*/\1/p' \
    | grep . || echo 22
  systemctl show ssh.socket sshd.socket --property=Listen 2> /dev/null \
    | sed -n 's/^Listen=\(.*:\)\{0,1\}\([0-9][0-9]*\) (Stream)$/\2/p'
  ss -Hltnpe 2> /dev/null | grep '(("sshd",' | grep -v ' uid:[1-9]' \
    | awk '{ sub(/.*:/, "", $4); print $4 }'
}

mkdir -p /run/gpuaas
exec 9> /run/gpuaas/network.lock
flock 9
rules=$(digest < /etc/gpuaas/network.nft)
files=$(find /etc/gpuaas/network.nft /etc/gpuaas/loopback -name '[!.]*.nft' | sort | xargs cat | digest)
# Without this folder, which its unit makes later in a boot, sshd reads none of its files.
[ -d /run/sshd ] || mkdir -m 0755 /run/sshd
nft -f - << RULES
include "/etc/gpuaas/network.nft"
add element inet gpuaas sshd { $(ports | grep -x '[0-9][0-9]*' | sort -nu | paste -s -d ,) }
RULES
echo "$rules $files $(nft list table inet gpuaas | digest)" > /run/gpuaas/network.new
mv /run/gpuaas/network.new /run/gpuaas/network
