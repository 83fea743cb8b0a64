# shellcheck shell=bash disable=SC2154
# Sourced by the experiments: steps that are made once, some at a time, inside a time limit.
#
#   program, out, limit   set by the script: the deltasane to use, its folder, seconds in all
#   DEVICE                cpu or cuda (cuda)
#   JOBS                  steps at a time (4)
#   THREADS               processors for each of them; 0: all (0)
#   SCALE=tiny            everything made so small that a laptop's processor runs it in minutes
#
# A step that is done leaves a file in $out/done, and is not made again; its output is in $out/logs
# and its seconds in $out/seconds.csv. A step that would not fit into the time left is not begun,
# and one that runs when the time is over is stopped: training and streams resume from there when
# the script is started again. So they do when everything was killed: training from its last
# checkpoint, of which one is made half way; a stream from its own. All processes of a script are in its
# process group, so that kill -STOP and kill -CONT of the group pause it; the time limit is by the clock on
# the wall and continues meanwhile.

DEVICE=${DEVICE:-cuda} JOBS=${JOBS:-4} THREADS=${THREADS:-0} SCALE=${SCALE:-full}
export BEGIN=${BEGIN:-$(date +%s)}
mkdir -p "$out/done" "$out/logs"

seconds_left() { echo $((BEGIN + limit - $(date +%s))); }

# step NAME SECONDS COMMAND...: fails where it was not begun, or failed. SECONDS is a guess.
step() {
  local name=$1 needs=$2 begun status
  shift 2
  [ -e "$out/done/$name" ] && return 0
  if [ "$(seconds_left)" -lt "$needs" ]; then
    echo "not begun, $(seconds_left) s left: $name"
    return 1
  fi
  begun=$(date +%s.%N)
  timeout --foreground -s TERM -k 15 "$(seconds_left)" "$@" >>"$out/logs/$name.log" 2>&1
  status=$?
  local took
  took=$(echo "$(date +%s.%N) $begun" | awk '{printf "%.1f", $1 - $2}')
  if [ $status -eq 124 ] || [ $status -eq 130 ]; then # by the time limit, or by a signal of somebody's
    echo "stopped after $took s: $name; started again, it resumes"
    return 1
  fi
  if [ $status -ne 0 ]; then
    echo "failed after $took s, exit code $status: $name; the end of its log:"
    tail -n 3 "$out/logs/$name.log"
    return 1
  fi
  echo "$name,$took" >>"$out/seconds.csv"
  touch "$out/done/$name"
  echo "$(($(date +%s) - BEGIN)) s: $name, $took s"
}

# Runs a function beside others, at most $JOBS of them.
beside() {
  while [ "$(jobs -rp | wc -l)" -ge "$JOBS" ]; do wait -n; done
  "$@" &
}

is_done() { [ -e "$out/done/$1" ]; }

# The model that a training run left, or nothing. A kill may leave an unfinished folder, whose name has more than digits.
newest_model() { find "$1" -regex '.*/step_[0-9]+/model\.safetensors' 2>/dev/null | sort | tail -n 1; }

# train_step NAME SECONDS CONFIG FOLDER
train_step() {
  local resume=""
  [ -n "$(newest_model "$4")" ] && resume=--resume
  step "$1" "$2" "$program" train "$3" --device "$DEVICE" $resume || return 1
  rm -f "$4"/step_*/optimizer.safetensors  # nobody continues from here
}

# stream_step NAME SECONDS FOLDER MODEL FLAGS...
stream_step() {
  local name=$1 needs=$2 folder=$3 model=$4
  shift 4
  [ -e "$folder/segments.rec" ] && set -- "$@" --resume
  step "$name" "$needs" "$program" stream "$model" --device "$DEVICE" --threads "$THREADS" --out "$folder" "$@"
}

# Tables of a stream's records in FOLDER/csv, made again where the records are newer.
export_records() {
  [ -e "$1/segments.rec" ] || return 1
  [ "$1/csv/probes.csv" -nt "$1/segments.rec" ] && return 0
  "$program" records "$1" --csv "$1/csv" >/dev/null
}

# write_suite PROBLEMS SETTINGS FAMILIES...: held-out problems of math-chat as $out/suite/families.toml, a benchmark for each family
write_suite() {
  is_done suite && return 0
  local problems=$1 settings=$2 family
  shift 2
  mkdir -p "$out/suite"
  : >"$out/suite/families.toml"
  for family in "$@"; do
    "$program" corpus "math-chat:split=held-out,$settings,family=$family" --problems "$problems" \
      --out "$out/suite/$family.jsonl" >/dev/null || return 1
    printf '[[benchmark]]\nname = "%s"\nfile = "%s.jsonl"\ninstruction = "{question}"\n\n' \
      "$family" "$family" >>"$out/suite/families.toml"
  done
  touch "$out/done/suite"
}
# family,accuracy of a run of eval
family_scores() {
  sed 's/.*"benchmark":"\([a-z]*\)".*"correct":\([a-z]*\).*/\1 \2/' "$1" |
    awk '{ asked[$1]++; right[$1] += $2 == "true" } END { for (f in asked) print f "," right[f] / asked[f] }' | sort
}

# training_config FOLDER STEPS RATE CORPUS HELD_OUT MODEL_LINES: a configuration on standard output
training_config() {
  local precision=bf16
  [ "$DEVICE" = cpu ] && precision=fp32
  cat <<TOML
[model]
$6

[corpus]
source = "$4"
tokenizer = "byte"

[optimizer]
kind = "adamw"
precision = "$precision"
steps = $2
sequences = $sequences
context = $context
rate = $3
last_rate = $(awk "BEGIN {print $3 / 20}")
weight_decay = 0.1

[evaluation]
every = $2
batches = $evaluation_batches
source = "$5"

[run]
folder = "$1"
save_every = $((($2 + 1) / 2))
keep = 1
metrics_every = 10
threads = $THREADS
TOML
}

# csv_column FILE COLUMN [CONDITION_COLUMN VALUE]...: its values, one a line
csv_column() {
  awk -F, -v wanted="$2" -v conditions="${*:3}" '
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; n = split(conditions, c, " "); next }
    { for (i = 1; i < n; i += 2) if ($at[c[i]] != c[i + 1]) next; print $at[wanted] }' "$1"
}
# column_rows FILE NAME COLUMNS...: rows of a CSV file with a name before them
column_rows() {
  awk -F, -v name="$2" -v wanted="${*:3}" '
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; n = split(wanted, w, " "); next }
    { printf "%s", name; for (i = 1; i <= n; i++) printf ",%s", $at[w[i]]; print "" }' "$1"
}
mean() { awk '{ s += $1 } END { if (NR) printf "%.6g", s / NR }'; }
standard_error() {
  awk '{ s += $1; q += $1 * $1 } END { if (NR > 1) { v = (q - s * s / NR) / (NR - 1); printf "%.4g", sqrt((v > 0 ? v : 0) / NR) } }'
}
