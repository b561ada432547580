#!/bin/sh
# Managed by gpuaas; what is changed here is put back.
# Runtimes of this allocation, by what its descriptor names and never by what a host has as default.
set -eu
root=/opt/gpuaas/runtimes
usage() {
    cat <<END
Runtimes that the platform has put here for this allocation. What you install yourself is yours.

  gpuaas-runtime list                    what this allocation has, and whether it is ready
  gpuaas-runtime current                 the one that is used where none is named
  eval "\$(gpuaas-runtime use NAME)"      into this shell; \`deactivate\` takes it out again
  gpuaas-runtime run NAME -- COMMAND     one command in it

NAME is a bundle, or BUNDLE@VERSION.
END
}
die() {
    echo "gpuaas-runtime: $1" >&2
    exit "${2:-1}"
}
allocation=${GPUAAS_ALLOCATION_ID:-}
case $allocation in
'') die "this is no session of an allocation" ;;
*[!a-z2-7]*) die "GPUAAS_ALLOCATION_ID is no allocation" ;;
esac
descriptor=/etc/gpuaas/runtime/allocations/$allocation.env
[ -r "$descriptor" ] || die "$descriptor is not there"
value() { sed -n "s/^$1=//p" "$descriptor"; }
runtimes=$(value GPUAAS_RUNTIMES | tr , ' ')
chosen=$(value GPUAAS_RUNTIME)
has() {
    for one in $runtimes; do
        case $one in "$1" | "$1"@*)
            echo "$one"
            return 0
            ;;
        esac
    done
    return 1
}
place() { echo "$root/${1%%@*}/${1#*@}"; }
ready() { [ -r "$(place "$1")/activate.sh" ]; }
find() {
    found=$(has "$1") || die "this allocation has no runtime $1; it has: ${runtimes:-none}"
    ready "$found" || die "$found is not here yet: the host is preparing it, or has failed to"
    echo "$found"
}
case ${1:-} in
list)
    for one in $runtimes; do
        state=ready
        ready "$one" || state="not here yet"
        [ "$one" = "$chosen" ] && state="$state, default"
        echo "$one $state"
    done
    ;;
current)
    [ -n "$chosen" ] || die "this allocation names no runtime"
    echo "$chosen $(place "$chosen")"
    ;;
use)
    [ $# -eq 2 ] || die "use what? See gpuaas-runtime --help" 64
    found=$(find "$2")
    echo ". $(place "$found")/activate.sh"
    ;;
run)
    [ $# -ge 4 ] && [ "$3" = -- ] || die "gpuaas-runtime run NAME -- COMMAND" 64
    found=$(find "$2")
    shift 3
    . "$(place "$found")/activate.sh"
    exec "$@"
    ;;
-h | --help | help)
    usage
    ;;
*)
    usage >&2
    exit 64
    ;;
esac
