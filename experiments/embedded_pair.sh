#!/usr/bin/env bash
# Trains the pair of models in models/: a byte-level RWKV-7 that hardly forgets, and the same one
# with SANE, alpha 3; and says what they do on streams that had no part in choosing them.
#
#   experiments/embedded_pair.sh PROGRAM FOLDER [SECONDS]
#
# STAGES, "choose fresh spread" if not set, are made in this order:
#
#   choose    Which shift of the in-context rate's bias shows the failure best is tried out. For
#             each variant: train the baseline; graft SANE and train on, 300 steps at a fifth of the
#             rate; let both read 196,608 bytes in several streams, with questions before, along the
#             way and after. The variant is kept that meets most of these, and of several the one
#             whose baseline ends with the lowest accuracy:
#               the baseline's accuracy at the start is 0.9 or more
#               the baseline's accuracy at the end is below 0.3
#               the baseline's state norm at the end is 1,000 times that after the training length
#               SANE's accuracy at the end is within 0.05 of its own at the start
#   fresh     the pair that was kept reads other streams and is asked other questions
#   spread    the recipe of the pair that was kept is trained with other seeds, of the weights and of the
#             text, and these pairs read the streams of `fresh`
#   shipped   nothing is trained: the files in models/ read the streams of `fresh`. On a processor:
#             STAGES=shipped DEVICE=cpu experiments/embedded_pair.sh PROGRAM FOLDER
#
# FOLDER gets variants.csv, choice.txt and chosen/{baseline,sane}.safetensors in bf16 with their
# configurations; pairs.csv (a row per stream and position of every pair that read the fresh streams; one that
# overflowed has 0 right from there on, and its last finite norm), pairs.md and spread.md (experiments/spread_table.sh).
# VARIANTS, CHOICE (instead of choosing), SPREAD_SEEDS, STREAMS, DEVICE, JOBS and SCALE can be set;
# see steps.sh.
# shellcheck disable=SC2034
set -u
program=$1 out=$2 limit=${3:-100000}
here=$(dirname "$(realpath "$0")")
# shellcheck source=steps.sh
. "$here/steps.sh"
# shellcheck source=pair_corpus.sh
. "$here/pair_corpus.sh"

# rate bias shift, decay bias shift, steps, seed
VARIANTS=${VARIANTS:-"-1.5:-12:2000:1 -2:-12:2000:1 -2.5:-12:2000:1 -1:-12:2000:1"}
STAGES=${STAGES:-"choose fresh spread"} SPREAD_SEEDS=${SPREAD_SEEDS:-"2 3"} STREAMS=${STREAMS:-8}
MODELS=${MODELS:-$here/../models}
layers=6 channels=256 sequences=32 context=512 tune_steps=300 rate=1e-3 tokens=196608 segment=4096
questions=64 evaluation_batches=8 alpha=3 recipe="-2.5:-12:2000:1"
if [ "$SCALE" = tiny ]; then
  VARIANTS="-1.5:-12:30:1 -2:-12:30:1" STREAMS=2 SPREAD_SEEDS=2
  layers=2 channels=64 sequences=4 context=64 tune_steps=10 rate=4e-3 tokens=12288 segment=256
  questions=8 evaluation_batches=1 recipe="-2:-12:30:1"
fi
asked_at="0 $((tokens / 48)) $((tokens / 12)) $((tokens / 3)) $tokens"
seeds_to_choose="9 0"  # of the stream and of the questions

# stream_model FOLDER MODEL NAME SEED QUESTIONS: its norm after the training length, then the stream
stream_model() {
  stream_step "start_$3" 5 "$1-start" "$2" --corpus "$(corpus_of "$4" train)" \
    --streams "$STREAMS" --tokens "$context" --segment "$context" --snapshots "$context" || return 1
  stream_step "stream_$3" 10 "$1" "$2" --corpus "$(corpus_of "$4" train)" --streams "$STREAMS" \
    --probe-corpus "math-chat:seed=$5,$brief" --probe-problems "$questions" --probe-tokens 12 \
    --tokens "$tokens" --segment "$segment" --snapshots "$tokens" --checkpoint-every "$((tokens / 12))" \
    --probe-at "${asked_at// /,}" || return 1
  export_records "$1-start" && export_records "$1"
}

