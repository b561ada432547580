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
  # A lost card, in the words of its driver: with and without a number, with and without a space.
  function dead() {
    if (value("uuid") != "ERROR") return 0
    gone = 15
    place = substr(value("pci.bus_id"), 5)
    if (branch >= 570) place = value("index") ": " place
    if (branch < 500) place = " " place
    return "Unable to determine the device handle for GPU" place ": Unknown Error"
  }
  # What drivers say beside an answer goes where theirs do: newer ones say it on stderr.
  function beside(words) {
    if (branch >= 600) print words > "/dev/stderr"
    else print words
  }
  function marked() {
    if (value("inforom") == "corrupted")
      warned = warned "WARNING: infoROM is corrupted at gpu " substr(value("pci.bus_id"), 5) "\n"
  }
'

# And ends with this: a lost card is an error, whatever the others have answered.
footer='
  END {
    if (warned) beside(substr(warned, 1, length(warned) - 1))
    if (warned && !gone && branch < 580) gone = 14
    if (gone) exit gone
  }
'

# The branch of the driver is the form in which everything is said.
form=$(awk -F ', ' -v only= "$header"'
  seen++ { print value("kmd_version", value("driver_version")); exit }
' "$tables/gpus.csv")
module=$tables/../../sys/module/nvidia/version
case $form in
  [0-9]*) version=$form branch=${form%%.*} ;;
  *deprecated*) version=$(cat "$module" 2>/dev/null || echo 610.43.02-standin) branch=610 ;;
  *) version=$form branch=580 ;;
esac

# answer TABLE FIELDS FORMAT: the asked columns, in the asked order.
answer() {
  awk -F ', ' -v only="$only" -v fields="$2" -v format=",$3," -v branch="$branch" \
    -v version="$version" "$header"'
    function since(first, names) {
      split(names, some, " ")
      for (i in some) if (!(some[i] in column)) {
        if (branch < first) unknown[some[i]] = 1
        else column[some[i]] = 0
      }
    }
    # What a table does not tell of: a card that does nothing has no load and no errors.
    function usual(name) {
      if (name == "mig.mode.current" || name == "accounting.mode") return "Disabled"
      if (name == "persistence_mode") return "Disabled"
      if (name == "kmd_version") return version
      return "[N/A]"
    }
    !count {
      count = split(fields, asked, ",")
      since(0, "utilization.gpu ecc.errors.uncorrected.volatile.total retired_pages.pending" \
        " accounting.mode persistence_mode temperature.gpu fan.speed pstate power.draw clocks.sm")
      since(450, "mig.mode.current remapped_rows.pending remapped_rows.failure")
      since(535, "fabric.state fabric.status clocks_event_reasons.active")
      since(600, "kmd_version")
      if (branch < 600) since(0, "clocks_throttle_reasons.active")
      if ("pci.bus_id" in column) column["gpu_bus_id"] = column["pci.bus_id"]
      for (i = 1; i <= count; i++)
        if (!(asked[i] in column) || asked[i] in unknown) {
          print "Field \"" asked[i] "\" is not a valid field to query."
          exit 2
        }
      if (format ~ /,noheader,/) next
    }
    lost = dead() { beside(lost); next }
    {
      if ("inforom" in column) marked()
      line = ""
      for (i = 1; i <= count; i++) {
        text = column[asked[i]] ? $column[asked[i]] : usual(asked[i])
        if (asked[i] == "driver_version" && branch >= 600 && $0 !~ /driver_version/)
          text = "[Requested functionality has been deprecated]"
        if (format ~ /,nounits,/) sub(/ (\[MiB\]|MiB)$/, "", text)
        line = line (i > 1 ? ", " : "") text
      }
      print line
    }
  '"$footer" "$tables/$1"
}

list() {
  awk -F ', ' -v only="$only" -v branch="$branch" "$header"'
    !seen++ { next }
    lost = dead() { beside(lost); next }
    { print "GPU " value("index") ": " value("name") " (UUID: " value("uuid") ")" }
  '"$footer" "$tables/gpus.csv"
}

