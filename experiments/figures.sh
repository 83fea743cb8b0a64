#!/usr/bin/env bash
# Figures of what the experiments found, as SVG, by gnuplot.
#
#   experiments/figures.sh RESULTS FOLDER
#
# RESULTS holds the folders table and table/far-three-seeds (families.csv, streams.csv, overflows.csv, segments.csv),
# pair (segments and probes of the baseline and of SANE), million and million/to-55-million (answers.csv, norms.csv;
# where both have a model, the first counts) and family (answers.csv, norms.csv; the same in low-tau, larger, larger-far
# and languages). FOLDER gets
#
#   table_alpha.svg                  what is answered rightly, against alpha: mean of the seeds and its error
#   table_state_norm.svg             along the streams, a panel for each seed, every stream a line
#   table_cumulative_perplexity.svg  the same for the loss, each line a mean over the streams of that seed
#   far_seeds.svg                    answers and norms of FAR_MODELS to a hundred million tokens, over seeds
#   pair_streams.svg                 norm, answers and perplexity of the pair, every stream a line
#   million_streams.svg              norm, answers and loss of the pair's baseline and its cures to a hundred million tokens
#   million_alpha.svg                what is answered rightly against alpha, tuned and at run time, after each length
#   family_answers.svg               answers of each variant of the family, mean of the seeds and its error
#   family_more.svg                  the same of larger models, of a tau below 1 and of two languages
#
# A stream that overflowed counts as 0 right, where other streams of its corpus were read. MODELS are those of the
# table that are drawn along the streams, and only streams of a corpus that was read to the farthest position.
set -eu
results=$1/table pair=$1/pair million=$1/million family=$1/family folder=$2
MODELS=${MODELS:-"alpha-0 run-time-adaptive-1000 alpha-10 alpha-3 alpha-1"}
FAR_MODELS=${FAR_MODELS:-"alpha-0 run-time-10 alpha-10 alpha-3 alpha-1"}
command -v gnuplot >/dev/null || {
  echo "figures: expected gnuplot (Debian: gnuplot-nox), found none" >&2
  exit 1
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$folder"
mapfile -t seeds < <(tail -n +2 "$results/streams.csv" | cut -d, -f2 | sort -nu)
mapfile -t positions < <(tail -n +2 "$results/streams.csv" | cut -d, -f4 | sort -nu)
read -ra models <<<"$MODELS"
far=${positions[-1]}
# Those of Okabe and Ito, which people with any colour vision tell apart.
colours=('#D55E00' '#CC79A7' '#009E73' '#0072B2' '#56B4E9' '#E69F00' '#000000')

# "alpha mean error" of each alpha over the means of seeds, in per cent; rows are "model,seed,share"
over_seeds() {
  awk -F, '
    $1 ~ /^alpha-/ { sum[$1, $2] += 100 * $3; n[$1, $2]++; models[$1]; seeds[$2] }
    END {
      for (m in models) {
        k = s = q = 0
        for (i in seeds) if ((m, i) in n) { v = sum[m, i] / n[m, i]; k++; s += v; q += v * v }
        v = k > 1 ? (q - s * s / k) / (k - 1) / k : 0
        print substr(m, 7), s / k, sqrt(v > 0 ? v : 0)
      }
    }' | sort -n
}
after() {  # position: "model,seed,share" of each stream; a stream is named corpus.number
  awk -F, -v OFS=, -v position="$1" '
    FNR == 1 { file++; next }
    { corpus = $3; sub(/\..*/, "", corpus) }
    file == 1 && $4 == position { read[corpus]; print $1, $2, $5 }
    file == 2 && $4 + 0 < position && corpus in read { print $1, $2, 0 }' "$results/streams.csv" "$results/overflows.csv"
}
# Rows of segments.csv of the corpora that were read to the farthest position.
farthest() {
  awk -F, -v far="$far" '
    FNR == 1 { file++; next }
    { corpus = $3; sub(/\..*/, "", corpus) }
    file == 1 && $4 == far { read[corpus] }
    file == 2 && corpus in read' "$results/streams.csv" "$results/segments.csv"
}
with_commas() { echo "$1" | sed -e ':a' -e 's/\([0-9]\)\([0-9]\{3\}\)\($\|,\)/\1,\2\3/' -e 'ta'; }
look() {  # width, height, file
  cat <<GNUPLOT
set terminal svg size $1,$2 font 'DejaVu Sans,Helvetica,sans-serif,14' background 'white' noenhanced
set output '$folder/$3'
set grid lc rgb '#cccccc' lw 1 dt 1
set border 3 lc rgb '#444444'
set tics nomirror scale 0.7,0 textcolor rgb '#222222'
GNUPLOT
}

draw_alphas() {
  local position i=0 plot="" count=$((${#positions[@]} - 1))
  tail -n +2 "$results/families.csv" | cut -d, -f1,2,4 | over_seeds >"$scratch/families"
  for position in "${positions[@]}"; do
    [ "$position" = 0 ] && continue
    after "$position" | over_seeds >"$scratch/after$position"
    plot+="${plot:+, }'$scratch/after$position' using (\$1 + 0.14 * ($i - ($count - 1) / 2.0)):2:3 with yerrorbars pt 7 ps 0.6 lw 1.5 lc rgb '${colours[i + 2]}' title 'after $(with_commas "$position") tokens'"
    i=$((i + 1))
  done
  {
    look 1080 430 table_alpha.svg
    cat <<GNUPLOT
set xrange [-0.6:10.6]
set xtics ('none' 0, '1' 1, '' 2, '3' 3, '' 4, '5' 5, '' 6, '7' 7, '' 8, '' 9, '10' 10)
set xlabel 'alpha'
set multiplot layout 1,3 margins screen 0.07,0.985,0.15,0.84 spacing screen 0.06,0.1
set title "without a prefix,\nall families"
set ylabel 'right, %'
set yrange [70:100]
unset key
plot '$scratch/families' using 1:2:3 with yerrorbars pt 7 ps 0.6 lw 1.5 lc rgb '${colours[3]}' notitle
set title "after a stream,\nsums and differences"
unset ylabel
set yrange [0:105]
set key at graph 0.99, graph 0.55 right center Left reverse samplen 1.2
plot $plot
set title "the same,\nfrom 94 % on"
set yrange [94:100.3]
unset key
plot $plot
unset multiplot
GNUPLOT
  } | gnuplot
}

# panels FILE TITLE Y_LABEL EXTRA: one for each seed, from $scratch/MODEL-SEED; lines in it stand apart by empty ones
panels() {
  local seed i plot
  {
    look 1080 430 "$1"
    printf "set xlabel 'thousand tokens'\nset logscale x\nset xrange [60:%d]\n%s\n" $((far / 1000 + 1)) "$4"
    echo "set multiplot layout 1,${#seeds[@]} title '$2' margins screen 0.07,0.97,0.15,0.9 spacing screen 0.05,0.1"
    for seed in "${seeds[@]}"; do
      plot=""
      for i in "${!models[@]}"; do
        plot+="${plot:+, }'$scratch/${models[i]}-$seed' using (\$1 / 1000):2 with lines lw 1.5 lc rgb '${colours[i]}' $([ "$seed" = "${seeds[-1]}" ] && echo "title '${models[i]}'" || echo notitle)"
      done
      echo "set label 1 'seed $seed' at graph 0.97, graph 0.95 right"
      [ "$seed" = "${seeds[0]}" ] && echo "set ylabel '$3'" || echo "unset ylabel"
      echo "plot $plot"
    done
    echo "unset multiplot"
  } | gnuplot
}

draw_norms() {
  local model seed
  for model in "${models[@]}"; do
    for seed in "${seeds[@]}"; do
      sort -t, -k3,3 -k4,4n "$scratch/segments" | awk -F, -v m="$model" -v s="$seed" -v far="$far" '
        $1 == m && $2 == s && $4 + 0 <= far { if ($3 != stream && stream != "") print ""; stream = $3; print $4, $5 }' \
        >"$scratch/$model-$seed"
    done
  done
  panels table_state_norm.svg "Norm of the state" "Frobenius norm" "set key at graph 0.99, graph 0.27 right center Left reverse samplen 1.2
set logscale y
set format y '1e%T'
set yrange [100:1e39]
set ytics 1e3, 1e6"
}

# Where all streams of a seed are still there.
draw_perplexities() {
  local model seed
  for model in "${models[@]}"; do
    for seed in "${seeds[@]}"; do
      awk -F, -v m="$model" -v s="$seed" -v far="$far" '
        $1 == m && $2 == s && $4 + 0 <= far { n[$4]++; sum[$4] += $7; if (n[$4] > most) most = n[$4] }
        END { for (p in n) if (n[p] == most) print p, exp(sum[p] / n[p]) }' "$scratch/segments" |
        sort -n >"$scratch/$model-$seed"
    done
  done
  panels table_cumulative_perplexity.svg "Perplexity of all tokens so far" "perplexity" "set key at graph 0.99, graph 0.6 right center Left reverse samplen 1.2
set yrange [$(sort -k2,2g "$scratch"/*-[0-9] | awk 'NR == 1 { low = $2 } { high = $2 } END { m = 0.03 * (high - low); print low - m ":" high + m }')]"
}

# "position mean error" of a model over seeds; a stream that overflowed has 0 right from there on
far_answers() {  # folder, model
  awk -F, -v m="$2" '
    FNR == 1 { file++; next }
    file == 1 { asked[$4] }
    $1 != m { next }
    file == 1 { n[$4]++; s[$4] += $5; q[$4] += $5 * $5; next }
    { for (p in asked) if (p + 0 > $4) n[p]++ }
    END { for (p in n) { e = n[p] > 1 ? (q[p] - s[p] * s[p] / n[p]) / (n[p] - 1) / n[p] : 0; print (p > 0 ? p : 20000), s[p] / n[p], sqrt(e > 0 ? e : 0) } }' \
    "$1/streams.csv" "$1/overflows.csv" | sort -n
}
draw_far() {
  local from=$results/far-three-seeds model answers="" norms="" i=0
  [ -e "$from/streams.csv" ] || return 0
  for model in $FAR_MODELS; do
    far_answers "$from" "$model" >"$scratch/far-answers-$model"
    awk -F, -v m="$model" '$1 == m { if ($2 != seed && seed != "") print ""; seed = $2; print $4, $5 }' \
      "$from/segments.csv" >"$scratch/far-norms-$model"
    answers+="${answers:+, }'$scratch/far-answers-$model' using 1:2:3 with yerrorlines pt 7 ps 0.5 lw 1.5 lc rgb '${colours[i]}' notitle"
    norms+="${norms:+, }'$scratch/far-norms-$model' using 1:2 with lines lw 1.5 lc rgb '${colours[i]}' title '$model'"
    i=$((i + 1))
  done
  {
    look 1080 430 far_seeds.svg
    cat <<GNUPLOT
set xlabel 'tokens read'
set logscale x
set xrange [15000:1.3e8]
set xtics ('0' 20000, '64K' 65536, '1M' 1e6, '10M' 1e7, '100M' 1e8)
set multiplot layout 1,2 margins screen 0.05,0.985,0.15,0.9 spacing screen 0.06,0.1
unset key
set yrange [0:1.05]
set ytics 0.2
set title "right answers, mean and error of three seeds"
plot $answers
set title "norm of the state, a line for each seed"
set key at graph 0.04, graph 0.8 left center Left reverse samplen 1.2
set logscale y
set format y '1e%T'
set yrange [100:1e39]
set ytics 1e3, 1e6
plot $norms
unset multiplot
GNUPLOT
  } | gnuplot
}

# along_streams FILE COLUMN: "position value" of each stream, with an empty line between them
along_streams() {
  awk -F, -v wanted="$2" '
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { print $at["stream"] "," $at["position"] "," $at[wanted] }' "$1" | sort -t, -k1,1n -k2,2n |
    awk -F, '{ if ($1 != stream && NR > 1) print ""; stream = $1; print $2, $3 }'
}
# pair_panel TABLE COLUMN TITLE STYLE
pair_panel() {
  local model plot="" i=0
  for model in baseline sane; do
    along_streams "$pair/$model-$1.csv" "$2" >"$scratch/$model-$2"
    plot+="${plot:+, }'$scratch/$model-$2' using (\$1 / 1000):2 with $4 lw 1.5 lc rgb '${colours[i]}' title '${model/sane/SANE, alpha 3}'"
    i=3
  done
  printf 'set title "%s"\nplot %s\n' "$3" "$plot"
}
draw_pair() {
  {
    look 1080 430 pair_streams.svg
    cat <<GNUPLOT
set xlabel 'thousand tokens'
set xrange [0:200]
set xtics 50
set multiplot layout 1,3 margins screen 0.07,0.985,0.15,0.9 spacing screen 0.06,0.1
set key at graph 0.99, graph 0.35 right center Left reverse samplen 1.2
set logscale y
set format y '1e%T'
GNUPLOT
    pair_panel segments norm "norm of the state" lines
    printf "unset key\nunset logscale y\nset format y '%%g'\nset yrange [0:1.03]\n"
    pair_panel probes accuracy "right answers from the state" "linespoints pt 7 ps 0.4"
    echo "set yrange [*:*]"
    pair_panel segments cumulative_perplexity "perplexity so far" lines
    echo "unset multiplot"
  } | gnuplot
}

# million_rows FILE: rows of the first folder that has a model
million_rows() {
  awk -F, 'FNR == 1 { file++; next } !($1 in from) { from[$1] = file } from[$1] == file' "$million/$1" "$million/to-55-million/$1"
}
# million_panel FILE COLUMN TITLE STYLE: a line for each of the models below
million_panel() {
  local model plot="" i=0
  for model in baseline alpha-300 run-time-10 run-time-adaptive-1000 shipped-sane-3; do
    awk -F, -v m="$model" -v c="$2" '$1 == m && $2 == 0 { print ($3 > 0 ? $3 : 20000), $c }' "$scratch/million-$1" >"$scratch/$1-$model-$2"
    plot+="${plot:+, }'$scratch/$1-$model-$2' using 1:2 with $4 lw 1.7 lc rgb '${colours[i]}' title '$(million_name "$model")'"
    i=$((i + 1))
  done
  printf 'set title "%s"\nplot %s\n' "$3" "$plot"
}
million_name() {
  case $1 in
  baseline) echo "no SANE: overflows" ;;
  alpha-300) echo "trained, alpha 300" ;;
  run-time-10) echo "at run time, alpha 10" ;;
  run-time-adaptive-*) echo "at run time, adaptive" ;;
  shipped-sane-3) echo "trained, alpha 3" ;;
  esac
}
draw_million() {
  million_rows answers.csv >"$scratch/million-answers"
  million_rows norms.csv >"$scratch/million-norms"
  {
    look 1080 430 million_streams.svg
    cat <<GNUPLOT
set xlabel 'tokens read'
set logscale x
set xrange [15000:1.3e8]
set xtics ('0' 20000, '64K' 65536, '1M' 1e6, '10M' 1e7, '100M' 1e8)
set multiplot layout 1,3 margins screen 0.07,0.985,0.15,0.9 spacing screen 0.06,0.1
unset key
set logscale y
set format y '1e%T'
set yrange [100:1e39]
set ytics 1e3, 1e6
GNUPLOT
    million_panel norms 6 "norm of the state" lines
    printf "set key at graph 0.98, graph 0.4 right center Left reverse samplen 1.2\nunset logscale y\nset format y '%%g'\nset yrange [0:1.05]\nset ytics 0.2\n"
    million_panel answers 4 "right answers from the state" "linespoints pt 7 ps 0.5"
    printf 'unset key\nset yrange [0.2:0.8]\n'
    million_panel norms 4 "loss" lines
    echo "unset multiplot"
  } | gnuplot
}
draw_million_alphas() {
  local kind position plot i=0 first=yes
  {
    look 1080 430 million_alpha.svg
    cat <<GNUPLOT
set xlabel 'alpha'
set logscale x
set xrange [0.2:450]
set xtics (0.3, 1, 3, 10, 30, 100, 300)
set yrange [0.5:1.03]
set multiplot layout 1,2 margins screen 0.07,0.985,0.15,0.9 spacing screen 0.06,0.1
set ylabel 'right answers'
set key at graph 0.03, graph 0.3 left center Left reverse samplen 1.2
GNUPLOT
    for kind in alpha run-time; do
      plot="" i=0
      for position in 65536 1000000 10000000 100000000; do
        awk -F, -v p="$position" -v k="$kind-" 'index($1, k) == 1 && $3 == p { a = substr($1, length(k) + 1); if (a + 0 > 0) print a, $4 }' \
          "$scratch/million-answers" | sort -g >"$scratch/$kind-$position"
        plot+="${plot:+, }'$scratch/$kind-$position' using 1:2 with linespoints pt 7 ps 0.6 lw 1.5 lc rgb '${colours[i + 1]}' title 'after $(with_commas "$position")'"
        i=$((i + 1))
      done
      printf 'set title "%s"\nplot %s\n' "$([ $kind = alpha ] && echo "trained 300 steps with alpha" || echo "alpha put on at run time")" "$plot"
      [ -n "$first" ] && printf 'unset key\nunset ylabel\n' && first=""
    done
    echo "unset multiplot"
  } | gnuplot
}

# "position mean error" over seeds
family_points() {  # folder, variant, model
  awk -F, -v v="$2" -v m="$3" '
    FNR == 1 { file++; next }
    $1 != v { next }
    file == 1 { asked[$5] }
    $3 != m { next }
    file == 1 { n[$5]++; s[$5] += $6; q[$5] += $6 * $6; next }
    $10 == 1 { for (p in asked) if (p + 0 > $5) n[p]++ }
    END { for (p in n) { e = n[p] > 1 ? (q[p] - s[p] * s[p] / n[p]) / (n[p] - 1) / n[p] : 0; print (p > 0 ? p : 20000), s[p] / n[p], sqrt(e > 0 ? e : 0) } }' \
    "$1/answers.csv" "$1/norms.csv" | sort -n
}
# draw_family FILE MODELS KEYS PANEL...: a panel is folder:variant:title; those of the numbers KEYS have a key
draw_family() {
  local file=$1 drawn=$2 keys=" $3 " number=0 panel from variant title model i plot
  shift 3
  {
    look 1080 620 "$file"
    cat <<GNUPLOT
set logscale x
set xrange [15000:1.6e7]
set xtics ('0' 20000, '64K' 65536, '1M' 1048576, '10M' 10485760)
set yrange [0:1.08]
set ytics 0.2
set multiplot layout 2,3 margins screen 0.06,0.985,0.06,0.9 spacing screen 0.05,0.13
unset key
GNUPLOT
    for panel in "$@"; do
      IFS=: read -r from variant title <<<"$panel"
      number=$((number + 1))
      [[ $keys == *" $number "* ]] && echo "set key at graph 0.3, graph 0.45 left center Left reverse samplen 1.2"
      plot="" i=0
      for model in $drawn; do
        family_points "$from" "$variant" "$model" >"$scratch/$number-$model"
        [ -s "$scratch/$number-$model" ] &&
          plot+="${plot:+, }'$scratch/$number-$model' using 1:2:3 with yerrorlines pt 7 ps 0.5 lw 1.5 lc rgb '${colours[i]}' title '$model'"
        i=$((i + 1))
      done
      printf 'set title "%s"\nplot %s\n' "$title" "${plot:-1 / 0 notitle}"
      echo "unset key"
    done
    echo "unset multiplot"
  } | gnuplot
}
draw_families() {
  local variant panels=()
  for variant in rwkv7-slow deltanet deltanet-beta2 kda-slow gdn-slow hybrid-slow; do panels+=("$family:$variant:$variant"); done
  draw_family family_answers.svg "control run-time-10 run-time-adaptive-1000 tuned" 4 "${panels[@]}"
  [ -e "$family/larger-far/answers.csv" ] || return 0
  draw_family family_more.svg "control run-time-tau-0.3 run-time-tau-0.1 tuned first run-time-tau-0.03 run-time-10" "3 5 6" \
    "$family/larger-far:deltanet:deltanet, 28 million" "$family/larger-far:kda-slow:kda-slow, 29 million" \
    "$family/larger-far:gdn-slow:gdn-slow, 32 million" "$family/low-tau:deltanet:deltanet, 5 million" \
    "$family/low-tau:kda-slow:kda-slow, 6 million" "$family/languages:rwkv7-slow:rwkv7-slow, two languages"
}

farthest >"$scratch/segments"
draw_alphas
draw_norms
draw_perplexities
draw_far
draw_pair
draw_million
draw_million_alphas
draw_families
