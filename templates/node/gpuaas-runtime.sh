#!/bin/sh
# Managed by gpuaas; what is changed here is put back.
# Runtimes of this allocation, by what its descriptor names and never by what a host has as default.
set -eu
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
export PATH
root=/opt/gpuaas/runtimes
usage() {
    cat <<END
Runtimes that the platform has put here for this allocation. What you install yourself is yours.

  gpuaas-runtime list                    what this allocation has, and whether it is ready
  gpuaas-runtime current                 the one that is used where none is named
  eval "\$(gpuaas-runtime use NAME)"      into this shell; \`deactivate\` takes it out again
  gpuaas-runtime run NAME -- COMMAND     one command in it
  gpuaas-runtime notebook start|stop|status
                                         JupyterLab of the runtime jupyter, for \`gpuaas ssh --jupyter\`

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
ready_one() {
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
    # What is taken up by `eval` fails there too, so that `set -e` does not go on without it.
    found=$(ready_one "$2") || {
        echo false
        exit 1
    }
    echo ". $(place "$found")/activate.sh"
    ;;
run)
    [ $# -ge 4 ] && [ "$3" = -- ] || die "gpuaas-runtime run NAME -- COMMAND" 64
    found=$(ready_one "$2")
    shift 3
    . "$(place "$found")/activate.sh"
    exec "$@"
    ;;
notebook)
    umask 077
    own=$HOME/.local/share/gpuaas
    socket=$own/jupyter.sock token=$own/jupyter.token pid=$own/jupyter.pid
    serves="--ServerApp.sock=$socket"
    # A number that is somebody else's by now, as after a restart, is not it.
    lives() { tr '\0' '\n' <"/proc/$(cat "$pid")/cmdline" | grep -qxF -e "$serves"; } 2>/dev/null
    # A process and a file of its name are no server: the kernel says who listens. Nor is a name in
    # its list, which a neighbour may have in folders of his own: it must be our process that does.
    listens() {
        for one in $(awk -v at="$socket" '$4 == "00010000" && $8 == at { print $7 }' /proc/net/unix); do
            ls -l "/proc/$(cat "$pid")/fd" 2>/dev/null | grep -qF "socket:[$one]" && return 0
        done
        return 1
    }
    deaf() { echo "JupyterLab runs (process $(cat "$pid")) and does not listen"; }
    case ${2:-} in
    start)
        found=$(ready_one jupyter)
        mkdir -p "$own"
        # Who asks at the same time gets the same one, when it is there.
        exec 9>"$own/jupyter.lock"
        flock 9
        if ! lives; then
            rm -f "$socket"
            od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$token"
            . "$(place "$found")/activate.sh"
            # Whoever else is on this host reaches no socket in here; the token is told to nobody.
            JUPYTER_TOKEN=$(cat "$token") nohup setsid jupyter lab --no-browser \
                "$serves" --ServerApp.sock_mode=0600 --ServerApp.root_dir="$HOME" \
                >"$own/jupyter.log" 2>&1 </dev/null 9>&- &
            echo $! >"$pid"
        fi
        left=${GPUAAS_NOTEBOOK_SECONDS:-60}0
        until listens; do
            left=$((left - 1))
            kill -0 "$(cat "$pid")" 2>/dev/null || die "JupyterLab did not start: see $own/jupyter.log"
            [ $left -gt 0 ] ||
                die "$(deaf): see $own/jupyter.log; to end it: gpuaas-runtime notebook stop"
            sleep 0.1
        done
        echo "socket=$socket"
        echo "token=$(cat "$token")"
        ;;
    status)
        if ! lives; then
            die "JupyterLab is not started"
        elif ! listens; then
            die "$(deaf): it is starting, or it hangs: see $own/jupyter.log"
        fi
        echo "started, socket=$socket"
        ;;
    stop)
        if lives; then
            kill "$(cat "$pid")"
            left=100
            while lives && [ $left -gt 0 ]; do
                left=$((left - 1))
                sleep 0.1
            done
            ! lives || kill -9 "$(cat "$pid")"
        fi
        rm -f "$socket" "$pid" "$token"
        ;;
    *) die "gpuaas-runtime notebook start|stop|status" 64 ;;
    esac
    ;;
-h | --help | help)
    usage
    ;;
*)
    usage >&2
    exit 64
    ;;
esac
