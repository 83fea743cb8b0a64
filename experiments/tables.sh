#!/usr/bin/env bash
# What experiments/alpha_table.sh found, as tables in Markdown.
#
#   experiments/tables.sh PROGRAM RESULTS
#
# RESULTS holds losses.csv, families.csv, streams.csv and overflows.csv, and gets tests.csv. Streams of one seed
# share a model, so two errors are given: over all streams of all seeds, which says how well this mean
# is known for these models, and over the means of seeds, which says what another training may
# give. Tests are paired t-tests by `deltasane compare`, over pairs (seed, stream) or (seed, family), and over
# the means of seeds, against alpha 0. A stream that overflowed answers nothing from there on and counts
# as 0 right, in means and pairs: without it only those that were lucky would be compared. Beside it
# stands the mean of the streams that did not overflow. It counts at the positions that other streams of its
# corpus were read to, so that a corpus that nobody read so far does not add zeros alone. Not all streams
# are read as far as the farthest: every mean says how many there are.
set -u
program=$1 results=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Sorted names of the models in a file: trained alphas first, by number.
models_in() {
  tail -n +2 "$1" | cut -d, -f1 | sort -u |
    awk '{ n = $1; sub(/^.*-/, "", n); kind = $1 ~ /^alpha-/ ? 0 : $1 ~ /^first-/ ? 1 : $1 ~ /^run-time-[0-9]/ ? 2 : 3
           print kind, $1 ~ /^run-time-adaptive/ ? 0 : 1, n, $1 }' | sort -k1,1n -k2,2n -k3,3n | cut -d' ' -f4
}

# One table of all that is tested: kind of pair's score, seed, what (stream or family), model, per cent.
# A stream is named corpus.number.
scores() {
  awk -F, -v OFS=, '
    FNR == 1 { file++; next }
    file == 1 { print "families", $2, $3, $1, 100 * $4; next }
    { corpus = $3; sub(/\..*/, "", corpus) }
    file == 2 && $4 > 0 { asked[$4 " " corpus]; print $4, $2, $3, $1, 100 * $5 }
    file == 3 { for (key in asked) { split(key, at, " "); if (at[2] == corpus && at[1] + 0 > $4) print at[1], $2, $3, $1, 0 } }' \
    "$results/families.csv" "$results/streams.csv" "$results/overflows.csv"
}

# tested KIND OVER MODEL: number of pairs, difference from alpha 0, p. OVER: pairs or seeds
tested() {
  awk -F, -v OFS=, -v kind="$1" -v over="$2" -v model="$3" -v baseline=alpha-0 '
    $1 == kind && $4 == baseline { first[$2, $3] = $5 }
    $1 == kind && $4 == model { second[$2, $3] = $5; if (!(($2, $3) in seen)) { seen[$2, $3] = 1; seed[++n] = $2; what[n] = $3 } }
    END {
      print "benchmark", baseline, model
      for (i = 1; i <= n; i++) {
        if (!((seed[i], what[i]) in first)) continue
        a = first[seed[i], what[i]]; b = second[seed[i], what[i]]
        if (over == "pairs") { print seed[i] " " what[i], a, b; continue }
        if (!(seed[i] in count)) order[++m] = seed[i]
        count[seed[i]]++; left[seed[i]] += a; right[seed[i]] += b
      }
      for (i = 1; i <= m; i++) print order[i], left[order[i]] / count[order[i]], right[order[i]] / count[order[i]]
    }' "$scratch/scores.csv" >"$scratch/pair.csv"
  local pairs
  pairs=$(($(wc -l <"$scratch/pair.csv") - 1))
  [ $pairs -lt 2 ] && return 1
  "$program" compare "$scratch/pair.csv" --threads 1 --format csv |
    awk -F, -v OFS=, -v pairs=$pairs '$1 == "average" { d = $3 - $2 } $1 == "p t-test" { p = $3 } END { print pairs, d, p }'
}

test_all() {
  echo "scores,over,model,pairs,difference,p"
  local kind model over found
  for kind in families $(cut -d, -f1 "$scratch/scores.csv" | grep -v families | sort -nu); do
    for model in $(models_in "$results/streams.csv"); do
      [ "$model" = alpha-0 ] && continue
      for over in pairs seeds; do
        found=$(tested "$kind" $over "$model") && echo "$kind,$over,$model,$found"
      done
    done
  done
}

