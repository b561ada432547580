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
  header && only && !index(tolower($0), tolower(only)) { next }
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
  awk -F ', ' -v only="$only" -v fields="$2" -v format=",$3," "$header"'
    !count {
      count = split(fields, asked, ",")
      # A card that does nothing has no load and no errors to tell of, unless the table has some.
      split("utilization.gpu ecc.errors.uncorrected.volatile.total retired_pages.pending" \
        " remapped_rows.pending remapped_rows.failure", quiet, " ")
      for (i in quiet) if (!(quiet[i] in column)) column[quiet[i]] = 0
      if ("pci.bus_id" in column) column["gpu_bus_id"] = column["pci.bus_id"]
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
        text = column[asked[i]] ? $column[asked[i]] : "[N/A]"
        if (format ~ /,nounits,/) sub(/ (\[MiB\]|MiB)$/, "", text)
        line = line (i > 1 ? ", " : "") text
      }
      print line
    }
  '"$footer" "$tables/$1"
}

list() {
  awk -F ', ' -v only="$only" "$header"'
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
  awk -F ', ' -v only="$only" "$header"'
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

ask='' table='' fields='' format='' only=''
while [ $# -gt 0 ]; do
  case $1 in
    -L | --list-gpus) ask=list ;;
    -q | -x) ask=$ask$1 ;;
    -i) only=${2:-} && shift ;;
    --query-gpu=*) ask=answer table=gpus.csv fields=${1#*=} ;;
    --query-remapped-rows=*) ask=answer table=gpus.csv fields=${1#*=} ;;
    --query-compute-apps=*) ask=answer table=apps.csv fields=${1#*=} ;;
    --format=csv*) format=${1#*=} ;;
    *) ask='' && break ;;
  esac
  shift
done
case $ask in
  list) list ;;
  -q-x) describe ;;
  answer)
    [ -n "$format" ] || fail '"--format" switch is missing.'
    answer "$table" "$fields" "$format"
    ;;
  *) fail "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help." ;;
esac
