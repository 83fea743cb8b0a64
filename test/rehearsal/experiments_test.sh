#!/usr/bin/env bash
# The rehearsal of experiments/family.sh and experiments/hundred_million.sh (SCALE=tiny) through
# experiments/on_a_gpu.sh: a whole run, and one that is killed twice and continued. Both end with the same results,
# every model has answered at every length, and what was found is packed. Then the parts that are those scripts with
# other settings, experiments/majority.sh, and the tables of known results.
#
#   experiments_test.sh PROGRAM
set -euo pipefail
program=$(realpath "$1") here=$(realpath "$(dirname "$0")/../..")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export SCALE=tiny DEVICE=cpu THREADS=1 JOBS=2 PARTS="family million" TINY_VARIANTS="kda-slow-beta2 hybrid-slow"

run() {  # name
  WORK=$folder/$1 exec "$here/experiments/on_a_gpu.sh" "$program" "$folder/$1-packed" 600
}
(run whole) >"$folder/whole.log" 2>&1 || { tail -n 20 "$folder/whole.log"; exit 1; }

for limit in 2 4; do
  (exec setsid bash -c "$(declare -f run); folder=$folder here=$here program=$program; run killed") >"$folder/killed.log" 2>&1 &
  job=$!
  sleep $limit
  kill -KILL -- -$job 2>/dev/null || { echo "expected a run longer than $limit s, found one that ended"; exit 1; }
  wait $job 2>/dev/null || true
  # Those it had started may still be ending, with the locks of their folders.
  for _ in $(seq 100); do kill -0 -- -$job 2>/dev/null || break; sleep 0.05; done
done
# As if the second kill had hit a checkpoint that was being saved.
mkdir -p "$folder/killed/family/train/hybrid-slow-seed2-tuned/step_00000001.tmp-0"
touch "$folder/killed/family/train/hybrid-slow-seed2-tuned/step_00000001.tmp-0/model.safetensors"
(run killed) >"$folder/killed.log" 2>&1 || { tail -n 20 "$folder/killed.log"; exit 1; }

expect_rows() {  # file, rows
  local rows
  rows=$(($(wc -l <"$folder/whole/$1") - 1))
  [ $rows = "$2" ] || { echo "$1: expected $2 rows, found $rows"; cat "$folder/whole.log"; exit 1; }
}
expect_rows family/results/answers.csv 64  # 2 variants, 2 seeds, 4 models each, 4 lengths
expect_rows family/results/losses.csv 8    # control and tuned
expect_rows million/answers.csv 12         # 2 streams of the pair, one tuned, one adaptive; 2 lengths
for file in family/results/{losses,answers,norms,states}.csv million/{answers,norms}.csv; do
  diff "$folder/whole/$file" "$folder/killed/$file"
done
for part in $PARTS; do
  [ "$(tar -tzf "$folder/killed-packed/$part.tar.gz" | grep -c answers.csv)" = 1 ] ||
    { echo "$part.tar.gz: expected one answers.csv"; exit 1; }
done

PARTS="low-tau larger far" TINY_VARIANTS=deltanet
(run whole) >"$folder/whole.log" 2>&1 || { tail -n 20 "$folder/whole.log"; exit 1; }
PARTS="usual languages" TINY_VARIANTS=rwkv7
(run whole) >>"$folder/whole.log" 2>&1 || { tail -n 20 "$folder/whole.log"; exit 1; }
expect_rows low-tau/results/answers.csv 32  # one variant, 2 seeds, control and 3 strengths, 4 lengths
expect_rows larger/results/answers.csv 32   # control, tuned, from the first step, one strength
expect_rows larger/results/losses.csv 6
expect_rows usual/results/answers.csv 16  # 2 seeds, short and long texts, 4 lengths
expect_rows usual/results/losses.csv 4
grep -q '^context = 64$' "$folder/whole/usual/train/rwkv7-seed1-long.toml" || { echo "usual: expected longer texts"; exit 1; }
grep -q 'held-out,language=both)' "$folder/whole/usual/train/rwkv7-seed1-base.toml" || { echo "usual: expected a wide text"; exit 1; }
expect_rows languages/results/answers.csv 24  # control, tuned, one strength
grep -q 'story,language=both)' "$folder/whole/languages/train/rwkv7-seed1-tuned.toml" ||
  { echo "languages: expected training on both"; exit 1; }