# train_baseline NAME FOLDER; train_sane NAME FOLDER. NAME: rate:decay:steps:seed
train_baseline() {
  local rate_shift decay_shift steps seed
  IFS=: read -r rate_shift decay_shift steps seed <<<"$1"
  mkdir -p "$2"
  training_config "$2/baseline" "$steps" "$rate" "$(corpus_of "$seed" train)" "$held_out" \
    "layers = $layers
channels = $channels
head_size = 64
seed = $seed
decay_bias_shift = $decay_shift
rate_bias_shift = $rate_shift" >"$2/baseline.toml"
  train_step "train_$1" 25 "$2/baseline.toml" "$2/baseline"
}
train_sane() {
  training_config "$2/sane" "$tune_steps" "$(awk "BEGIN {print $rate / 5}")" \
    "$(corpus_of "${1##*:}" train)" "$held_out" "from = \"$(newest_model "$2/baseline")\"
sane_alpha = $alpha" >"$2/sane.toml"
  train_step "tune_$1" 8 "$2/sane.toml" "$2/sane"
}

try_variant() {
  local folder="$out/variant_$1" kind
  for kind in baseline sane; do
    "train_$kind" "$1" "$folder" || return 1
    # shellcheck disable=SC2086
    stream_model "$folder/$kind-stream" "$(newest_model "$folder/$kind")" "${kind}_$1" \
      $seeds_to_choose || return 1
  done
}

# accuracy at the start and the end, norm at the start and the end, standard error
figures_of() {
  echo "$(csv_column "$1/csv/probes.csv" accuracy position 0 | mean),$(csv_column "$1/csv/probes.csv" accuracy position "$tokens" | mean),$(csv_column "$1-start/csv/segments.csv" norm position "$context" | mean),$(csv_column "$1/csv/segments.csv" norm position "$tokens" | mean),$(csv_column "$1/csv/probes.csv" accuracy position "$tokens" | standard_error)"
}

choose() {
  echo "variant,met,accuracy_start,accuracy_end,norm_start,norm_end,standard_error,sane_accuracy_start,sane_accuracy_end,sane_norm_start,sane_norm_end,sane_standard_error" >"$out/variants.csv"
  local variant folder
  for variant in $VARIANTS; do
    folder="$out/variant_$variant"
    is_done "stream_sane_$variant" || continue
    echo "$variant,$(figures_of "$folder/baseline-stream"),$(figures_of "$folder/sane-stream")" |
      awk -F, -v OFS=, '{
        met = ($2 >= 0.9) + ($3 != "" && $3 < 0.3) + ($4 > 0 && $5 >= 1000 * $4) + \
              ($8 != "" && ($8 - $7) ^ 2 <= 0.0025)
        $1 = $1 OFS met; print }' >>"$out/variants.csv"
  done
  tail -n +2 "$out/variants.csv" | sort -t, -k2,2nr -k4,4n | head -n 1 | cut -d, -f1 >"$out/choice.txt"
  cat "$out/variants.csv"
  echo "kept: $(cat "$out/choice.txt")"
}

# keep_pair NAME FOLDER TO: the pair in 16 bits, as it is shipped
keep_pair() {
  local kind
  mkdir -p "$3"
  for kind in baseline sane; do
    is_done "kept_$kind-$1" && continue
    "$program" convert "$(newest_model "$2/$kind")" "$3/$kind.safetensors" --type bf16 || return 1
    cp "$2/$kind.toml" "$3/$kind.toml"
    cp "$2/$kind/metrics.jsonl" "$3/$kind.metrics.jsonl"
    touch "$out/done/kept_$kind-$1"
  done
}

# read_fresh PAIR KIND MODEL
read_fresh() {
  # shellcheck disable=SC2086
  stream_model "$out/fresh/$1/$2" "$3" "fresh_$2-$1" $fresh_seeds
}

