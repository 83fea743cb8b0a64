#!/usr/bin/env bash
# Two runs of experiments/alpha_table.sh as one: all rows of both, and how well the two agree.
#
#   experiments/join_results.sh OLD NEW FOLDER
#
# OLD and NEW are folders of results. FOLDER, which may be OLD, gets losses.csv, families.csv, streams.csv,
# overflows.csv and segments.csv; where both runs have a row, that of NEW. It makes sense only if the models of both
# are the same ones: then all rows of losses.csv that both have are the same. experiments/tables.sh makes the rest;
# seconds.csv and a log belong to one run and are left alone.
#
# Printed are, for each table, how many rows both runs have and how many of these are the same in all digits
# (segments.csv has six), then those that are not: old, new.
set -eu
old=$1 new=$2 folder=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$folder"

join_table() {  # file, number of its first columns that name a row
  : >"$scratch/rows"
  awk -F, -v columns="$2" -v made="$scratch/rows" -v file="$1" '
    function name_of(row, cell, i, name) {
      split(row, cell, ",")
      for (i = 1; i <= columns; i++) name = name "," cell[i]
      return name
    }
    # Six digits of a whole number may have been written as 2.5e+10 or as 25000000001.
    function same(row, other, a, b, n, i) {
      n = split(row, a, ",")
      split(other, b, ",")
      for (i = 1; i <= n; i++)
        if (a[i] "" != b[i] "" && sprintf("%.6g", a[i]) != b[i] "" && sprintf("%.6g", b[i]) != a[i] "") return 0
      return 1
    }
    FNR == 1 { next }
    NR == FNR { before[name_of($0)] = $0; next }
    {
      name = name_of($0)
      print >>made
      if (!(name in before)) next
      both++
      if (same($0, before[name])) equal++
      else differ = differ "  " before[name] "\n  " $0 "\n"
      delete before[name]
    }
    END {
      for (name in before) print before[name] >>made
      printf "%s: %d rows in both, %d the same\n%s", file, both, equal, differ
    }' "$old/$1" "$new/$1"
  head -n 1 "$new/$1" >"$scratch/table"
  LC_ALL=C sort -t, -k1,1 -k2,2n -k3,3V -k4,4n "$scratch/rows" >>"$scratch/table"
  cp "$scratch/table" "$folder/$1"
}

join_table losses.csv 2
join_table families.csv 3
join_table streams.csv 4
join_table overflows.csv 3
join_table segments.csv 4
