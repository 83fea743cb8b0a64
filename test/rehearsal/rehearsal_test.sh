#!/usr/bin/env bash
# The rehearsal of the paper's experiment (experiments/paper.sh, SCALE=tiny): a whole run, and one
# that is killed again and again and continued. Both end with the same data, scores and models.
#
#   rehearsal_test.sh PROGRAM
set -euo pipefail
program=$1 here=$(realpath "$(dirname "$0")/../..")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export SCALE=tiny ALPHAS=0,3

"$here/experiments/paper.sh" "$program" "$folder/whole" >"$folder/whole.log" 2>&1 ||
  { tail -n 20 "$folder/whole.log"; exit 1; }

# Killed after so many milliseconds; at last it may finish.
kills=0
for limit in 400 1200 2000 3000 4000 1000000; do
  setsid "$here/experiments/paper.sh" "$program" "$folder/killed" >"$folder/killed.log" 2>&1 &
  job=$! begun=$(date +%s%3N)
  while kill -0 $job 2>/dev/null && [ $(($(date +%s%3N) - begun)) -lt $limit ]; do sleep 0.05; done
  if kill -KILL -- -$job 2>/dev/null; then
    wait $job 2>/dev/null || true
    # Those it had started may still be ending, with the locks of their folders.
    for _ in $(seq 100); do kill -0 -- -$job 2>/dev/null || break; sleep 0.05; done
    kills=$((kills + 1))
    continue
  fi
  wait $job || { tail -n 20 "$folder/killed.log"; exit 1; }
  break
done
if [ $kills -lt 3 ]; then
  echo "expected a run that was killed at least 3 times, found $kills"
  exit 1
fi

for file in sft.npy table/table.csv table/table.md published/hf/README.md published/hf/model.safetensors \
  sweep/alpha-3/stream/segments.rec sweep/baseline/stream/losses.rec; do
  cmp "$folder/whole/$file" "$folder/killed/$file"
done
pictures=""
command -v gnuplot >/dev/null && pictures="table/accuracy.svg figures/perplexity_panels.svg figures/state_evolution_1.svg"
for file in $pictures sweep/sweep.md published/pth/alpha-3.pth; do
  [ -s "$folder/killed/$file" ] || { echo "expected $file, found nothing"; exit 1; }
done
echo "killed $kills times, the same table"
