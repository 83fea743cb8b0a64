#!/usr/bin/env bash
# The table of alphas on a model of 29 million parameters: what SANE costs inside the training
# length, and what it saves far past it.
#
#   experiments/alpha_table.sh PROGRAM FOLDER [SECONDS]
#
# For each seed: pretrain a baseline that hardly forgets; fine-tune it without SANE (alpha 0) and
# with each alpha, same data and steps. Beside these, with the same questions:
#
#   first-A      SANE with alpha A from the first step of pretraining
#   run-time-A   alpha 0 with --sane-alpha A put on it, no training
#   adaptive-A   alpha A with --sane-adaptive; run-time-adaptive-A the same on alpha 0, where A
#                may be so large that nothing is held before a head grows
#
# Asked are the problems of each family without a prefix, and sums and differences after 65,536
# tokens of 8 streams and after 1,048,576 of 4. The full table of the issue is
#
#   ALPHAS="0 3 10 1 5 2 7 4 6 8 9" SEEDS="1 2 3" LONG_STREAMS=8 LONG_TOKENS=10485760
#
# FOLDER gets table.csv (a row per model), families.csv, streams.csv and the tests against alpha 0
# made by `deltasane compare`. What comes first below is what is done if the time is short.
# shellcheck disable=SC2034
set -u
program=$1 out=$2 limit=${3:-100000}
# shellcheck source=steps.sh
. "$(dirname "$0")/steps.sh"

SEEDS=${SEEDS:-1} ALPHAS=${ALPHAS:-"0 3 10 1 5 2 7"} FIRST_ALPHAS=${FIRST_ALPHAS:-3}
RUN_TIME_ALPHAS=${RUN_TIME_ALPHAS:-"3 1 10 100"} ADAPTIVE_ALPHAS=${ADAPTIVE_ALPHAS:-"1000 10"}
STREAMS=${STREAMS:-8} LONG_STREAMS=${LONG_STREAMS:-4} LONG_TOKENS=${LONG_TOKENS:-1048576}
RATE_SHIFT=${RATE_SHIFT:--1.5} DECAY_SHIFT=${DECAY_SHIFT:--12}
layers=8 channels=512 sequences=32 context=512 steps=1600 tune_steps=200 rate=1e-3
tokens=65536 segment=4096 long_segment=65536 questions=64 family_problems=100 evaluation_batches=8
pretrain_guess=40 tune_guess=10 stream_guess=8 long_guess=15
if [ "$SCALE" = tiny ]; then
  ALPHAS="0 3" RUN_TIME_ALPHAS=3 STREAMS=2 LONG_STREAMS=2 LONG_TOKENS=8192
  layers=2 channels=64 sequences=4 context=64 steps=30 tune_steps=10 rate=4e-3
  tokens=4096 segment=1024 long_segment=4096 questions=4 family_problems=4 evaluation_batches=1
fi
families="addition subtraction comparison multiplication division chain story"
corpus_of() {  # seed, split
  echo "mixed:0.7*(math-chat:seed=$1,split=$2,level=2,style=brief)+0.3*(math-chat:seed=$1,split=$2,level=1-3,style=sentence)"
}
held_out=$(corpus_of 2 held-out) streamed=$(corpus_of 9 train)
probe=(--corpus "$streamed" --probe-corpus "math-chat:level=2,style=brief,family=addition+subtraction"
  --probe-problems "$questions" --probe-tokens 12)

write_suite() {
  mkdir -p "$out/suite"
  : >"$out/suite/families.toml"
  local family
  for family in $families; do
    "$program" corpus "math-chat:split=held-out,level=2,style=brief,seed=5,family=$family" \
      --problems "$family_problems" --out "$out/suite/$family.jsonl" >/dev/null || return 1
    printf '[[benchmark]]\nname = "%s"\nfile = "%s.jsonl"\ninstruction = "{question}"\n\n' \
      "$family" "$family" >>"$out/suite/families.toml"
  done
}

# ask SEED NAME MODEL FLAGS...: each family, then the short streams
ask() {
  local id="$2-seed$1" model=$3
  shift 3
  printf '%s\n' "$model" "$@" >"$out/models/$id"
  step "eval_$id" "$stream_guess" "$program" eval "$model" --device "$DEVICE" --threads "$THREADS" "$@" \
    --suite "$out/suite/families.toml" --out "$out/eval/$id" --samples 1 --temperature 0 \
    --tokens 16 --batch 64 --stop $'\n\n'
  stream_step "stream_$id" "$stream_guess" "$out/stream/$id" "$model" "$@" "${probe[@]}" \
    --streams "$STREAMS" --tokens "$tokens" --segment "$segment" --checkpoint-every "$tokens" \
    --probe-at "0,$tokens"
}

