#!/usr/bin/env bash
# A hundred million tokens of the shipped baseline and of what SANE makes of it: which alphas keep its answers?
#
#   experiments/hundred_million.sh PROGRAM FOLDER [SECONDS]
#
# For each of ALPHAS ("1 3 5 8 10 20 50 100 300"): graft SANE to models/arithmetic-baseline.safetensors and train
# 300 steps at a fifth of the rate, as the shipped SANE model was made. For each of RUN_TIME ("0.3 1 3 10 100"): the
# baseline itself with SANE at run time; "adaptive-A": with --sane-adaptive, begun at alpha A. All of them, the baseline
# and the shipped SANE model read TOKENS (100,000,000) in STREAMS (1; the shipped pair: PAIR_STREAMS, 8) streams, and
# answer 64 questions after 0, 65,536, 1,000,000, 10,000,000 and all tokens.
#
# FOLDER gets answers.csv (model, stream, position, right; a stream that overflowed ends there),
# norms.csv (model, stream, position, loss of the segment, loss of all, norm, largest entry; past a million tokens every
# sixteenth record) and, of each model, stream/MODEL with its records. Killed at any moment, the same command continues. SCALE=tiny: see steps.sh.
# shellcheck disable=SC2034
set -u
program=$1 out=$2 limit=${3:-100000}
here=$(dirname "$(realpath "$0")")
# shellcheck source=steps.sh
. "$here/steps.sh"
# shellcheck source=pair_corpus.sh
. "$here/pair_corpus.sh"

ALPHAS=${ALPHAS:-"1 3 5 8 10 20 50 100 300"} RUN_TIME=${RUN_TIME:-"adaptive-1000 0.3 1 3 10 100"}
STREAMS=${STREAMS:-1} PAIR_STREAMS=${PAIR_STREAMS:-8} TOKENS=${TOKENS:-100000000}
MODELS=${MODELS:-$here/../models}
sequences=32 context=512 tune_steps=300 rate=2e-4 evaluation_batches=8 segment=65536 questions=64
if [ "$SCALE" = tiny ]; then
  ALPHAS="3" RUN_TIME="adaptive-1000" PAIR_STREAMS=2 TOKENS=4096
  sequences=2 context=64 tune_steps=2 evaluation_batches=1 segment=1024 questions=4
fi
asked_at=0
for position in 65536 1000000 10000000; do
  [ $position -lt "$TOKENS" ] && asked_at=$asked_at,$position
done
asked_at=$asked_at,$TOKENS

# read_stream NAME MODEL STREAMS FLAGS...
read_stream() {
  local name=$1 model=$2 streams=$3
  shift 3
  # shellcheck disable=SC2086
  set -- "$@" --corpus "$(corpus_of ${fresh_seeds% *} train)" --streams "$streams" \
    --probe-corpus "math-chat:seed=${fresh_seeds#* },$brief" --probe-problems "$questions" --probe-tokens 12 \
    --tokens "$TOKENS" --segment "$segment" --probe-at "$asked_at" --checkpoint-every $((TOKENS / 16))
  stream_step "stream_$name" 30 "$out/stream/$name" "$model" "$@" && export_records "$out/stream/$name"
}

tune() {  # ALPHA
  local folder=$out/tuned/alpha-$1
  mkdir -p "$folder"
  training_config "$folder/run" "$tune_steps" "$rate" "$(corpus_of 1 train)" "$held_out" \
    "from = \"$MODELS/arithmetic-baseline.safetensors\"
sane_alpha = $1" >"$folder/run.toml"
  train_step "tune_$1" 10 "$folder/run.toml" "$folder/run" &&
    read_stream "alpha-$1" "$(newest_model "$folder/run")" "$STREAMS"
}

at_run_time() {  # ALPHA or adaptive-ALPHA
  local flags=(--sane-alpha "${1#adaptive-}")
  [ "$1" != "${1#adaptive-}" ] && flags+=(--sane-adaptive)
  read_stream "run-time-$1" "$MODELS/arithmetic-baseline.safetensors" "$STREAMS" "${flags[@]}"
}

# Of each stream the first million tokens, then every sixteenth record, and the last.
sparse_rows() {
  awk -F, -v every=$((16 * segment)) '
    $3 <= every || $3 % every == 0 { print; last[$2] = ""; next }
    { last[$2] = $0 }
    END { for (stream in last) if (last[stream] != "") print last[stream] }'
}
summarise() {
  echo "model,stream,position,right" >"$out/answers.csv.new"
  echo "model,stream,position,loss,cumulative_loss,norm,largest" >"$out/norms.csv.new"
  local folder name
  for folder in "$out"/stream/*/; do
    name=$(basename "$folder")
    export_records "${folder%/}" || continue
    column_rows "$folder/csv/probes.csv" "$name" stream position accuracy >>"$out/answers.csv.new"
    column_rows "$folder/csv/segments.csv" "$name" stream position loss cumulative_loss norm largest |
      sparse_rows >>"$out/norms.csv.new"
  done
  mv "$out/answers.csv.new" "$out/answers.csv"
  mv "$out/norms.csv.new" "$out/norms.csv"
}

beside read_stream baseline "$MODELS/arithmetic-baseline.safetensors" "$PAIR_STREAMS"
beside read_stream shipped-sane-3 "$MODELS/arithmetic-sane-3.safetensors" "$PAIR_STREAMS"
for alpha in $ALPHAS; do beside tune "$alpha"; done
for alpha in $RUN_TIME; do beside at_run_time "$alpha"; done
wait
summarise
cat "$out/answers.csv"
