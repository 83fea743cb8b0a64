#!/usr/bin/env bash
# Do Gated DeltaNet, KDA and DeltaNet fail far past their training length, and does SANE help them?
#
#   experiments/family.sh PROGRAM FOLDER [SECONDS]
#
# For each of SEEDS and VARIANTS: pretrain a model on the text of the pair in models/, then tune it at a fifth of the
# rate without SANE (control) and with SANE of ALPHA (tuned); first has that SANE from the first step of pretraining.
# base is the pretrained model itself, and long the same trained further on texts of LONG_CONTEXT tokens, LONG_STEPS steps
# at a fifth of the rate. A variant is a rule and what is changed of it:
#
#   gdn, kda, deltanet, hybrid, rwkv7   hybrid: Gated DeltaNet, every fourth layer attention with a window of the context
#   -slow                               the bias of the decay begins DECAY_SHIFT lower: it hardly forgets
#   -beta2                              beta up to 2 in place of 1
#
# rwkv7-slow is the recipe of the pair, to compare with. Control and tuned (NAMES: some of base, long, control, tuned and
# first), and the control with SANE at run time (RUN_TIME: alphas, adaptive-A as in hundred_million.sh, and tau-T: the
# alpha that gives this tau), read one stream, with QUESTIONS before it and after 65,536, 1,048,576 and 10,485,760 tokens. All
# models of a seed are made and read the first of FAR before the next seed's; then its NAMES read the second, beside the
# next but one seed. Adaptive strengths, which take several times as long, are read to the first of FAR when all else is
# done, and SANE at run time to the second last.
#
# FOLDER/results gets losses.csv, answers.csv, norms.csv and states.csv (at 65,536 and FAR: shares of entries, mean
# over heads), each row beginning with variant,seed,model, what diagnose says of the controls, and tables.md, by
# experiments/family_table.sh.
# Killed at any moment, the same command continues. With SECONDS 0 nothing is made: what another start has found so
# far becomes tables. SCALE=tiny: see steps.sh.
# shellcheck disable=SC2034
set -u
program=$1 out=$2 limit=${3:-100000}
here=$(dirname "$(realpath "$0")")
# shellcheck source=steps.sh
. "$here/steps.sh"
# shellcheck source=pair_corpus.sh
. "$here/pair_corpus.sh"

SEEDS=${SEEDS:-"1 2 3"} ALPHA=${ALPHA:-3} RUN_TIME=${RUN_TIME-"10 adaptive-1000"} NAMES=${NAMES-"control tuned"}
VARIANTS=${VARIANTS:-"gdn-slow kda-slow deltanet rwkv7-slow gdn-slow-beta2 kda-slow-beta2 deltanet-beta2 gdn kda hybrid-slow gdn-beta2 kda-beta2"}
FAR=${FAR:-"1048576 10485760"} DECAY_SHIFT=${DECAY_SHIFT:--12} RATE_SHIFT=${RATE_SHIFT:--2.5}
LAYERS=${LAYERS:-6} CHANNELS=${CHANNELS:-256} STEPS=${STEPS:-1200} SEQUENCES=${SEQUENCES:-16} QUESTIONS=${QUESTIONS:-128}
RATE=${RATE:-1e-3} LONG_CONTEXT=${LONG_CONTEXT:-4096} LONG_STEPS=${LONG_STEPS:-150} LONG_SEQUENCES=${LONG_SEQUENCES:-2}
sequences=$SEQUENCES context=512 tune_steps=150 slower_rate=$(awk "BEGIN {print $RATE / 5}") evaluation_batches=8
near=65536 segment=65536 checkpoint=524288 head_size=64
if [ "$SCALE" = tiny ]; then
  SEEDS="1 2" VARIANTS=${TINY_VARIANTS:-"gdn-slow kda-slow-beta2 deltanet hybrid-slow"} FAR="2048 4096" LAYERS=4 CHANNELS=64 STEPS=4 QUESTIONS=2
  LONG_CONTEXT=64 LONG_STEPS=2 LONG_SEQUENCES=1
  sequences=2 context=32 tune_steps=2 evaluation_batches=1 near=1024 segment=1024 checkpoint=1024 head_size=32
fi