pretrain() {  # seed, name, lines of [model] to add
  training_config "$out/train/$2-seed$1" "$steps" "$rate" "$(corpus_of "1$1" train)" "$held_out" \
    "layers = $layers
channels = $channels
head_size = 64
seed = $1
decay_bias_shift = $DECAY_SHIFT
rate_bias_shift = $RATE_SHIFT
$3" >"$out/train/$2-seed$1.toml"
  train_step "pretrain_$2-seed$1" "$pretrain_guess" "$out/train/$2-seed$1.toml" \
    "$out/train/$2-seed$1"
}

tune() {  # seed, name, from, alpha
  training_config "$out/train/$2-seed$1" "$tune_steps" "$(awk "BEGIN {print $rate / 5}")" \
    "$(corpus_of "2$1" train)" "$held_out" "from = \"$(newest_model "$out/train/$3-seed$1")\"
sane_alpha = $4" >"$out/train/$2-seed$1.toml"
  train_step "tune_$2-seed$1" "$tune_guess" "$out/train/$2-seed$1.toml" "$out/train/$2-seed$1"
}

trained_alpha() {  # seed, alpha
  tune "$1" "alpha-$2" base "$2" || return 1
  ask "$1" "alpha-$2" "$(newest_model "$out/train/alpha-$2-seed$1")"
  local alpha
  if [ "$2" = 0 ]; then
    for alpha in $RUN_TIME_ALPHAS; do
      ask "$1" "run-time-$alpha" "$(newest_model "$out/train/alpha-0-seed$1")" --sane-alpha "$alpha"
    done
  fi
}

from_the_first_step() {  # seed, alpha
  pretrain "$1" "pre-$2" "sane_alpha = $2" || return 1
  tune "$1" "first-$2" "pre-$2" "$2" || return 1
  ask "$1" "first-$2" "$(newest_model "$out/train/first-$2-seed$1")"
}

adaptive() {  # seed, alpha
  "$program" stream --help | grep -q -- --sane-adaptive || return 0
  local id="adaptive-$2"
  [ -n "$(newest_model "$out/train/alpha-$2-seed$1")" ] &&
    stream_only "$1" "$id" "$(newest_model "$out/train/alpha-$2-seed$1")" --sane-adaptive
  stream_only "$1" "run-time-$id" "$(newest_model "$out/train/alpha-0-seed$1")" \
    --sane-alpha "$2" --sane-adaptive
}

stream_only() {  # seed, name, model, flags
  local id="$2-seed$1" model=$3
  shift 3
  [ -n "$model" ] || return 1
  printf '%s\n' "$model" "$@" >"$out/models/$id"
  stream_step "stream_$id" "$stream_guess" "$out/stream/$id" "$model" "$@" "${probe[@]}" \
    --streams "$STREAMS" --tokens "$tokens" --segment "$segment" --checkpoint-every "$tokens" \
    --probe-at "0,$tokens"
}

read_long() {  # id
  [ -e "$out/models/$1" ] || return 0
  local words
  mapfile -t words <"$out/models/$1"
  stream_step "long_$1" "$long_guess" "$out/long/$1" "${words[@]}" "${probe[@]}" \
    --streams "$LONG_STREAMS" --tokens "$LONG_TOKENS" --segment "$long_segment" \
    --checkpoint-every "$LONG_TOKENS" --probe-at "$LONG_TOKENS"
}

