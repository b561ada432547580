#!/bin/sh
# TEST STAND-IN, not a GPU: answers like nvidia-smi, from tables below etc/gpuaas-standin.
set -eu
tables=$(cd "$(dirname "$0")/../../etc/gpuaas-standin" && pwd)

fail() {
  echo "$1"
  exit 2
}

# Each reader of a table starts with this: comments go, the header says which column is which.
header='
  /^#/ || /^$/ { next }
  !header {
    header = 1
    for (i = 1; i <= NF; i++) {
      split($i, word, " ")
      column[word[1]] = i
    }
  }
  function value(name, otherwise) { return name in column ? $column[name] : otherwise }
  function dead() {
    if (value("uuid") != "ERROR") return 0
    gone = 15
    return "Unable to determine the device handle for GPU" substr(value("pci.bus_id"), 5) \
      ": Unknown Error"
  }
'

# And ends with this: a lost card is an error, whatever the others have answered.
footer='
  END { if (gone) exit gone }
'

# answer TABLE FIELDS FORMAT: the asked columns, in the asked order.
answer() {
  awk -F ', ' -v fields="$2" -v format=",$3," "$header"'
    !count {
      count = split(fields, asked, ",")
      for (i = 1; i <= count; i++)
        if (!(asked[i] in column)) {
          print "Field \"" asked[i] "\" is not a valid field to query."
          exit 2
        }
      if (format ~ /,noheader,/) next
    }
    lost = dead() { print lost; next }
    {
      line = ""
      for (i = 1; i <= count; i++) {
        text = $column[asked[i]]
        if (format ~ /,nounits,/) sub(/ (\[MiB\]|MiB)$/, "", text)
        line = line (i > 1 ? ", " : "") text
      }
      print line
    }
  '"$footer" "$tables/$1"
}

list() {
  awk -F ', ' "$header"'
    !seen++ { next }
    lost = dead() { print lost; next }
    { print "GPU " value("index") ": " value("name") " (UUID: " value("uuid") ")" }
  '"$footer" "$tables/gpus.csv"
}

# The part of `-q -x` that says which device node a card has, and how it is shared.
describe() {
  echo '<?xml version="1.0" ?>'
  echo '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">'
  echo '<!-- TEST STAND-IN, not a GPU -->'
  awk -F ', ' "$header"'
    function tag(depth, name, text) {
      cards = cards substr("\t\t\t\t", 1, depth) "<" name ">" text "</" name ">\n"
    }
    !seen++ { next }
    lost = dead() { print lost; next }
    {
      attached++
      driver = value("driver_version")
      mig = value("mig.mode.current", "Disabled")
      cards = cards "\t<gpu id=\"" value("pci.bus_id") "\">\n"
      tag(2, "product_name", value("name"))
      cards = cards "\t\t<mig_mode>\n"
      tag(3, "current_mig", mig)
      tag(3, "pending_mig", mig)
      cards = cards "\t\t</mig_mode>\n"
      tag(2, "uuid", value("uuid"))
      tag(2, "minor_number", value("minor_number", value("index")))
      cards = cards "\t\t<fb_memory_usage>\n"
      tag(3, "total", value("memory.total"))
      tag(3, "used", value("memory.used"))
      cards = cards "\t\t</fb_memory_usage>\n\t</gpu>\n"
    }
    END {
      print "<nvidia_smi_log>"
      print "\t<driver_version>" driver "</driver_version>"
      print "\t<attached_gpus>" attached + 0 "</attached_gpus>"
      printf "%s", cards
      print "</nvidia_smi_log>"
    }
  '"$footer" "$tables/gpus.csv"
}

# A driver that does not answer at all: its exit code in the first line, then its words.
if [ -e "$tables/failure.txt" ]; then
  sed 1d "$tables/failure.txt"
  exit "$(sed -n 1p "$tables/failure.txt")"
fi

[ "$*" = '-q -x' ] && { describe; exit; }
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
[ -n "$table" ] || fail 'TEST STAND-IN, not a GPU: ask with -L, -q -x, --query-gpu or --query-compute-apps'
[ -n "$format" ] || fail '"--format" switch is missing.'
answer "$table" "$fields" "$format"
