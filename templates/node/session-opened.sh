#!/bin/sh
# Managed by gpuaas; what is changed here is put back.
# Called by PAM as root when a tenant's session opens. Who is not confined does not get in, nor who
# comes by a key that was taken away a moment ago; by which key the others came is kept, so that
# they end with it.
set -euf
PATH=/usr/sbin:/usr/bin:/sbin:/bin
umask 077
case ${XDG_SESSION_ID:-} in
'' | *[!A-Za-z0-9]*) exit 1 ;;
esac
# Where what keeps neighbours apart is not in force, nobody gets in.
nft list chain inet gpuaas out > /dev/null
grep -q "^0::/user\.slice/user-$(id -u "$PAM_USER")\.slice/" /proc/self/cgroup
# A host has so many sessions for all of its people: one account does not take them. What is left
# of those that are over, because something of theirs still runs, counts as well.
# shellcheck disable=SC2046  # the words are the numbers of sessions
set -- $(sed -n 's/^SESSIONS=//p' "/run/systemd/users/$(id -u "$PAM_USER")" || true)
test $# -le 256
mkdir -p /run/gpuaas/sessions
# Of sessions that are over nothing is kept: /run has room for so many files only.
for over in $(ls /run/gpuaas/sessions); do
  test -e "/run/systemd/sessions/$over" || rm -f "/run/gpuaas/sessions/$over"
done
printf '%s' "${SSH_AUTH_INFO_0:-}" > "/run/gpuaas/sessions/$XDG_SESSION_ID"
# shellcheck disable=SC2086  # the words are the method, the type and the key
set -- ${SSH_AUTH_INFO_0:-}
test "${1:-}" = publickey
grep -qF -e " ${3:?}" "/etc/gpuaas/ssh/$PAM_USER"
