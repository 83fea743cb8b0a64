#!/usr/bin/env bash
# What each weight type of GGUF files costs: bits per weight, and perplexity.
#
#   experiments/weight_types.sh PROGRAM FOLDER MODEL TEXT [MODEL TEXT]...
#
# Writes each model in each type, scores the text with it, and adds a row to FOLDER/weight_types.csv.
# TYPES can be set. Rows that are there already are kept, so that a second start continues.
set -eu
program=$1 out=$2
shift 2
types=${TYPES:-f32 f16 q8_0 q6_k q5_k_m q5_k q4_k_m q4_k q4_0}
mkdir -p "$out"
table=$out/weight_types.csv
[ -f "$table" ] || echo "model,type,bytes,bits_per_weight,tokens,perplexity" > "$table"
while [ $# -ge 2 ]; do
  model=$1 text=$2
  shift 2
  name=$(basename "$model")
  for type in $types; do
    grep -q "^$name,$type," "$table" && continue
    "$program" convert "$model" "$out/weights.gguf" --type "$type" > "$out/convert.txt"
    parameters=$("$program" info "$out/weights.gguf" --json | sed -n 's/.*"parameters": *\([0-9]*\).*/\1/p' | head -1)
    bytes=$(stat -c %s "$out/weights.gguf")
    "$program" score "$out/weights.gguf" --text "$text" --json > "$out/score.json"
    tokens=$(sed -n 's/.*"predicted": *\([0-9]*\).*/\1/p' "$out/score.json")
    perplexity=$(sed -n 's/.*"perplexity": *\([0-9.]*\).*/\1/p' "$out/score.json")
    bits=$(awk "BEGIN { printf \"%.2f\", 8 * $bytes / $parameters }")
    echo "$name,$type,$bytes,$bits,$tokens,$perplexity" >> "$table"
    tail -1 "$table"
  done
done
rm -f "$out/weights.gguf" "$out/convert.txt" "$out/score.json"