# Rows of models: what one file can hold of all of this.
tables() {
  local id folder
  echo "model,seed,held_out_loss,families_accuracy,accuracy_0,accuracy_short,error_short,norm_short,accuracy_long,error_long,norm_long,loss_long,overflows_long" >"$out/table.csv"
  echo "model,seed,family,accuracy" >"$out/families.csv"
  echo "model,seed,position,stream,accuracy" >"$out/streams.csv"
  for id in "$out"/models/*; do
    id=$(basename "$id")
    local name=${id%-seed*} seed=${id##*-seed} loss="" families="" s="" l=""
    [ -e "$out/train/$id/metrics.jsonl" ] &&
      loss=$(grep held_out_loss "$out/train/$id/metrics.jsonl" | tail -n 1 | sed 's/.*held_out_loss":\([0-9.e-]*\).*/\1/')
    if [ -e "$out/eval/$id/scores.json" ]; then
      family_scores "$out/eval/$id/problems.jsonl" | sed "s/^/$name,$seed,/" >>"$out/families.csv"
      families=$(family_scores "$out/eval/$id/problems.jsonl" | cut -d, -f2 | mean)
    fi
    for folder in stream long; do
      [ -e "$out/$folder/$id/segments.rec" ] &&
        "$program" records "$out/$folder/$id" --csv "$out/$folder/$id/csv" >/dev/null &&
        awk -F, -v n="$name,$seed" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
          { print n "," $at["position"] "," $at["stream"] "," $at["accuracy"] }' \
          "$out/$folder/$id/csv/probes.csv" >>"$out/streams.csv"
    done
    s="$out/stream/$id/csv" l="$out/long/$id/csv"
    [ -e "$s/probes.csv" ] || continue
    local after="" error="" norm="" far="" overflows=""
    if [ -e "$l/probes.csv" ]; then
      after=$(csv_column "$l/probes.csv" accuracy position "$LONG_TOKENS" | mean)
      error=$(csv_column "$l/probes.csv" accuracy position "$LONG_TOKENS" | standard_error)
      norm=$(csv_column "$l/segments.csv" norm position "$LONG_TOKENS" | mean)
      far=$(csv_column "$l/segments.csv" cumulative_loss position "$LONG_TOKENS" | mean)
      overflows=$(csv_column "$l/segments.csv" stream overflow 1 | wc -l)
    fi
    echo "$name,$seed,$loss,$families,$(csv_column "$s/probes.csv" accuracy position 0 | mean),$(csv_column "$s/probes.csv" accuracy position "$tokens" | mean),$(csv_column "$s/probes.csv" accuracy position "$tokens" | standard_error),$(csv_column "$s/segments.csv" norm position "$tokens" | mean),$after,$error,$norm,$far,$overflows" >>"$out/table.csv"
  done
  local seed runs
  for seed in $SEEDS; do
    runs=()
    for id in "$out"/models/*-seed"$seed"; do
      id=$(basename "$id")
      [ -e "$out/eval/$id/scores.json" ] && runs+=("$out/eval/$id")
    done
    [ ${#runs[@]} -gt 1 ] && "$program" compare "${runs[@]}" --baseline "alpha-0-seed$seed" \
      --out "$out/families-seed$seed.md"
  done
  local position
  for position in "$tokens" "$LONG_TOKENS"; do after_stream "$position"; done
  cat "$out/table.csv"
}

# Each model's streams side by side, in percent, and the paired t-test over them. The first column
# is alpha 0, or alpha 3 where alpha 0 did not get there.
after_stream() {
  awk -F, -v OFS=, -v position="$1" -v tokens="$tokens" 'NR > 1 && $3 == position {
      name = $1 "-seed" $2; if (!(name in seen)) { seen[name] = 1; names[++n] = name }
      if (!($4 in rows)) { rows[$4] = 1; streams[++m] = $4 }
      found[name, $4] = 100 * $5 }
    function before(a, b) { return rank(a) < rank(b) || (rank(a) == rank(b) && a < b) }
    function rank(a) { return a ~ /^alpha-0-/ ? 0 : a ~ /^alpha-3-/ ? 1 : 2 }
    END {
      for (i = 2; i <= n; i++)
        for (j = i; j > 1 && before(names[j], names[j - 1]); j--) {
          t = names[j]; names[j] = names[j - 1]; names[j - 1] = t }
      line = "benchmark"; for (i = 1; i <= n; i++) line = line OFS names[i]; print line
      for (k = 1; k <= m; k++) {
        line = "stream " streams[k]
        for (i = 1; i <= n; i++) line = line OFS found[names[i], streams[k]]
        print line } }' "$out/streams.csv" >"$out/after_$1.csv"
  "$program" compare "$out/after_$1.csv" --out "$out/after_$1.md" || true
}

# family,accuracy of a run of eval
family_scores() {
  sed 's/.*"benchmark":"\([a-z]*\)".*"correct":\([a-z]*\).*/\1 \2/' "$1" |
    awk '{ asked[$1]++; right[$1] += $2 == "true" } END { for (f in asked) print f "," right[f] / asked[f] }' | sort
}

mkdir -p "$out/train" "$out/models"
write_suite || exit 1
for seed in $SEEDS; do
  pretrain "$seed" base "" || continue
  beside trained_alpha "$seed" 0
  for alpha in $FIRST_ALPHAS; do beside from_the_first_step "$seed" "$alpha"; done
  for alpha in $ALPHAS; do [ "$alpha" = 0 ] || beside trained_alpha "$seed" "$alpha"; done
  wait
  for alpha in $ADAPTIVE_ALPHAS; do beside adaptive "$seed" "$alpha"; done
  wait
done
for seed in $SEEDS; do
  for name in alpha-0 alpha-3 alpha-10 alpha-1 run-time-3 first-3 alpha-5 run-time-10 alpha-2 \
    alpha-7 run-time-1 run-time-adaptive-1000 run-time-100 adaptive-10 run-time-adaptive-10 alpha-4 alpha-6 alpha-8 alpha-9; do
    beside read_long "$name-seed$seed"
  done
done
wait
tables
echo "total $(($(date +%s) - BEGIN)) s"