other_seed() {  # rate:decay:steps:seed
  local folder="$out/variant_$1" pair="seed-${1##*:}" kind
  train_baseline "$1" "$folder" && train_sane "$1" "$folder" &&
    keep_pair "$1" "$folder" "$out/fresh/$pair/models" || return 1
  for kind in baseline sane; do
    read_fresh "$pair" "$kind" "$out/fresh/$pair/models/$kind.safetensors"
  done
}

# pairs.csv as a table: means over streams with their standard errors.
pairs_in_markdown() {
  echo "| pair | tokens | baseline: right | norm | SANE: right | norm |"
  echo "|---|--:|--:|--:|--:|--:|"
  awk -F, 'NR > 1 {
      row = $1 " | " $3; if (!(row in seen)) { seen[row] = 1; rows[++m] = row }
      k = row SUBSEP $2; n[k]++; s[k] += $5; q[k] += $5 * $5; v[k] += $6 }
    function cells(k) {
      if (!n[k]) return " | "
      e = n[k] > 1 ? (q[k] - s[k] * s[k] / n[k]) / (n[k] - 1) / n[k] : 0
      return sprintf("%.3f ± %.3f | %.3g", s[k] / n[k], sqrt(e > 0 ? e : 0), v[k] / n[k]) }
    END { for (i = 1; i <= m; i++) printf "| %s | %s | %s |\n", rows[i], cells(rows[i] SUBSEP "baseline"), cells(rows[i] SUBSEP "sane") }'
}

# A row per pair, model, position and stream; the first norm is that after the training length.
collect() {
  local pair kind folder
  echo "pair,model,position,stream,accuracy,norm" >"$out/pairs.csv"
  for folder in "$out"/fresh/*/{baseline,sane}; do
    [ -e "$folder/csv/probes.csv" ] || continue
    kind=$(basename "$folder") pair=$(basename "$(dirname "$folder")")
    awk -F, -v OFS=, -v name="$pair,$kind" -v asked_at="$asked_at" '
      FNR == 1 { split("", at); for (i = 1; i <= NF; i++) at[$i] = i; file++; next }
      file < 3 { norm[file == 1 ? 0 : $at["position"], $at["stream"]] = $at["norm"] }
      file == 2 && $at["overflow"] == 1 { broke[$at["stream"]] = $at["position"]; last[$at["stream"]] = $at["norm"] }
      file == 3 { print name, $at["position"], $at["stream"], $at["accuracy"],
          norm[$at["position"], $at["stream"]] }
      END {
        n = split(asked_at, position, " ")
        for (stream in broke)
          for (i = 1; i <= n; i++)
            if (position[i] + 0 > broke[stream] + 0) print name, position[i], stream, 0, last[stream]
      }' \
      "$folder-start/csv/segments.csv" "$folder/csv/segments.csv" "$folder/csv/probes.csv" \
      >>"$out/pairs.csv"
  done
  pairs_in_markdown <"$out/pairs.csv" | tee "$out/pairs.md"
  "$here/spread_table.sh" "$out/pairs.csv" >"$out/spread.md"
}

make_stages() {
  local stage variant kind seed
  for stage in $STAGES; do
    case $stage in
    choose)
      for variant in $VARIANTS; do beside try_variant "$variant"; done
      wait
      choose
      CHOICE=$(cat "$out/choice.txt")
      [ -n "$CHOICE" ] && keep_pair "$CHOICE" "$out/variant_$CHOICE" "$out/chosen"
      ;;
    fresh)
      for kind in baseline sane; do
        [ -e "$out/chosen/$kind.safetensors" ] &&
          beside read_fresh chosen "$kind" "$out/chosen/$kind.safetensors"
      done
      ;;
    spread)
      recipe=${CHOICE:-$recipe}
      for seed in $SPREAD_SEEDS; do beside other_seed "${recipe%:*}:$seed"; done
      ;;
    shipped)
      beside read_fresh shipped baseline "$MODELS/arithmetic-baseline.safetensors"
      beside read_fresh shipped sane "$MODELS/arithmetic-sane-3.safetensors"
      ;;
    *)
      echo "STAGES: expected choose, fresh, spread or shipped, found '$stage'"
      exit 2
      ;;
    esac
  done
}

[ "$limit" -gt 0 ] && make_stages
wait
collect
echo "total $(($(date +%s) - BEGIN)) s"
