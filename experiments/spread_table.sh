#!/usr/bin/env bash
# How far trainings of one recipe lie apart, as a table in Markdown.
#
#   experiments/spread_table.sh PAIRS.csv
#
# PAIRS.csv is what experiments/embedded_pair.sh makes of STAGES="shipped spread": a row per pair, model, position
# and stream. A training is a pair; its number is the mean over its streams. Given are the mean over trainings with
# its standard deviation, which is how far one more training may be expected to lie off, the lowest and the highest.
set -eu
awk -F, '
  NR == 1 { next }
  {
    if (!($3 in seen)) { seen[$3]; positions[++rows] = $3 }
    if (!($1 in known)) { known[$1]; pairs[++trainings] = $1 }
    n[$1, $2, $3]++; right[$1, $2, $3] += $5; norm[$1, $2, $3] += $6
  }
  function cells(model, position,    i, key, m, k, s, q, low, high, least, most, v) {
    for (i = 1; i <= trainings; i++) {
      key = pairs[i] SUBSEP model SUBSEP position
      if (!(key in n)) continue
      m = right[key] / n[key]; v = norm[key] / n[key]
      if (!k || m < low) low = m
      if (!k || m > high) high = m
      if (!k || v < least) least = v
      if (!k || v > most) most = v
      k++; s += m; q += m * m
    }
    if (!k) return " | | | "
    v = k > 1 ? (q - s * s / k) / (k - 1) : 0
    return sprintf("%d | %.3f ± %.3f | %.3f to %.3f | %.3g to %.3g", k, s / k, sqrt(v > 0 ? v : 0), low, high, least, most)
  }
  END {
    print "| tokens | model | trainings | right | lowest to highest | norm |"
    print "|--:|---|--:|--:|--:|--:|"
    for (r = 1; r <= rows; r++) {
      printf "| %s | baseline | %s |\n", positions[r], cells("baseline", positions[r])
      printf "| %s | SANE | %s |\n", positions[r], cells("sane", positions[r])
    }
  }' "$1"
