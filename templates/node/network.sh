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

mkdir -p /run/gpuaas
exec 9> /run/gpuaas/network.lock
flock 9
rules=$(digest < /etc/gpuaas/network.nft)
files=$(find /etc/gpuaas/network.nft /etc/gpuaas/loopback -name '[!.]*.nft' | sort | xargs cat | digest)
nft -f /etc/gpuaas/network.nft
echo "$rules $files $(nft list table inet gpuaas | digest)" > /run/gpuaas/network.new
mv /run/gpuaas/network.new /run/gpuaas/network
