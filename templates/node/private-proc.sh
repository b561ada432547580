#!/bin/sh
# Managed by gpuaas; what is changed here is put back.
# Called by pam_namespace inside a tenant's own mount namespace, once a login. The host's /proc
# stays as it is: systemd does not work with a hidden one.
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
umask 022
mount -t proc -o nosuid,nodev,noexec,hidepid=invisible proc /proc
# What everybody may write to, one could fill up or keep busy for all others, and leave things in.
for place in /run/lock /var/crash /var/metrics; do
    if test -d "$place" && ! test -L "$place"; then
        mount --bind "$place" "$place"
        mount -o remount,bind,ro,nosuid,nodev,noexec "$place"
    fi
done
# Before anybody has said who it is, the system's bus keeps everybody waiting: tenants see no door.
if test -d /run/dbus; then
    mount -t tmpfs -o ro,nosuid,nodev,noexec,size=4k,mode=755 gpuaas-none /run/dbus
fi
# Where storage is mounted, with all that is mounted there by now: what a host has in these places
# itself, no tenant sees. What comes and goes later on the host does so here as well.
for top in data datasets mnt workspace; do
    own=/var/lib/gpuaas/instances/$top/$4
    mkdir -p "/$top" "$own"
    mount --rbind "$own" "/$top"
done
