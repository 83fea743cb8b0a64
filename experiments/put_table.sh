#!/usr/bin/env bash
# Puts a table that a script made into a page, in place of the one that is there.
#
#   experiments/put_table.sh PAGE NAME <TABLE
#
# PAGE has a line <!-- NAME --> before the table and a line <!-- end of NAME --> behind it.
set -eu
page=$1 name=$2
made=$(mktemp)
trap 'rm -f "$made"' EXIT
for line in "<!-- $name -->" "<!-- end of $name -->"; do
  [ "$(grep -cxF -e "$line" "$page")" = 1 ] || {
    echo "$page: expected one line '$line'" >&2
    exit 1
  }
done
{
  sed "/^<!-- $name -->\$/q" "$page"
  echo
  cat
  echo
  sed -n "/^<!-- end of $name -->\$/,\$p" "$page"
} >"$made"
cat "$made" >"$page"