model_lines() {  # variant, seed: [model] of a configuration
  case $1 in
  gdn*) echo 'kind = "gated_deltanet"' ;;
  kda*) echo 'kind = "kda"' ;;
  deltanet*) echo 'kind = "delta_net"' ;;
  hybrid*) echo 'kind = "qwen3_5"' ;;
  rwkv7*) ;;
  *)
    echo "VARIANTS: expected gdn, kda, deltanet, hybrid or rwkv7 with -slow or -beta2, found '$1'" >&2
    return 1
    ;;
  esac
  case $1 in
  rwkv7-slow) echo "rate_bias_shift = $RATE_SHIFT" ;;
  rwkv7) ;;
  *) echo 'architecture = "gated_delta"' ;;
  esac
  case $1 in *-slow*) echo "decay_bias_shift = $DECAY_SHIFT" ;; esac
  case $1 in *-beta2) echo "beta_scale = 2" ;; esac
  printf 'layers = %s\nchannels = %s\nhead_size = %s\nseed = %s\n' "$LAYERS" "$CHANNELS" "$head_size" "$2"
}

# train_model ID NAME STEPS RATE CORPUS_SEED MODEL_LINES
train_model() {
  local folder=$out/train/$1-$2
  training_config "$folder" "$3" "$4" "$(corpus_of "$5" train)" "$held_out" "$6" >"$folder.toml"
  train_step "train_$1-$2" 5 "$folder.toml" "$folder"
}

# read_stream ID NAME TOKENS
read_stream() {
  local folder=$out/stream/$1-$2 trained=control flags=()
  case $2 in
  base | long | tuned | first) trained=$2 ;;
  run-time-adaptive-*) flags=(--sane-alpha "${2#run-time-adaptive-}" --sane-adaptive) ;;
  run-time-tau-*) flags=(--sane-alpha "$(awk -v tau="${2#run-time-tau-}" 'BEGIN { printf "%.6f", (tau - 1) / log(2) }')") ;;
  run-time-*) flags=(--sane-alpha "${2#run-time-}") ;;
  esac
  case $1 in hybrid*) flags+=(--attention-window "$context") ;; esac
  is_done "train_$1-$trained" || return 1
  stream_step "stream_$1-$2_$3" 5 "$folder" "$(newest_model "$out/train/$1-$trained")" "${flags[@]}" \
    --corpus "$(corpus_of "${fresh_seeds% *}" train)" --tokens "$3" --segment "$segment" --snapshots "${FAR##* }" \
    --checkpoint-every "$checkpoint" --probe-at "0,$near,${FAR// /,}" --probe-problems "$QUESTIONS" \
    --probe-corpus "math-chat:seed=${fresh_seeds#* },$brief" --probe-tokens 12 && export_records "$folder"
}

names() {
  local name
  for name in $NAMES; do echo "$name"; done
  for name in $RUN_TIME; do echo "run-time-$name"; done
}

# tune_model VARIANT SEED NAME FROM [MODEL_LINES]: the steps behind the pretraining FROM
tune_model() {
  local id=$1-seed$2 from
  from="from = \"$(newest_model "$out/train/$id-$4")\"${5:+
$5}"
  train_model "$id" "$3" $tune_steps "$slower_rate" "2$2" "$from"
}

# train_long VARIANT SEED: the base is read beside it, all of FAR
train_long() {
  if [[ $NAMES == *base* ]]; then
    { read_stream "$1-seed$2" base "${FAR%% *}" && read_on "$1" "$2" base; } &
  fi
  if [[ $NAMES == *long* ]]; then
    sequences=$LONG_SEQUENCES context=$LONG_CONTEXT tune_steps=$LONG_STEPS tune_model "$1" "$2" long base
  fi
}

# From the first step of training to the first of FAR.
make_model() {  # variant, seed
  local id=$1-seed$2 lines name sane="sane_alpha = $ALPHA"
  lines=$(model_lines "$1" "$2") || return 1
  if [ "$(names)" != first ]; then
    train_model "$id" base "$STEPS" "$RATE" "1$2" "$lines" || return 1
    train_long "$1" "$2"
    [[ $NAMES != *control* ]] || tune_model "$1" "$2" control base
    [[ $NAMES != *tuned* ]] || tune_model "$1" "$2" tuned base "$sane"
    for name in $(names | grep -v -e adaptive -e first -e base); do read_stream "$id" "$name" "${FAR%% *}"; done
    [[ $NAMES != *long* ]] || read_on "$1" "$2" long
    wait
  fi
  [[ $NAMES == *first* ]] || return 0
  train_model "$id" pre "$STEPS" "$RATE" "1$2" "$lines
$sane" && tune_model "$1" "$2" first pre "$sane" && read_stream "$id" first "${FAR%% *}"
}

