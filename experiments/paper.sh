#!/usr/bin/env bash
# The paper's experiment, from raw data to a published model: prepare, fine-tune for each alpha,
# read the long stream, ask before and after it, table, figures, model card.
#
#   experiments/paper.sh PROGRAM FOLDER
#
#   SCALE   tiny   the shipped model of 5 M parameters, minutes on two processors
#           small  a model of 28 M, trained first, on one GPU
#           full   the paper's: RWKV-7 0.4B, 2.37 M rows, 100 M tokens. FILES has the real files,
#                  see docs/reproduction.md
#   DEVICES        as of sweep: cpu, or cuda:0,cuda:1 (tiny: cpu; others: cuda:0)
#   ALPHAS         0 is the baseline (tiny: 0,1,3; small: 0,1,3,10; full: 0 to 10)
#
# The same command continues where it was stopped or killed. FOLDER/published is the result.
set -euo pipefail
if [ $# -ne 2 ]; then
  sed -n '2,15s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
program=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
here=$(realpath "$(dirname "$0")/..")
SCALE=${SCALE:-tiny}
mkdir -p "$out/raw"

say() { printf '\n=== %s\n' "$*"; }
# made FILE COMMAND...: runs the command unless its result is there; commands write whole files.
made() {
  local file=$1
  shift
  [ -e "$file" ] || "$@"
}
problems() {  # SEED COUNT FILE: rows of question, solution and answer
  "$program" corpus "math-chat:seed=$1,split=train,level=1-2,style=brief" --problems "$2" --out "$3"
}

recipe=$here/examples/sane_sft.toml
settings=()
set_recipe() { for one in "$@"; do settings+=(--set "$one"); done; }
suite=math-chat
data=()
case $SCALE in
tiny)
  ALPHAS=${ALPHAS:-0,1,3} DEVICES=${DEVICES:-cpu}
  base=$here/models/arithmetic-baseline.safetensors tokenizer=byte length=129
  made "$out/raw/math.jsonl" problems 11 600 "$out/raw/math.jsonl"
  cp "$here/test/data/rows/plain.parquet" "$out/raw/"
  set_recipe 'optimizer.precision="fp32"' optimizer.rows=4 optimizer.warmup=1
  steps=3 tokens=2048 stream=math-chat:seed=21,level=1-2,style=brief limit=6 samples=2 answer_tokens=24
  ;;
small)
  ALPHAS=${ALPHAS:-0,1,3,10} DEVICES=${DEVICES:-cuda:0}
  tokenizer=byte length=513
  made "$out/raw/math.jsonl" problems 11 20000 "$out/raw/math.jsonl"
  cp "$here/test/data/rows/plain.parquet" "$out/raw/"
  newest() { find "$out/base" -path '*/step_*/model.safetensors' 2>/dev/null | sort | tail -n 1; }
  say "a base model that hardly forgets"
  if [ ! -e "$out/base.done" ]; then
    resume=()
    [ -n "$(newest)" ] && resume=(--resume)
    "$program" train "$here/examples/long_memory.toml" --device "${DEVICES%%,*}" "${resume[@]}" \
      --set "run.folder=\"$out/base\"" --set 'optimizer.precision="bf16"' --set optimizer.steps=400 \
      --set optimizer.sequences=32 --set optimizer.accumulate=1 --set run.save_every=200 \
      --set evaluation.every=400
    touch "$out/base.done"
  fi
  base=$(newest)
  set_recipe optimizer.rows=32 optimizer.warmup=6 optimizer.rate=3e-4
  steps=200 tokens=1000000 stream=math-chat:seed=21,level=1-2 limit=100 samples=4 answer_tokens=64
  ;;
full)
  ALPHAS=${ALPHAS:-0,1,2,3,4,5,6,7,8,9,10} DEVICES=${DEVICES:-cuda:0}
  : "${FILES:?expected FILES, the folder of the real files; see docs/reproduction.md}"
  base=$FILES/rwkv7-g1d-0.4b-20260210-ctx8192.pth tokenizer=$FILES/rwkv_vocab_v20230424.txt length=4097
  rmdir "$out/raw" 2>/dev/null && ln -s "$(realpath "$FILES/sft")" "$out/raw"
  stream=rows:$FILES/mixed_chat suite=all data=(--data "$FILES/problems")
  steps=0 tokens=100000000 limit=0 samples=8 answer_tokens=1024
  ;;
*)
  echo "SCALE: expected tiny, small or full, found '$SCALE'" >&2
  exit 2
  ;;
esac

say "rows of at most $length tokens"
made "$out/sft.npy" "$program" corpus prepare "$out/raw" --tokenizer "$tokenizer" --length "$length" \
  --out "$out/sft.npy"

say "training, streams and questions for each alpha"
set_recipe "model.from=\"$base\"" "corpus.source=\"npy:$out/sft.npy\"" "corpus.tokenizer=\"$tokenizer\"" \
  "optimizer.context=$((length - 1))"
"$program" sweep --train "$recipe" "${settings[@]}" --steps "$steps" --alphas "$ALPHAS" \
  --devices "$DEVICES" --corpus "$stream" --tokens "$tokens" --suite "$suite" "${data[@]}" \
  --limit "$limit" --samples "$samples" --answer-tokens "$answer_tokens" --tokenizer "$tokenizer" \
  --out "$out/sweep"

say "table and figures"
runs=() streams=() names=""
mapfile -t folders < <(printf '%s\n' "$out"/sweep/alpha-* | sort -V)
for folder in "$out"/sweep/baseline "${folders[@]}"; do
  name=$(basename "$folder")
  runs+=("$folder/eval/$name")
  streams+=("$folder/stream")
  names=${names:+$names,}${name/-/ }
  if [ -d "$folder/eval-after/$name" ]; then
    runs+=("$folder/eval-after/$name")
  else
    runs+=("$folder/stream")  # it overflowed
  fi
done
if command -v gnuplot >/dev/null; then
  "$program" table "${runs[@]}" --out "$out/table"
  "$program" figures "${streams[@]}" --names "$names" --out "$out/figures"
else
  echo "gnuplot is not installed: no figures; draw them elsewhere from $out/sweep"
  mkdir -p "$out/table"
  "$program" table "${runs[@]}" >"$out/table/table.md"
  "$program" table "${runs[@]}" --format csv >"$out/table/table.csv"
fi

say "publishing"
best=$out/sweep/alpha-3  # the paper's choice
[ -d "$best" ] || best=$(find "$out/sweep" -maxdepth 1 -name 'alpha-*' | sort | tail -n 1)
model=$(find "$best" -path '*/step_*/model.safetensors' | sort | tail -n 1)
for format in hf pth; do
  [ -e "$out/published/$format" ] || "$program" publish "$model" "$out/published/$format" \
    --format "$format" --tokenizer "$tokenizer" --name "$(basename "$best")" --table "$out/table/table.md"
done
say "done: $out/sweep/sweep.md, $out/table/table.md, $out/figures, $out/published"
