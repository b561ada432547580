#!/bin/sh
# Managed by gpuaas; what is changed here is put back.
# Called by pam_namespace inside a tenant's own mount namespace, once a login. The host's /proc
# stays as it is: systemd does not work with a hidden one.
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc -o nosuid,nodev,noexec,hidepid=invisible proc /proc
