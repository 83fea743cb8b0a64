#!/usr/bin/env bash
# The table of alphas on a model of 29 million parameters: what SANE costs inside the training
# length, and what it saves far past it.
#
#   experiments/alpha_table.sh PROGRAM FOLDER [SECONDS]
#
# For each seed: pretrain a baseline that hardly forgets; fine-tune it without SANE (alpha 0) and
# with each alpha, same text and steps. Beside these, with the same questions:
#
#   first-A              SANE with alpha A from the first step of pretraining, then tuned like the rest
#   run-time-A           alpha 0 with --sane-alpha A put on it, no training
#   run-time-adaptive-A  the same with --sane-adaptive; A may be so large that nothing is held at first
#   adaptive-A           trained alpha A with --sane-adaptive
#
# Asked are the problems of each family without a prefix; and sums and differences before a stream
# and after 65,536, 1,048,576 and 10,485,760 tokens of it. What is done first is what there is if the time is
# short: all training; the families; a million tokens of the streams of the first corpus, then ten million
# of them; then the same for the second corpus. Each time trained alphas come first, in the order of ALPHAS,
# then the models above, adaptive ones last. A second start in the same FOLDER continues, wherever the first one
# was stopped. Every 30 seconds a line says how far the streams are. With SECONDS 0 nothing is made: what
# another start has found so far, one that still runs too, becomes tables.
#
# FOLDER/results gets losses.csv, families.csv, streams.csv, overflows.csv, segments.csv (along each stream; past
# the first of FAR only at checkpoints) and what experiments/tables.sh makes of them. SEEDS, ALPHAS, STREAMS and the other names in capitals below can be set; see steps.sh too.
# shellcheck disable=SC2034
set -u
program=$1 out=$2 limit=${3:-100000}
here=$(dirname "$(realpath "$0")")
# shellcheck source=steps.sh
. "$here/steps.sh"

SEEDS=${SEEDS:-"1 2 3"} ALPHAS=${ALPHAS:-"0 3 10 1 5 7 2 8 4 6 9"} FIRST_ALPHAS=${FIRST_ALPHAS-3}
RUN_TIME_ALPHAS=${RUN_TIME_ALPHAS-"3 10 1"} RUN_TIME_ADAPTIVE=${RUN_TIME_ADAPTIVE-1000}
ADAPTIVE_ALPHAS=${ADAPTIVE_ALPHAS-10}
STREAMS=${STREAMS:-"9:3 10:5"}  # seed of the corpus:number of streams, each a run of its own
FAR=${FAR:-"1048576 10485760"}  # all runs of a corpus are begun to the first before one continues to the second
WATCH=${WATCH:-30}              # seconds between two lines about how far the streams are
RATE_SHIFT=${RATE_SHIFT:--1.5} DECAY_SHIFT=${DECAY_SHIFT:--12}
layers=8 channels=512 sequences=32 context=512 steps=1600 tune_steps=200 rate=1e-3
near=65536 segment=65536 checkpoint=524288 questions=64 family_problems=100 evaluation_batches=8
pretrain_guess=5 tune_guess=5 eval_guess=5 stream_guess=5
if [ "$SCALE" = tiny ]; then
  SEEDS="1 2" ALPHAS="0 3 10" RUN_TIME_ALPHAS=3 STREAMS="9:1 10:2" FAR="4096 12288"
  layers=2 channels=64 sequences=4 context=64 steps=30 tune_steps=10 rate=4e-3
  near=1024 segment=1024 checkpoint=2048 questions=4 family_problems=4 evaluation_batches=1
