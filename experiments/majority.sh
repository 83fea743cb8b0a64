#!/usr/bin/env bash
# The paper's measure, the majority of 8 sampled answers, on the shipped pair: without a prefix and after long ones.
#
#   experiments/majority.sh PROGRAM FOLDER [SECONDS]
#
# Asked are PROBLEMS (100) held-out problems of each family that the pair was trained on, with the paper's sampling
# (temperature 1, top-p 0.8, top-k 20). MODELS: baseline, tuned (the shipped SANE model) and run-time-A (the baseline
# with SANE at run time). PREFIXES are numbers of tokens read before; the baseline is asked up to BASELINE_TO, behind
# which it overflows. Needs no GPU.
#
# FOLDER gets scores.csv (model, prefix, family, share right) and, for each prefix, compare-PREFIX.md: paired tests over
# families and over single problems against the first of MODELS. Killed at any moment, the same command continues.
# SCALE=tiny: see steps.sh.
# shellcheck disable=SC2034
set -u
program=$1 out=$2 limit=${3:-100000}
here=$(dirname "$(realpath "$0")")
export DEVICE=${DEVICE:-cpu} JOBS=${JOBS:-1}
# shellcheck source=steps.sh
. "$here/steps.sh"
# shellcheck source=pair_corpus.sh
. "$here/pair_corpus.sh"

MODELS=${MODELS:-"baseline tuned run-time-10"} PREFIXES=${PREFIXES:-"0 65536 196608"} PROBLEMS=${PROBLEMS:-100}
BASELINE_TO=${BASELINE_TO:-524288}
families="addition subtraction comparison story"
[ "$SCALE" = tiny ] && PREFIXES="0 512" PROBLEMS=2 families="addition story"

ask() {  # model, prefix
  local words=("$here/../models/arithmetic-baseline.safetensors")
  case $1 in
  baseline) [ "$2" -le "$BASELINE_TO" ] || return 0 ;;
  tuned) words=("$here/../models/arithmetic-sane-3.safetensors") ;;
  run-time-*) words+=(--sane-alpha "${1#run-time-}") ;;
  *)
    echo "MODELS: expected baseline, tuned or run-time-A, found '$1'"
    return 1
    ;;
  esac
  [ "$2" -gt 0 ] && words+=(--prefix-corpus "$(corpus_of "${fresh_seeds% *}" train)" --prefix-tokens "$2")
  step "eval_$1-$2" 5 "$program" eval "${words[@]}" --device "$DEVICE" --threads "$THREADS" \
    --suite "$out/suite/families.toml" --out "$out/eval/$2/$1" --samples 8 --temperature 1 --top-p 0.8 --top-k 20 \
    --tokens 24 --batch 64 --stop $'\n\n'
}

# shellcheck disable=SC2086
write_suite "$PROBLEMS" level=2,style=brief,seed="${fresh_seeds#* }" $families || exit 1
for prefix in $PREFIXES; do
  for model in $MODELS; do beside ask "$model" "$prefix"; done
done
wait
echo "model,prefix,family,right" >"$out/scores.csv"
for prefix in $PREFIXES; do
  runs=()
  for model in $MODELS; do
    is_done "eval_$model-$prefix" || continue
    runs+=("$out/eval/$prefix/$model")
    family_scores "$out/eval/$prefix/$model/problems.jsonl" | sed "s/^/$model,$prefix,/" >>"$out/scores.csv"
  done
  [ ${#runs[@]} -gt 1 ] && "$program" compare "${runs[@]}" --threads 1 >"$out/compare-$prefix.md"
done
cat "$out/scores.csv"
echo "total $(($(date +%s) - BEGIN)) s"
