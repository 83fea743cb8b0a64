#!/usr/bin/env bash
# Trains the pair of models in models/: a byte-level RWKV-7 that hardly forgets, and the same one
# with SANE, alpha 3. Which shift of the in-context rate's bias shows the failure best is tried out.
#
#   experiments/embedded_pair.sh PROGRAM FOLDER [SECONDS]
#
# For each variant: train the baseline; graft SANE and train on, 300 steps at a fifth of the rate;
# let both read 196,608 bytes in several streams, with questions before, along the way and after.
# Then the variant is kept that meets most of these, and of several the one whose baseline ends
# with the lowest accuracy:
#
#   the baseline's accuracy at the start is 0.9 or more
#   the baseline's accuracy at the end is below 0.3
#   the baseline's state norm at the end is 1,000 times that after the training length, or more
#   SANE's accuracy at the end is within 0.05 of its own at the start
#
# FOLDER gets variants.csv, choice.txt and chosen/{baseline,sane}.safetensors in bf16 with their
# configurations. VARIANTS, STREAMS, DEVICE, JOBS and SCALE can be set; see steps.sh.
# shellcheck disable=SC2034
set -u
program=$1 out=$2 limit=${3:-100000}
# shellcheck source=steps.sh
. "$(dirname "$0")/steps.sh"

# rate bias shift, decay bias shift, steps, seed
VARIANTS=${VARIANTS:-"-1.5:-12:2000:1 -2:-12:2000:1 -2.5:-12:2000:1 -1:-12:2000:1"}
STREAMS=${STREAMS:-8}
layers=6 channels=256 sequences=32 context=512 tune_steps=300 rate=1e-3 tokens=196608 segment=4096
questions=64 evaluation_batches=8 alpha=3
if [ "$SCALE" = tiny ]; then
  VARIANTS="-1.5:-12:30:1 -2:-12:30:1" STREAMS=2
  layers=2 channels=64 sequences=4 context=64 tune_steps=10 rate=4e-3 tokens=8192 segment=1024
  questions=8 evaluation_batches=1
fi
brief="level=2,style=brief,family=addition+subtraction"
corpus_of() {  # seed, split
  echo "mixed:0.7*(math-chat:seed=$1,split=$2,$brief)+0.3*(math-chat:seed=$1,split=$2,level=1-2,style=sentence,family=addition+subtraction+comparison+story)"
}
learned=$(corpus_of 1 train) held_out=$(corpus_of 2 held-out) streamed=$(corpus_of 9 train)
probe=(--corpus "$streamed" --streams "$STREAMS" --probe-corpus "math-chat:$brief"
  --probe-problems "$questions" --probe-tokens 12)

# One model: its norm after the training length, then the long stream.
stream_model() {  # folder, model, name
  stream_step "start_$3" 5 "$1-start" "$2" --corpus "$streamed" --streams "$STREAMS" \
    --tokens "$context" --segment "$context" --snapshots "$context" || return 1
  stream_step "stream_$3" 10 "$1" "$2" "${probe[@]}" --tokens "$tokens" --segment "$segment" \
    --checkpoint-every "$tokens" --probe-at "0,$((tokens / 48)),$((tokens / 12)),$((tokens / 3)),$tokens" || return 1
  "$program" records "$1-start" --csv "$1-start/csv" >/dev/null
  "$program" records "$1" --csv "$1/csv" >/dev/null
}

try_variant() {  # rate:decay:steps:seed
  local name=$1 folder="$out/variant_$1" model
  IFS=: read -r rate_shift decay_shift steps seed <<<"$1"
  mkdir -p "$folder"
  training_config "$folder/baseline" "$steps" "$rate" "$learned" "$held_out" \
    "layers = $layers
channels = $channels
head_size = 64
seed = $seed
decay_bias_shift = $decay_shift
rate_bias_shift = $rate_shift" >"$folder/baseline.toml"
  train_step "train_$name" 25 "$folder/baseline.toml" "$folder/baseline" || return 1
  model=$(newest_model "$folder/baseline")
  training_config "$folder/sane" "$tune_steps" "$(awk "BEGIN {print $rate / 5}")" "$learned" \
    "$held_out" "from = \"$model\"
sane_alpha = $alpha" >"$folder/sane.toml"
  stream_model "$folder/baseline-stream" "$model" "baseline_$name" || return 1
  train_step "tune_$name" 8 "$folder/sane.toml" "$folder/sane" || return 1
  stream_model "$folder/sane-stream" "$(newest_model "$folder/sane")" "sane_$name"
}

figures_of() {  # folder of a stream: accuracy at the start, at the end, norm at the start, at the end, error
  echo "$(csv_column "$1/csv/probes.csv" accuracy position 0 | mean),$(csv_column "$1/csv/probes.csv" accuracy position "$tokens" | mean),$(csv_column "$1-start/csv/segments.csv" norm position "$context" | mean),$(csv_column "$1/csv/segments.csv" norm position "$tokens" | mean),$(csv_column "$1/csv/probes.csv" accuracy position "$tokens" | standard_error)"
}

choose() {
  echo "variant,met,accuracy_start,accuracy_end,norm_start,norm_end,standard_error,sane_accuracy_start,sane_accuracy_end,sane_norm_start,sane_norm_end,sane_standard_error" >"$out/variants.csv"
  local variant folder
  for variant in $VARIANTS; do
    folder="$out/variant_$variant"
    [ -e "$folder/baseline-stream/csv/probes.csv" ] || continue
    local sane=",,,,"
    [ -e "$folder/sane-stream/csv/probes.csv" ] && sane=$(figures_of "$folder/sane-stream")
    echo "$variant,$(figures_of "$folder/baseline-stream"),$sane" | awk -F, -v OFS=, '{
      met = ($2 >= 0.9) + ($3 != "" && $3 < 0.3) + ($4 > 0 && $5 >= 1000 * $4) + \
            ($8 != "" && ($8 - $7) ^ 2 <= 0.0025)
      $1 = $1 OFS met; print }' >>"$out/variants.csv"
  done
  tail -n +2 "$out/variants.csv" | sort -t, -k2,2nr -k4,4n | head -n 1 | cut -d, -f1 >"$out/choice.txt"
  cat "$out/variants.csv"
  echo "kept: $(cat "$out/choice.txt")"
}

keep_chosen() {
  local folder kind
  folder="$out/variant_$(cat "$out/choice.txt")"
  mkdir -p "$out/chosen"
  for kind in baseline sane; do
    local model
    model=$(newest_model "$folder/$kind")
    [ -n "$model" ] || continue
    "$program" convert "$model" "$out/chosen/$kind.safetensors" --type bf16
    cp "$folder/$kind.toml" "$out/chosen/$kind.toml"
    cp "$folder/$kind/metrics.jsonl" "$out/chosen/$kind.metrics.jsonl"
  done
}

for variant in $VARIANTS; do beside try_variant "$variant"; done
wait
choose
[ -s "$out/choice.txt" ] && keep_chosen
echo "total $(($(date +%s) - BEGIN)) s"
