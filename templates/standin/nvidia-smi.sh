#!/bin/sh
# TEST STAND-IN, not a GPU: answers like nvidia-smi, from tables below etc/gpuaas-standin.
set -eu
tables=$(cd "$(dirname "$0")/../../etc/gpuaas-standin" && pwd)

fail() {
  echo "$1"
  exit 2
}

# answer TABLE FIELDS FORMAT: the asked columns, in the asked order.
answer() {
  awk -F ', ' -v fields="$2" -v format=",$3," '
    /^#/ || /^$/ { next }
    !header {
      header = 1
      for (i = 1; i <= NF; i++) {
        split($i, word, " ")
        column[word[1]] = i
      }
      count = split(fields, asked, ",")
      for (i = 1; i <= count; i++)
        if (!(asked[i] in column)) {
          print "Field \"" asked[i] "\" is not a valid field to query."
          exit 2
        }
      if (format ~ /,noheader,/) next
    }
    {
      line = ""
      for (i = 1; i <= count; i++) {
        value = $column[asked[i]]
        if (format ~ /,nounits,/) sub(/ (\[MiB\]|MiB)$/, "", value)
        line = line (i > 1 ? ", " : "") value
      }
      print line
    }
  ' "$tables/$1"
}

list() {
  awk -F ', ' '
    /^#/ || /^$/ { next }
    !header { header = 1; next }
    { print "GPU " $1 ": " $4 " (UUID: " $2 ")" }
  ' "$tables/gpus.csv"
}

table='' fields='' format=''
for argument in "$@"; do
  case $argument in
    -L | --list-gpus) list; exit ;;
    --query-gpu=*) table=gpus.csv fields=${argument#*=} ;;
    --query-compute-apps=*) table=apps.csv fields=${argument#*=} ;;
    --format=csv*) format=${argument#*=} ;;
    *) fail "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help." ;;
  esac
done
[ -n "$table" ] || fail 'TEST STAND-IN, not a GPU: ask with -L, --query-gpu or --query-compute-apps'
[ -n "$format" ] || fail '"--format" switch is missing.'
answer "$table" "$fields" "$format"
