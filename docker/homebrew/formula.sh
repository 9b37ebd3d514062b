#!/usr/bin/env bash
# Prints the formula of a release, whose tarballs have these checksums.
# Usage: docker/homebrew/formula.sh VERSION HOMEPAGE SHA256SUMS > dueq.rb
#   (HOMEPAGE: the address of the repository, such as https://github.com/OWNER/dueq)
set -euo pipefail
version=$1 homepage=$2 sums=$3
formula=$(sed -e "s|@VERSION@|$version|g" -e "s|@HOMEPAGE@|$homepage|g" "$(dirname "$0")/dueq.rb.in")
while read -r sum file; do
  target=${file#"dueq-$version-"}
  formula=${formula//"@${target%.tar.gz}@"/$sum}
done < "$sums"
if missing=$(grep -o '@[a-z0-9_-]*@' <<< "$formula"); then
  echo "formula: $sums lacks ${missing//$'\n'/ }" >&2
  exit 1
fi
printf '%s\n' "$formula"