# column_means FILE COLUMNS...: for each stream and position that is asked at, over heads
column_means() {
  awk -F, -v wanted="${*:2}" -v positions=" $near $FAR " '
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; n = split(wanted, w, " "); next }
    index(positions, " " $at["position"] " ") {
      key = $at["stream"] "," $at["position"]
      if (!(key in count)) order[++m] = key
      count[key]++
      for (i = 1; i <= n; i++) sum[key, i] += $at[w[i]]
    }
    END { for (j = 1; j <= m; j++) { printf "%s", order[j]; for (i = 1; i <= n; i++) printf ",%.6g", sum[order[j], i] / count[order[j]]; print "" } }' "$1"
}

# Of all that is in the folder, whatever SEEDS and VARIANTS are now. Another start may do the same at this moment.
collect() {
  local results folder id name variant seed key loss
  results=$(mktemp -d "$out/collecting.XXXXXX")
  for folder in "$out"/stream/*/; do beside export_records "${folder%/}"; done
  wait
  echo "variant,seed,model,held_out_loss" >"$results/losses.csv"
  echo "variant,seed,model,stream,position,right" >"$results/answers.csv"
  echo "variant,seed,model,stream,position,loss,cumulative_loss,norm,largest,overflow" >"$results/norms.csv"
  echo "variant,seed,model,stream,position,median,below_0.1,above_10,above_100" >"$results/states.csv"
  for folder in "$out"/stream/*/; do
    [ -e "$folder/csv/probes.csv" ] || continue
    id=$(basename "$folder") variant=${id%-seed*} name=${id##*-seed}
    seed=${name%%-*} name=${name#*-}
    key=$variant,$seed,$name
    loss=$(sed -n 's/.*held_out_loss":\([0-9.e-]*\).*/\1/p' "$out/train/$id/metrics.jsonl" 2>/dev/null | tail -n 1)
    [ -n "$loss" ] && echo "$key,$loss" >>"$results/losses.csv"
    column_rows "$folder/csv/probes.csv" "$key" stream position accuracy >>"$results/answers.csv"
    column_rows "$folder/csv/segments.csv" "$key" stream position loss cumulative_loss norm largest overflow |
      awk -F, -v dense="${FAR%% *}" -v every="$checkpoint" '$5 <= dense || $5 % every == 0 || $10 == 1' >>"$results/norms.csv"
    column_means "$folder/csv/heads.csv" median below_0.1 above_10 above_100 | sed "s/^/$key,/" >>"$results/states.csv"
    [ "$name" = control ] && "$program" diagnose "$folder" >"$results/$id-diagnosis.txt"
  done
  cp "$out"/train/*-seed1-base.toml "$out/seconds.csv" "$results" 2>/dev/null
  "$here/family_table.sh" "$results" >"$results/tables.md"
  mkdir -p "$out/results"
  mv "$results"/* "$out/results"
  rmdir "$results"
}

read_on() {  # variant, seed, name: where the first of FAR was read
  is_done "stream_$1-seed$2-$3_${FAR%% *}" && read_stream "$1-seed$2" "$3" "${FAR##* }"
}
read_seed_on() {  # seed
  local name variant
  for name in $NAMES; do
    for variant in $VARIANTS; do beside read_on "$variant" "$1" "$name"; done
  done
}

make_all() {
  local seed variant name before=""
  for seed in $SEEDS; do
    for variant in $VARIANTS; do beside make_model "$variant" "$seed"; done
    [ -n "$before" ] && read_seed_on "$before"
    before=$seed
  done
  wait
  for seed in $SEEDS; do read_seed_on "$seed"; done
  for name in $(names | grep adaptive); do
    for seed in $SEEDS; do
      for variant in $VARIANTS; do beside read_stream "$variant-seed$seed" "$name" "${FAR%% *}"; done
    done
  done
  wait
  for name in $(names | grep run-time); do
    for seed in $SEEDS; do
      for variant in $VARIANTS; do beside read_on "$variant" "$seed" "$name"; done
    done
  done
  wait
}

mkdir -p "$out/train" "$out/stream"
[ "$limit" -gt 0 ] && make_all
collect
echo "total $(($(date +%s) - BEGIN)) s"