header() {  # cells
  printf '|%s' "$@"
  printf '|\n|---'
  local i
  for ((i = 1; i < $#; i++)); do printf '|--:'; done
  printf '|\n'
}

# The mean with its errors over all rows and over seeds; rows are "seed value".
pooled() {  # format, factor
  awk -v format="$1" -v factor="$2" '
    { v = $2 * factor; n++; s += v; q += v * v; if (!($1 in c)) k++; c[$1]++; t[$1] += v }
    function root(x) { return sqrt(x > 0 ? x : 0) }
    END {
      if (!n) exit
      printf format, s / n
      if (n > 1) printf " ± " format, root((q - s * s / n) / (n - 1) / n)
      if (k > 1 && k < n) {
        for (i in c) { m = t[i] / c[i]; a += m; b += m * m }
        printf " (" format ")", root((b - a * a / k) / (k - 1) / k)
      }
    }'
}
rows_of() {  # file, model, column of the value, position or nothing
  awk -F, -v model="$2" -v column="$3" -v position="${4:-}" 'FNR > 1 && $1 == model && (position == "" || $4 == position) && $column != "" { print $2, $column }' "$1"
}
p_of() {  # scores, over, model
  awk -F, -v scores="$1" -v over="$2" -v model="$3" '$1 == scores && $2 == over && $3 == model {
    if ($6 == "") { printf "-"; exit }
    printf($6 < 0.001 ? "<0.001" : "%.3f", $6) }' "$results/tests.csv"
}
with_commas() { echo "$1" | sed -e ':a' -e 's/\([0-9]\)\([0-9]\{3\}\)\($\|,\)/\1,\2\3/' -e 'ta'; }

short_table() {
  header model seeds "held-out loss" "families, %" "p, (seed, family)" "p, seeds"
  local model
  for model in $(models_in "$results/streams.csv"); do
    echo "|$model|$(rows_of "$results/streams.csv" "$model" 3 | cut -d' ' -f1 | sort -u | wc -l)|$(rows_of "$results/losses.csv" "$model" 3 | pooled %.4f 1)|$(family_means "$model" | pooled %.1f 100)|$(p_of families pairs "$model")|$(p_of families seeds "$model")|"
  done
}
family_means() {  # "seed mean"
  awk -F, -v model="$1" 'NR > 1 && $1 == model { s[$2] += $4; n[$2]++ } END { for (i in s) print i, s[i] / n[i] }' "$results/families.csv"
}

far_table() {  # position
  header model "right after $(with_commas "$1"), overflowed as 0" "of those alive" streams overflowed "norm of those alive" "loss so far" "p, (seed, stream)" "p, seeds"
  local model
  for model in $(models_in "$results/streams.csv"); do
    local all alive
    all=$(scores_of "$model" "$1") alive=$(rows_of "$results/streams.csv" "$model" 5 "$1")
    [ -z "$all" ] && continue
    echo "|$model|$(echo "$all" | pooled %.3f 0.01)|$(echo "$alive" | pooled %.3f 1 | mean_alone)|$(echo "$all" | grep -c .)|$(overflowed "$model" "$1")|$(rows_of "$results/streams.csv" "$model" 6 "$1" | pooled %.9g 1 | mean_alone | norm_text)|$(rows_of "$results/streams.csv" "$model" 7 "$1" | pooled %.4f 1 | mean_alone)|$(p_of "$1" pairs "$model")|$(p_of "$1" seeds "$model")|"
  done
}
scores_of() {  # model, position: "seed per cent"
  awk -F, -v model="$1" -v position="$2" '$1 == position && $4 == model { print $2, $5 }' "$scratch/scores.csv"
}
mean_alone() { sed 's/ .*//'; }
norm_text() { awk '{ printf $1 < 1e5 ? "%.0f" : "%.1e", $1 }'; }
overflowed() {  # model, position: streams that broke before it, of those that count there
  awk -F, -v model="$1" -v position="$2" '
    NR == FNR { if ($1 == position && $4 == model) counts[$2, $3]; next }
    FNR > 1 && $1 == model && $4 < position && ($2, $3) in counts { n++ }
    END { print n + 0 }' "$scratch/scores.csv" "$results/overflows.csv"
}

# The streams that count at a position, at it and at those before: what changed along the same ones.
same_streams_table() {  # positions, the farthest last
  local far=${!#} cells=(model streams) position model
  for position in "$@"; do cells+=("right after $(with_commas "$position")"); done
  for position in "$@"; do cells+=("norm after $(with_commas "$position")"); done
  header "${cells[@]}"
  for model in $(models_in "$results/streams.csv"); do
    awk -F, -v model="$model" -v far="$far" -v positions="$*" '
      NR == FNR { if ($4 == model) { right[$1, $2, $3] = $5 / 100; if ($1 == far) { row[++n] = $2 SUBSEP $3 } } next }
      $1 == model && $6 != "" { norm[$4, $2, $3] = $6 }
      END {
        if (!n) exit
        printf "|%s|%d", model, n
        m = split(positions, at, " ")
        for (i = 1; i <= m; i++) {
          s = 0
          for (j = 1; j <= n; j++) s += right[at[i], row[j]]
          printf "|%.3f", s / n
        }
        for (i = 1; i <= m; i++) {
          s = k = 0
          for (j = 1; j <= n; j++) if ((at[i], row[j]) in norm) { s += norm[at[i], row[j]]; k++ }
          if (k) printf(s / k < 1e5 ? "|%.0f" : "|%.1e", s / k)
          else printf "|-"
        }
        print "|"
      }' "$scratch/scores.csv" "$results/streams.csv"
  done
}

family_table() {
  local models family model
  mapfile -t models < <(models_in "$results/families.csv")
  header family "${models[@]}"
  for family in $(tail -n +2 "$results/families.csv" | cut -d, -f3 | sort -u); do
    printf '|%s' "$family"
    for model in "${models[@]}"; do
      printf '|%s' "$(awk -F, -v m="$model" -v f="$family" '$1 == m && $3 == f { print $2, $4 }' "$results/families.csv" | pooled %.1f 100 | mean_alone)"
    done
    printf '|\n'
  done
}

seed_table() {
  local positions position model seed seeds
  mapfile -t positions < <(tail -n +2 "$results/streams.csv" | cut -d, -f4 | sort -nu)
  mapfile -t seeds < <(tail -n +2 "$results/streams.csv" | cut -d, -f2 | sort -nu)
  local cells=(model "families, %")
  for position in "${positions[@]}"; do cells+=("after $(with_commas "$position")"); done
  header "${cells[@]}"
  for model in $(models_in "$results/streams.csv"); do
    printf '|%s|' "$model"
    for seed in "${seeds[@]}"; do printf '%s ' "$(family_means "$model" | awk -v s="$seed" '$1 == s' | pooled %.1f 100)"; done
    for position in "${positions[@]}"; do
      printf '|'
      for seed in "${seeds[@]}"; do
        local right
        right=$(rows_of "$results/streams.csv" "$model" 5 "$position" | awk -v s="$seed" '$1 == s' | pooled %.3f 1 | mean_alone)
        printf '%s ' "${right:--}"
      done
    done
    printf '|\n'
  done
}

overflow_table() {
  header model seed streams "first after" "last after" "layer, head"
  tail -n +2 "$results/overflows.csv" | sort -t, -k1,1 -k2,2n -k4,4n | awk -F, '
    { key = $1 "|" $2; if (!(key in n)) { order[++m] = key; first[key] = $4 }
      n[key]++; last[key] = $4; place = $5 "." $6
      if (index(" " places[key] " ", " " place " ") == 0) places[key] = places[key] (places[key] == "" ? "" : " ") place }
    END { for (i = 1; i <= m; i++) { k = order[i]; print "|" k "|" n[k] "|" first[k] "|" last[k] "|" places[k] "|" } }'
}

scores >"$scratch/scores.csv"
test_all >"$results/tests.csv"
echo "Inside the training length (± error over seeds):"
echo
short_table
mapfile -t far < <(tail -n +2 "$results/streams.csv" | cut -d, -f4 | sort -nu | grep -vx 0)
for position in "${far[@]}"; do
  echo
  echo "After $(with_commas "$position") tokens, a stream that overflowed counted as 0 right (± error over all streams, in brackets over seeds):"
  echo
  far_table "$position"
done
if [ ${#far[@]} -gt 1 ]; then
  echo
  echo "Only the streams that the table after $(with_commas "${far[-1]}") tokens is made of, after each length, overflowed as 0 right (norms of those alive):"
  echo
  same_streams_table "${far[@]}"
fi
echo
echo "By family, per cent right without a prefix, mean over seeds:"
echo
family_table
echo
echo "Seeds one by one, of the streams alive (-: none):"
echo
seed_table
if [ "$(wc -l <"$results/overflows.csv")" -gt 1 ]; then
  echo
  echo "Overflows:"
  echo
  overflow_table
fi
