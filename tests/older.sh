#!/usr/bin/env bash
# Builds the dueq that upgrades begin from, and prints the path of its binary: that of the last tag, or where there is none
# the last one that did not say in its registration what it reads. OLDER names another commit.
set -euo pipefail
cd "$(dirname "$0")/.."
older=${OLDER:-$(git describe --tags --abbrev=0 HEAD^ 2> /dev/null || echo af1df7a)}
commit=$(git rev-parse --verify "$older^{commit}")
mkdir -p "${CARGO_TARGET_DIR:-target}/older"
target=$(realpath "${CARGO_TARGET_DIR:-target}/older")
if [ "$(cat "$target/commit" 2> /dev/null)" != "$commit" ]; then
  git worktree remove --force "$target/tree" 2> /dev/null || rm -rf "$target/tree"
  git worktree prune
  git worktree add --quiet --detach "$target/tree" "$commit"
  (cd "$target/tree" && CARGO_TARGET_DIR=$target/build "${CARGO:-cargo}" build --release --locked >&2)
  git worktree remove --force "$target/tree"
  echo "$commit" > "$target/commit"
fi
echo "$target/build/release/dueq"