PARTS=first TINY_VARIANTS=deltanet
(run whole) >>"$folder/whole.log" 2>&1 || { tail -n 20 "$folder/whole.log"; exit 1; }
expect_rows first/results/answers.csv 8
[ ! -e "$folder/whole/first/train/deltanet-seed1-base" ] || { echo "NAMES=first: expected no pretraining without SANE"; exit 1; }
expect_rows far/results/losses.csv 8  # 2 seeds, 3 alphas and one at run time
diff <(sed -n 's/^sane_alpha = //p' "$folder"/whole/larger/train/deltanet-seed1-{pre,first}.toml) - <<<$'3\n3'
for part in low-tau larger far usual languages; do
  [ "$(tar -tzf "$folder/whole-packed/$part.tar.gz" | grep -c results/losses.csv)" = 1 ] ||
    { echo "$part.tar.gz: expected one results/losses.csv"; exit 1; }
done
for part in low-tau larger; do  # no model was read in place of another
  [ "$(grep deltanet,1, "$folder/whole/$part/results/norms.csv" | grep ,4096, | cut -d, -f8 | sort -u | wc -l)" = 4 ] ||
    { echo "$part: expected 4 norms after 4096 tokens"; cat "$folder/whole/$part/results/norms.csv"; exit 1; }
done
if PARTS=other "$here/experiments/on_a_gpu.sh" "$program" "$folder/other" 600 >"$folder/other.log" 2>&1 ||
  ! grep -q "found 'other'" "$folder/other.log"; then
  echo "expected PARTS=other refused, found"
  cat "$folder/other.log"
  exit 1
fi

"$here/experiments/majority.sh" "$program" "$folder/whole/majority" >"$folder/whole.log" 2>&1
expect_rows majority/scores.csv 12  # 3 models, 2 prefixes, 2 families
grep -q McNemar "$folder/whole/majority/compare-512.md" || { echo "compare-512.md: expected McNemar's test"; exit 1; }

# The tables of known results: norms that grow as the length and as its root, and a stream that overflowed.
made=$folder/made
mkdir "$made"
echo "variant,seed,model,held_out_loss" >"$made/losses.csv"
echo "variant,seed,model,stream,position,median,below_0.1,above_10,above_100" >"$made/states.csv"
printf '%s\n' variant,seed,model,stream,position,right a,1,control,0,{0,1000,4000},0.75 a,2,control,0,{0,1000},0.25 \
  >"$made/answers.csv"
printf '%s\n' variant,seed,model,stream,position,loss,cumulative_loss,norm,largest,overflow \
  a,1,control,0,1000,1,1,10,1,0 a,1,control,0,2000,1,1,20,1,0 a,1,control,0,4000,1,1,40,1,0 \
  a,2,control,0,1000,1,2,10,1,0 a,2,control,0,2000,1,2,20,1,0 a,2,control,0,3000,1,2,30,1,0 a,2,control,0,3500,1,3,9e9,1,1 \
  >"$made/norms.csv"
expect_line() {  # line
  "$here/experiments/family_table.sh" "$made" >"$folder/made.md"
  grep -qxF -e "$1" "$folder/made.md" || { echo "expected the line $1, found"; cat "$folder/made.md"; exit 1; }
}
expect_line "|a|control|2||1|0.500 ± 0.250|0.500 ± 0.250|0.375 ± 0.375|2.0000 ± 1.0000|"
expect_line "|a|control|10|40|1.00 ± 0.00|1|||"
sed -i 's/,1,20,1,0$/,1,14.1421356,1,0/; s/,1,40,1,0$/,1,20,1,0/' "$made/norms.csv"
expect_line "|a|control|10|20|0.75 ± 0.25|1|||"

# Two runs of a hundred million tokens as one: the first that has a model counts, and the last record of each stream.
mkdir "$made/other"
printf '%s\n' model,stream,position,right alpha-3,0,{0,9000},1 alpha-3,1,{0,9000},0.5 >"$made/answers.csv"
printf '%s\n' model,stream,position,loss,cumulative_loss,norm,largest alpha-3,0,1000,7,7,7,7 alpha-3,0,12000,0.25,1,200000,3 \
  alpha-3,1,9000,0.75,1,600000,5 >"$made/norms.csv"
printf '%s\n' model,stream,position,right alpha-3,0,0,0 baseline,0,0,0.25 >"$made/other/answers.csv"
printf '%s\n' model,stream,position,loss,cumulative_loss,norm,largest alpha-3,0,99999,9,9,9,9 baseline,0,1000,2,2,30,4 >"$made/other/norms.csv"
"$here/experiments/million_table.sh" "$made" "$made/other" | tail -n +3 >"$folder/made.md"
diff "$folder/made.md" - <<'END'
|baseline|1|0.250||1,000|2.000|30|4|
|alpha-3|2|0.750|0.750|12,000|0.500|4.0e+05|4|
END
echo "killed twice, the same results"