# The long answer. Names of processes stand in it as they are: nothing is escaped.
describe() {
  echo '<?xml version="1.0" ?>'
  dtd=13
  if [ "$branch" -lt 560 ]; then dtd=12; fi
  if [ "$branch" -lt 520 ]; then dtd=11; fi
  echo "<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v$dtd.dtd\">"
  echo '<!-- TEST STAND-IN, not a GPU -->'
  awk -F ', ' -v only="$only" -v branch="$branch" -v version="$version" \
    -v apps="$tables/apps.csv" "$header"'
    BEGIN {
      while ((getline line < apps) > 0) {
        if (line !~ /^(GPU|MIG)-/) continue
        at = index(line, ", ")
        rest = substr(line, at + 2)
        end = index(rest, ", ")
        name = end ? substr(rest, end + 2) : "[N/A]"
        pid = end ? substr(rest, 1, end - 1) : rest
        uuid = substr(line, 1, at - 1)
        running[uuid] = running[uuid] "\t\t\t<process_info>\n\t\t\t\t<pid>" pid "</pid>\n" \
          "\t\t\t\t<type>C</type>\n\t\t\t\t<process_name>" name "</process_name>\n" \
          "\t\t\t</process_info>\n"
      }
      split("index uuid pci.bus_id name memory.total memory.used driver_version kmd_version" \
        " minor_number inforom", known_here, " ")
      for (i in known_here) shown[known_here[i]] = 1
    }
    function tag(depth, name, text) {
      cards = cards substr("\t\t\t\t", 1, depth) "<" name ">" text "</" name ">\n"
    }
    function open(name) { cards = cards "\t\t<" name ">\n" }
    function close_it(name) { cards = cards "\t\t</" name ">\n" }
    # A column of the table as an element, in which no value stands in brackets.
    function told(depth, name, field, otherwise) {
      text = value(field, otherwise)
      shown[field] = 1
      if (text ~ /^\[.*\]$/) text = substr(text, 2, length(text) - 2)
      tag(depth, name, text)
    }
    !seen++ { next }
    lost = dead() { beside(lost); next }
    {
      if ("inforom" in column) marked()
      attached++
      mig = value("mig.mode.current", "Disabled")
      shown["mig.mode.current"] = 1
      cards = cards "\t<gpu id=\"" value("pci.bus_id") "\">\n"
      tag(2, "product_name", value("name"))
      if (branch >= 580) tag(2, "display_mode", "Requested functionality has been deprecated")
      told(2, "persistence_mode", "persistence_mode", "Disabled")
      cards = cards "\t\t<mig_mode>\n"
      tag(3, "current_mig", mig)
      tag(3, "pending_mig", mig)
      cards = cards "\t\t</mig_mode>\n"
      told(2, "accounting_mode", "accounting.mode", "Disabled")
      tag(2, "uuid", value("uuid"))
      tag(2, "minor_number", value("minor_number", value("index")))
      if (branch >= 535) {
        open("gpu_reset_status")
        told(3, "reset_required", "reset_status.reset_required", "No")
        close_it("gpu_reset_status")
      }
      if (branch >= 570) told(2, "gpu_recovery_action", "gpu_recovery_action", "None")
      cards = cards "\t\t<fb_memory_usage>\n"
      tag(3, "total", value("memory.total"))
      tag(3, "used", value("memory.used"))
      cards = cards "\t\t</fb_memory_usage>\n"
      open("utilization")
      told(3, "gpu_util", "utilization.gpu", "0 %")
      close_it("utilization")
      open("ecc_errors")
      told(3, "uncorrectable", "ecc.errors.uncorrected.volatile.total", "N/A")
      close_it("ecc_errors")
      open("retired_pages")
      told(3, "pending_retirement", "retired_pages.pending", "N/A")
      close_it("retired_pages")
      open("remapped_rows")
      told(3, "remapped_row_pending", "remapped_rows.pending", "No")
      told(3, "remapped_row_failure", "remapped_rows.failure", "No")
      close_it("remapped_rows")
      open("temperature")
      told(3, "gpu_temp", "temperature.gpu", "30 C")
      close_it("temperature")
      reasons = branch < 535 ? "clocks_throttle_reasons" : "clocks_event_reasons"
      open(reasons)
      tag(3, reasons "_gpu_idle", "Active")
      close_it(reasons)
      if (branch >= 535) {
        open("fabric")
        told(3, "state", "fabric.state", "N/A")
        told(3, "status", "fabric.status", "N/A")
        close_it("fabric")
      }
      for (field in column)
        if (!(field in shown)) {
          name = field
          gsub(/[^A-Za-z0-9_]/, "_", name)
          told(2, name, field, "")
          delete shown[field]
        }
      open("processes")
      cards = cards running[value("uuid")]
      close_it("processes")
      cards = cards "\t</gpu>\n"
    }
    END {
      print "<nvidia_smi_log>"
      if (branch < 600) print "\t<driver_version>" version "</driver_version>"
      else {
        print "\t<driver_version>Requested functionality has been deprecated</driver_version>"
        print "\t<kmd_version>" version "</kmd_version>"
      }
      cuda = branch < 500 ? "11.4" : branch < 560 ? "12.4" : branch < 590 ? "13.0" : "13.2"
      if (branch >= 600) cuda = "13.3"
      element = branch < 600 ? "cuda_version" : "cuda_umd_version"
      print "\t<" element ">" cuda "</" element ">"
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