fi
families="addition subtraction comparison multiplication division chain story"
corpus_of() {  # seed, split
  echo "mixed:0.7*(math-chat:seed=$1,split=$2,level=2,style=brief)+0.3*(math-chat:seed=$1,split=$2,level=1-3,style=sentence)"
}
held_out=$(corpus_of 2 held-out)
last=${FAR##* }

pretrain() {  # seed, name, lines of [model] to add
  training_config "$out/train/$2-seed$1" "$steps" "$rate" "$(corpus_of "1$1" train)" "$held_out" \
    "layers = $layers
channels = $channels
head_size = 64
seed = $1
decay_bias_shift = $DECAY_SHIFT
rate_bias_shift = $RATE_SHIFT
$3" >"$out/train/$2-seed$1.toml"
  train_step "train_$2-seed$1" "$pretrain_guess" "$out/train/$2-seed$1.toml" "$out/train/$2-seed$1"
}

tune() {  # seed, name, from, alpha, steps
  is_done "train_$3-seed$1" || return 1
  training_config "$out/train/$2-seed$1" "$5" "$(awk "BEGIN {print $rate / 5}")" \
    "$(corpus_of "2$1" train)" "$held_out" "from = \"$(newest_model "$out/train/$3-seed$1")\"
sane_alpha = $4" >"$out/train/$2-seed$1.toml"
  train_step "train_$2-seed$1" "$tune_guess" "$out/train/$2-seed$1.toml" "$out/train/$2-seed$1"
}

# has_model SEED NAME FROM FLAGS...: from here on NAME is the model that training FROM left, with flags
has_model() {
  local seed=$1 name=$2 from=$3
  shift 3
  is_done "train_$from-seed$seed" || return 1
  printf '%s\n' "$(newest_model "$out/train/$from-seed$seed")" "$@" >"$out/models/$name-seed$seed"
}

# The loss that SANE of alpha A has before it is trained: of the first look of a run of one step.
run_time_loss() {  # seed, alpha
  tune "$1" "loss-$2" alpha-0 "$2" 1 && rm -rf "$out/train/loss-$2-seed$1"/step_*
}

# The families without a prefix. An adaptive strength looks at the state after 512 tokens for the
# first time, which no problem reaches.
ask() {  # id
  [ -e "$out/models/$1" ] || return 1
  local words kept=() word
  mapfile -t words <"$out/models/$1"
  for word in "${words[@]}"; do [ "$word" = --sane-adaptive ] || kept+=("$word"); done
  step "eval_$1" "$eval_guess" "$program" eval "${kept[@]}" --device "$DEVICE" --threads "$THREADS" \
    --suite "$out/suite/families.toml" --out "$out/eval/$1" --samples 1 --temperature 0 \
    --tokens 16 --batch 64 --stop $'\n\n'
}

# read_streams ID CORPUS:COUNT TOKENS
read_streams() {
  [ -e "$out/models/$1" ] || return 1
  local words folder="$out/stream/$1-corpus${2%:*}"
  mapfile -t words <"$out/models/$1"
  mkdir -p "$out/stream"
  {
    flock 9  # the run to the distance before may still continue
    stream_step "stream_$1-corpus${2%:*}_$3" "$stream_guess" "$folder" "${words[@]}" \
      --corpus "$(corpus_of "${2%:*}" train)" --streams "${2#*:}" --tokens "$3" --segment "$segment" \
      --snapshots "$last" --checkpoint-every "$checkpoint" --probe-at "0,$near,${FAR// /,}" \
      --probe-corpus "math-chat:level=2,style=brief,family=addition+subtraction" \
      --probe-problems "$questions" --probe-tokens 12 && export_records "$folder"
  } 9>"$folder.lock"
}

# The rest of this script's files: what was found, in a few tables.
collect() {
  local results="$out/results" id name seed loss folder stream
  mkdir -p "$results"
  for folder in "$out"/stream/*/; do beside export_records "${folder%/}"; done
  wait
  echo "model,seed,held_out_loss" >"$results/losses.csv"
  echo "model,seed,family,accuracy" >"$results/families.csv"
  echo "model,seed,stream,position,accuracy,norm,loss" >"$results/streams.csv"
  echo "model,seed,stream,position,layer,head,largest" >"$results/overflows.csv"
  echo "model,seed,stream,position,norm,largest,cumulative_loss" >"$results/segments.csv"
  for id in "$out"/models/*; do
    id=$(basename "$id") name=${id%-seed*} seed=${id##*-seed}
    loss=$(held_out_loss "$name" "$seed")
    [ -n "$loss" ] && echo "$name,$seed,$loss" >>"$results/losses.csv"
    is_done "eval_$id" &&
      family_scores "$out/eval/$id/problems.jsonl" | sed "s/^/$name,$seed,/" >>"$results/families.csv"
    for stream in $STREAMS; do
      folder="$out/stream/$id-corpus${stream%:*}/csv"
      [ -e "$folder/probes.csv" ] || continue
      awk -F, -v OFS=, -v name="$name,$seed" -v corpus="${stream%:*}" '
        FNR == 1 { split("", at); for (i = 1; i <= NF; i++) at[$i] = i; file++; next }
        { key = $at["stream"] " " $at["position"] }
        file == 1 { norm[key] = $at["norm"]; loss[key] = $at["cumulative_loss"]; next }
        { print name, corpus "." $at["stream"], $at["position"], $at["accuracy"], norm[key], loss[key] }' \
        "$folder/segments.csv" "$folder/probes.csv" >>"$results/streams.csv"
      awk -F, -v OFS=, -v name="$name,$seed" -v corpus="${stream%:*}" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["overflow"] == 1 { print name, corpus "." $at["stream"], $at["position"],
          $at["overflow_layer"], $at["overflow_head"], $at["largest"] }' \
        "$folder/segments.csv" >>"$results/overflows.csv"
      awk -F, -v OFS=, -v name="$name,$seed" -v corpus="${stream%:*}" -v dense="${FAR%% *}" -v checkpoint="$checkpoint" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["position"] <= dense || $at["position"] % checkpoint == 0 || $at["overflow"] == 1 { print name, corpus "." $at["stream"], $at["position"],
          sprintf("%.6g", $at["norm"]), sprintf("%.6g", $at["largest"]), sprintf("%.6g", $at["cumulative_loss"]) }' \
        "$folder/segments.csv" >>"$results/segments.csv"
    done
  done
  cp "$out/seconds.csv" "$results"
  for seed in $SEEDS; do
    for name in base alpha-0 alpha-3 pre-3 first-3; do
      [ -e "$out/train/$name-seed$seed.toml" ] && cp "$out/train/$name-seed$seed.toml" "$results"
    done
    compare_alphas "$seed" >"$results/families-seed$seed.md"
    folder="$out/stream/alpha-0-seed$seed-corpus${STREAMS%%:*}"
    [ -e "$folder/segments.rec" ] &&
      "$program" diagnose "$folder" >"$results/alpha-0-seed$seed-diagnosis.txt"
  done
}

held_out_loss() {  # name, seed: at the end of its training; where there was none, before any
  local metrics="$out/train/$1-seed$2/metrics.jsonl" alpha
  case $1 in
  run-time-*) alpha=${1##*-} metrics="$out/train/loss-$alpha-seed$2/metrics.jsonl" ;;
  adaptive-*) metrics="$out/train/alpha-${1##*-}-seed$2/metrics.jsonl" ;;
  esac
  [ -e "$metrics" ] || return 0
  sed -n 's/.*held_out_loss":\([0-9.e-]*\).*/\1/p' "$metrics" |
    if [ "${1#run-time-}" = "$1" ]; then tail -n 1; else head -n 1; fi
}

# The problems without a prefix, alpha 0 against the trained alphas: tests over families and over single problems.
compare_alphas() {  # seed
  local alpha runs=()
  for alpha in $(echo "$ALPHAS" | tr ' ' '\n' | sort -n); do
    is_done "eval_alpha-$alpha-seed$1" && runs+=("$out/eval/alpha-$alpha-seed$1")
  done
  [ ${#runs[@]} -gt 1 ] && "$program" compare "${runs[@]}" --threads "$THREADS"
}

train_all() {
  local seed alpha
  for seed in $SEEDS; do beside pretrain "$seed" base ""; done
  for seed in $SEEDS; do
    for alpha in $FIRST_ALPHAS; do beside pretrain "$seed" "pre-$alpha" "sane_alpha = $alpha"; done
  done
  wait
  for alpha in $ALPHAS; do
    for seed in $SEEDS; do beside tune "$seed" "alpha-$alpha" base "$alpha" "$tune_steps"; done
  done
  for seed in $SEEDS; do
    for alpha in $FIRST_ALPHAS; do beside tune "$seed" "first-$alpha" "pre-$alpha" "$alpha" "$tune_steps"; done
  done
  wait
}

name_models() {
  local seed alpha
  for seed in $SEEDS; do
    for alpha in $ALPHAS; do has_model "$seed" "alpha-$alpha" "alpha-$alpha"; done
    for alpha in $FIRST_ALPHAS; do has_model "$seed" "first-$alpha" "first-$alpha"; done
    for alpha in $RUN_TIME_ALPHAS; do has_model "$seed" "run-time-$alpha" alpha-0 --sane-alpha "$alpha"; done
    for alpha in $RUN_TIME_ADAPTIVE; do
      has_model "$seed" "run-time-adaptive-$alpha" alpha-0 --sane-alpha "$alpha" --sane-adaptive
    done
    for alpha in $ADAPTIVE_ALPHAS; do
      has_model "$seed" "adaptive-$alpha" "alpha-$alpha" --sane-adaptive
    done
  done
}

# How many runs of each corpus have got how far. A run that ended because all its streams overflowed is counted
# as one that got there.
print_positions() {
  local stream run far line
  for stream in $STREAMS; do
    local -A at=()
    for run in "$out"/stream/*-corpus"${stream%:*}"/; do
      [ -e "$run/speed.csv" ] && at[$(basename "$run")]=$(tail -n 1 "$run/speed.csv" | cut -d, -f1)
    done
    [ ${#at[@]} -eq 0 ] && continue
    line="${#at[@]} runs of ${stream#*:} streams of corpus ${stream%:*}"
    for far in $near $FAR; do
      local there=0
      for run in "${!at[@]}"; do
        if is_done "stream_${run}_$far" || [ "${at[$run]}" -ge "$far" ] 2>/dev/null; then there=$((there + 1)); fi
      done
      line+=", $there have read $far"
    done
    echo "$(($(date +%s) - BEGIN)) s: $line"
  done
}
# Until this script is gone; no sleep of its keeps the script's output open.
watch_positions() { while sleep "$WATCH" >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do print_positions; done; }

make_all() {
  local names=() name alpha seed stream far watcher
  for alpha in $ALPHAS; do names+=("alpha-$alpha"); done
  for alpha in $FIRST_ALPHAS; do names+=("first-$alpha"); done
  for alpha in $RUN_TIME_ALPHAS; do names+=("run-time-$alpha"); done
  for alpha in $RUN_TIME_ADAPTIVE; do names+=("run-time-adaptive-$alpha"); done
  for alpha in $ADAPTIVE_ALPHAS; do names+=("adaptive-$alpha"); done
  # shellcheck disable=SC2086
  write_suite "$family_problems" level=2,style=brief,seed=5 $families || exit 1
  train_all
  name_models
  for name in "${names[@]}"; do
    for seed in $SEEDS; do beside ask "$name-seed$seed"; done
  done
  for alpha in $RUN_TIME_ALPHAS $RUN_TIME_ADAPTIVE; do
    for seed in $SEEDS; do beside run_time_loss "$seed" "$alpha"; done
  done
  watch_positions &
  watcher=$!
  disown "$watcher"  # it is no job to wait for
  for stream in $STREAMS; do
    for far in $FAR; do
      for name in "${names[@]}"; do
        for seed in $SEEDS; do beside read_streams "$name-seed$seed" "$stream" "$far"; done
      done
    done
  done
  wait
  kill "$watcher"
  print_positions
}

mkdir -p "$out/train" "$out/models"
[ "$limit" -gt 0 ] && make_all
collect
timeout --foreground 60 "$here/tables.sh" "$program" "$out/results" >"$out/results/tables.md"
echo "total $(($(date +%s) - BEGIN)) s"
