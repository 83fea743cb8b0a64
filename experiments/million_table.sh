#!/usr/bin/env bash
# What experiments/hundred_million.sh found, as a table in Markdown.
#
#   experiments/million_table.sh FOLDER...
#
# Each FOLDER has answers.csv and norms.csv; where two have the same model, the first FOLDER counts. Numbers are means
# over streams. "read" is the position of the last record of the stream that was read farthest; loss, norm and largest
# entry are of the last record of each stream. A stream that overflowed has no answers from there on.
set -eu
files=()
for folder in "$@"; do files+=("$folder/answers.csv" "$folder/norms.csv"); done
awk -F, '
  function with_commas(n,    s) { s = n ""; while (match(s, /[0-9][0-9][0-9][0-9]($|,)/)) s = substr(s, 1, RSTART) "," substr(s, RSTART + 1); return s }
  function rank(name) {
    if (name == "baseline") return 0
    if (name ~ /^shipped/) return 1
    if (name ~ /^alpha-/) return 2 + substr(name, 7) / 1e4
    if (name ~ /adaptive/) return 5
    return 3 + substr(name, 10) / 1e4
  }
  FNR == 1 { file++; folder = int((file + 1) / 2); norms = file % 2 == 0; next }
  !($1 in from) { from[$1] = folder; names[++models] = $1 }
  from[$1] != folder { next }
  !norms {
    if (!($3 in seen)) { seen[$3]; asked[++lengths] = $3 + 0 }
    right[$1, $3] += $4; n[$1, $3]++
    if (!(($1, $2) in stream)) { stream[$1, $2]; streams[$1]++ }
    next
  }
  { if ($3 + 0 > last[$1, $2]) { last[$1, $2] = $3 + 0; loss[$1, $2] = $4; norm[$1, $2] = $6; largest[$1, $2] = $7 } }
  END {
    for (i = 2; i <= lengths; i++) for (j = i; j > 1 && asked[j] < asked[j - 1]; j--) { t = asked[j]; asked[j] = asked[j - 1]; asked[j - 1] = t }
    for (i = 2; i <= models; i++) for (j = i; j > 1 && rank(names[j]) < rank(names[j - 1]); j--) { t = names[j]; names[j] = names[j - 1]; names[j - 1] = t }
    printf "|model|streams"; for (i = 1; i <= lengths; i++) printf "|after %s", with_commas(asked[i]); print "|read|loss|norm|largest entry|"
    printf "|---|--:"; for (i = 1; i <= lengths; i++) printf "|--:"; print "|--:|--:|--:|--:|"
    for (i = 1; i <= models; i++) {
      m = names[i]; read = k = a = b = c = 0
      for (key in last) { split(key, part, SUBSEP); if (part[1] != m) continue; k++; a += loss[key]; b += norm[key]; c += largest[key]; if (last[key] > read) read = last[key] }
      printf "|%s|%d", m, streams[m]
      for (j = 1; j <= lengths; j++) { if ((m, asked[j]) in n) printf "|%.3f", right[m, asked[j]] / n[m, asked[j]]; else printf "|" }
      printf "|%s|%.3f|", with_commas(read), a / k
      printf b / k < 1e5 ? "%.0f|" : "%.1e|", b / k
      printf c / k < 1e5 ? "%.3g|\n" : "%.1e|\n", c / k
    }
  }' "${files[@]}"
