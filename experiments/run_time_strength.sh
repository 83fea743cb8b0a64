#!/usr/bin/env bash
# SANE put on the shipped baseline at run time, without training: fixed strengths, and ones that
# follow each head (--sane-adaptive). Needs no GPU.
#
#   experiments/run_time_strength.sh PROGRAM FOLDER [SECONDS]
#
# FOLDER gets strengths.csv: accuracy before the stream, after 4,096 and after TOKENS (65,536)
# tokens, mean over STREAMS (2). FIXED, ADAPTIVE, MODEL and WITHOUT= (no
# baseline) can be set too.
# shellcheck disable=SC2034
set -u
program=$1 out=$2 limit=${3:-100000}
here=$(dirname "$(realpath "$0")")
export DEVICE=${DEVICE:-cpu} JOBS=${JOBS:-1}
# shellcheck source=steps.sh
. "$here/steps.sh"

FIXED=${FIXED-"10 100 1000 3 30"} ADAPTIVE=${ADAPTIVE-"1000 100 10"} STREAMS=${STREAMS:-2}
MODEL=${MODEL:-$here/../models/arithmetic-baseline.safetensors}
tokens=${TOKENS:-65536} questions=64
[ "$SCALE" = tiny ] && tokens=4096 questions=4 FIXED=10 ADAPTIVE=1000
brief="level=2,style=brief,family=addition+subtraction"
corpus="mixed:0.7*(math-chat:seed=9,split=train,$brief)+0.3*(math-chat:seed=9,split=train,level=1-2,style=sentence,family=addition+subtraction+comparison+story)"

read_with() {  # name, flags
  local name=$1
  shift
  stream_step "$name" 10 "$out/$name" "$MODEL" "$@" --corpus "$corpus" --streams "$STREAMS" \
    --tokens "$tokens" --segment 4096 --snapshots "$tokens" --checkpoint-every 16384 \
    --probe-at "0,4096,$tokens" --probe-corpus "math-chat:$brief" --probe-problems "$questions" \
    --probe-tokens 12 && "$program" records "$out/$name" --csv "$out/$name/csv" >/dev/null
}

[ -n "${WITHOUT-yes}" ] && beside read_with none
for alpha in $ADAPTIVE; do beside read_with "adaptive-$alpha" --sane-alpha "$alpha" --sane-adaptive; done
for alpha in $FIXED; do beside read_with "fixed-$alpha" --sane-alpha "$alpha"; done
wait
echo "strength,accuracy_0,accuracy_4096,accuracy_$tokens,error_$tokens,norm_$tokens,loss_$tokens,mean_tau_$tokens,lowest_tau_$tokens" >"$out/strengths.csv"
for folder in "$out"/*/; do
  csv=$folder/csv
  [ -e "$csv/probes.csv" ] || continue
  at() { csv_column "$csv/probes.csv" accuracy position "$1"; }
  echo "$(basename "$folder"),$(at 0 | mean),$(at 4096 | mean),$(at "$tokens" | mean),$(at "$tokens" | standard_error),$(csv_column "$csv/segments.csv" norm position "$tokens" | mean),$(csv_column "$csv/segments.csv" cumulative_loss position "$tokens" | mean),$(csv_column "$csv/heads.csv" tau_mean position "$tokens" | mean),$(csv_column "$csv/heads.csv" tau_low position "$tokens" | sort -g | head -n 1)" >>"$out/strengths.csv"
done
cat "$out/strengths.csv"
echo "total $(($(date +%s) - BEGIN)) s"
