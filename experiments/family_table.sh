#!/usr/bin/env bash
# What experiments/family.sh found, as tables in Markdown.
#
#   experiments/family_table.sh RESULTS
#
# RESULTS holds losses.csv, answers.csv, norms.csv and states.csv. ± is the standard error over seeds. A stream that
# overflowed answers nothing from there on and counts as 0 right where others of its variant were asked. Positions are
# those of answers.csv. The exponent p of a norm is the slope of log norm over log position from the first position
# behind 0 to the last, by least squares over all records: 0 flat, 1/2 a random walk, 1 linear, which is the most where
# keys have length 1 at most and beta is below 2. An overflow ends it.
set -eu
results=$1
mapfile -t positions < <(tail -n +2 "$results/answers.csv" | cut -d, -f5 | sort -nu)
with_commas() { echo "$1" | sed -e ':a' -e 's/\([0-9]\)\([0-9]\{3\}\)\($\|,\)/\1,\2\3/' -e 'ta'; }

header() {  # cells
  printf '|%s' "$@"
  printf '|\n|---|---'
  local i
  for ((i = 2; i < $#; i++)); do printf '|--:'; done
  printf '|\n'
}

# Shared by both tables: values by (variant, model, column, seed), and their mean with its error.
functions='
  function put(key, seed, value) { if (!((key, seed) in v)) list[key] = list[key] " " seed; v[key, seed] = value }
  function root(x) { return sqrt(x > 0 ? x : 0) }
  function cell(key, format,    seeds, n, i, s, q) {
    n = split(list[key], seeds, " ")
    if (!n) return ""
    for (i = 1; i <= n; i++) { s += v[key, seeds[i]]; q += v[key, seeds[i]] ^ 2 }
    if (n == 1) return sprintf(format, s)
    return sprintf(format " ± " format, s / n, root((q - s * s / n) / (n - 1) / n))
  }
  function number(key,    seeds, n, i, s) {
    n = split(list[key], seeds, " ")
    for (i = 1; i <= n; i++) s += v[key, seeds[i]]
    return n ? sprintf(s / n < 1e5 ? "%.3g" : "%.1e", s / n) : ""
  }
  function model_of(variant, name) { if (!((variant, name) in known)) { known[variant, name]; rows[++count] = variant SUBSEP name } }
'

answers_table() {
  local cells=(variant model seeds "held-out loss" overflowed) position
  for position in "${positions[@]}"; do cells+=("right after $(with_commas "$position")"); done
  header "${cells[@]}" "loss along the stream"
  awk -F, -v positions="${positions[*]}" "$functions"'
    FNR == 1 { file++; next }
    file == 1 { put($1 FS $3 FS "held", $2, $4); next }
    file == 2 { model_of($1, $3); put($1 FS $3 FS $5, $2, $6); asked[$1, $5]; seeds[$1 FS $3, $2]; next }
    file == 3 {
      put($1 FS $3 FS "stream", $2, $7)  # the last one stays
      if ($10 == 1) { broken[$1 FS $3]++; ended[$1 FS $3 FS $2] = $5 }
    }
    END {
      m = split(positions, at, " ")
      for (key in ended) {
        split(key, part, FS)
        for (i = 1; i <= m; i++) if (at[i] + 0 > ended[key] && (part[1], at[i]) in asked) put(part[1] FS part[2] FS at[i], part[3], 0)
      }
      for (i = 1; i <= count; i++) {
        split(rows[i], part, SUBSEP)
        key = part[1] FS part[2]
        n = split(list[key FS at[1]], unused, " ")
        printf "|%s|%s|%d|%s|%d", part[1], part[2], n, cell(key FS "held", "%.4f"), broken[key]
        for (j = 1; j <= m; j++) printf "|%s", cell(key FS at[j], "%.3f")
        printf "|%s|\n", cell(key FS "stream", "%.4f")
      }
    }' "$results/losses.csv" "$results/answers.csv" "$results/norms.csv"
}

norms_table() {
  local cells=(variant model) position
  for position in "${positions[@]:1}"; do cells+=("norm after $(with_commas "$position")"); done
  header "${cells[@]}" "p" "largest entry at the end" "below 0.1 at the end" "above 10"
  awk -F, -v positions="${positions[*]:1}" "$functions"'
    FNR == 1 { file++; next }
    file == 1 {
      model_of($1, $3); key = $1 FS $3
      put(key FS $5, $2, $8); put(key FS "largest", $2, $9)
      split(positions, at, " ")
      if ($5 >= at[1] && $8 > 0 && $10 == 0) {
        x = log($5); y = log($8); k = key FS $2
        n[k]++; sx[k] += x; sy[k] += y; xx[k] += x * x; xy[k] += x * y; keys[k]
      }
      next
    }
    { put($1 FS $3 FS "sparse", $2, 100 * $7); put($1 FS $3 FS "hot", $2, 100 * $8) }
    END {
      for (k in keys) if (n[k] > 2) {
        split(k, part, FS)
        put(part[1] FS part[2] FS "p", part[3], (n[k] * xy[k] - sx[k] * sy[k]) / (n[k] * xx[k] - sx[k] ^ 2))
      }
      m = split(positions, at, " ")
      for (i = 1; i <= count; i++) {
        split(rows[i], part, SUBSEP)
        key = part[1] FS part[2]
        printf "|%s|%s", part[1], part[2]
        for (j = 1; j <= m; j++) printf "|%s", number(key FS at[j])
        printf "|%s|%s|%s|%s|\n", cell(key FS "p", "%.2f"), number(key FS "largest"), cell(key FS "sparse", "%.1f"), cell(key FS "hot", "%.1f")
      }
    }' "$results/norms.csv" "$results/states.csv"
}

echo "Answers and losses:"
echo
answers_table
echo
echo "States:"
echo
norms_table
