#!/usr/bin/env bash
# Makes what a release consists of, in target/dist: a tarball with the programs (dueq, and dueq-bench for `dueq bench`), its manual pages and completions, a Debian
# package, a bill of materials, and SHA256SUMS. Checks the manifests for Kubernetes beside.
# Usage: docker/dist.sh [TARGET]   (a target of Rust such as x86_64-unknown-linux-musl; none: this machine's)
# On macOS it takes GNU's coreutils, findutils, sed and tar, before Apple's on the PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
built=$(realpath -m "${CARGO_TARGET_DIR:-target}")
dist=$built/dist
work=$built/dist-work
tools=$built/dist-tools
target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
name=dueq-$version-$target
# The same sources make the same files.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || date +%s)}
export SOURCE_DATE_EPOCH
umask 022

say() { printf 'dist: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# swagger_ui DIRECTORY: the large files of Swagger UI there, compressed, out of the crate that brings them
swagger_ui() {
  "$cargo" metadata --locked --format-version 1 | python3 -c '
import gzip, json, pathlib, sys, zipfile
crates = json.load(sys.stdin)["packages"]
crate = next(crate for crate in crates if crate["name"] == "utoipa-swagger-ui-vendored")
archive = zipfile.ZipFile(next(pathlib.Path(crate["manifest_path"]).parent.glob("res/*.zip")))
for name in ["swagger-ui-bundle.js", "swagger-ui-standalone-preset.js", "swagger-ui.css"]:
    entry = next(entry for entry in archive.namelist() if entry.endswith("/dist/" + name))
    pathlib.Path(sys.argv[1], name).write_bytes(gzip.compress(archive.read(entry), 9, mtime=0))
' "$1"
}

program() {
  local size file bin unused=$built/dist-unused
  say "building $target"
  # Files of Swagger UI that no page loads are empty, and the large ones are compressed. Its build script looks at this only once.
  mkdir -p "$unused"
  for file in swagger-ui.js swagger-ui-es-bundle.js swagger-ui-es-bundle-core.js; do
    : > "$unused/$file"
  done
  swagger_ui "$unused"
  # Relative relocations are packed, which glibc from 2.36 and musl from 1.2.4 on can read: a megabyte less.
  local link=-Wl,-z,pack-relative-relocs
  if [[ $target = *-darwin ]]; then link=-Wl,-dead_strip; fi
  for bin in dueq dueq-bench; do
    SWAGGER_UI_OVERWRITE_FOLDER=$unused "$cargo" rustc --bin "$bin" --profile dist --locked --target "$target" --target-dir "$built/dist-build" -- \
      -C link-arg="$link"
  done
  program=$built/dist-build/$target/dist/dueq
  size=$(stat -c %s "$program")
  [ "$size" -le 20000000 ] || say "the program has $size bytes, and should have no more than 20 MB"
}

# What the program says of itself, in $work/share.
documents() {
  mkdir -p "$work"/share/{man,completions}
  "$program" man "$work/share/man"
  for shell in bash zsh fish; do
    "$program" completions "$shell" > "$work/share/completions/dueq.$shell"
  done
  # What dueq writes is its user's alone.
  chmod -R u=rwX,go=rX "$work/share"
}

# pack DIRECTORY FILE: a tarball that depends on the contents alone
pack() {
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$work" -cf - "$1" | gzip -9n > "$2"
}

tarball() {
  local root=$work/$name
  install -D -m 755 -t "$root" "$program" "$program-bench"
  install -m 644 LICENSE CHANGELOG.md "$root"
  if [[ $target = *-linux-* ]]; then install -m 644 docker/debian/dueq.service docker/debian/dueq.env "$root"; fi
  cp -r "$work/share/man" "$work/share/completions" "$root"
  pack "$name" "$dist/$name.tar.gz"
}

# The packages whose libraries the program needs; none if it is static.
libraries() {
  mkdir -p "$work/libraries/debian"
  printf 'Source: dueq\n\nPackage: dueq\nArchitecture: any\n' > "$work/libraries/debian/control"
  (cd "$work/libraries" && dpkg-shlibdeps -O "$program" 2> /dev/null | sed -n 's/^shlibs:Depends=/, /p')
}

deb() {
  local root=$work/deb arch page file
  case $target in
    x86_64-*) arch=amd64 ;;
    aarch64-*) arch=arm64 ;;
    *) die "no Debian architecture for $target" ;;
  esac
  # In Debian's order, 1.0.0~rc.1 comes before 1.0.0.
  local debian_version=${version/-/\~}-1
  install -D -m 755 -t "$root/usr/bin" "$program" "$program-bench"
  for page in "$work"/share/man/*.1; do
    install -D -m 644 "$page" "$root/usr/share/man/man1/${page##*/}"
  done
  install -D -m 644 "$work/share/completions/dueq.bash" "$root/usr/share/bash-completion/completions/dueq"
  install -D -m 644 "$work/share/completions/dueq.zsh" "$root/usr/share/zsh/vendor-completions/_dueq"
  install -D -m 644 "$work/share/completions/dueq.fish" "$root/usr/share/fish/vendor_completions.d/dueq.fish"
  install -D -m 644 docker/debian/dueq.service "$root/lib/systemd/system/dueq.service"
  install -D -m 644 docker/debian/dueq.env "$root/etc/dueq/dueq.env"
  install -D -m 644 CHANGELOG.md "$root/usr/share/doc/dueq/changelog"
  printf 'dueq (%s) stable; urgency=medium\n\n  * See changelog.gz.\n\n -- The dueq contributors <packages@dueq.dev>  %s\n' \
    "$debian_version" "$(date -R -u -d "@$SOURCE_DATE_EPOCH")" > "$root/usr/share/doc/dueq/changelog.Debian"
  install -m 644 docker/debian/copyright "$root/usr/share/doc/dueq/copyright"
  # Debian's archive is another's.
  mkdir -p "$root/usr/share/lintian/overrides"
  echo "dueq: initial-upload-closes-no-bugs" > "$root/usr/share/lintian/overrides/dueq"
  gzip -9n "$root"/usr/share/man/man1/*.1 "$root"/usr/share/doc/dueq/changelog{,.Debian}
  mkdir -p "$root/DEBIAN"
  for file in postinst prerm postrm; do
    install -m 755 "docker/debian/$file" "$root/DEBIAN/$file"
  done
  echo /etc/dueq/dueq.env > "$root/DEBIAN/conffiles"
  (cd "$root" && find etc lib usr -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
  cat > "$root/DEBIAN/control" << CONTROL
Package: dueq
Version: $debian_version
Architecture: $arch
Maintainer: The dueq contributors <packages@dueq.dev>
Installed-Size: $(du -sk --exclude DEBIAN "$root" | cut -f 1)
Depends: adduser, init-system-helpers (>= 1.54), tzdata$(libraries)
Recommends: ca-certificates, redis-server | valkey-server
Section: net
Priority: optional
Description: delay queue over HTTP on Redis
 Publish a message now, lease it when it is due from any language, and
 acknowledge it when it is done. Or let dueq call a URL at that time.
 Retries, dead letters, cron schedules, groups in order and a dashboard are
 built in.
 .
 Without a Redis of yours, the service runs a private one, for which it needs
 redis-server or valkey-server.
CONTROL
  rm -f "$dist"/dueq_*_"$arch".deb
  # xz: every dpkg reads it.
  dpkg-deb --root-owner-group -Zxz --build "$root" "$dist/dueq_${debian_version}_$arch.deb" > /dev/null
}

# The Python that checks and describes, in an environment of its own.
tools() {
  if cmp -s docker/requirements.txt "$tools/requirements.txt"; then return; fi
  python3 -m venv --clear "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check -r docker/requirements.txt
  cp docker/requirements.txt "$tools/requirements.txt"
}

rm -rf "$work"
mkdir -p "$dist" "$work"
tools
"$tools/bin/kubernetes-validate" --strict --quiet docker/k8s/*.yaml
program
documents
rm -f "$dist/dueq-$version"*"$target"*
tarball
if command -v dpkg-deb > /dev/null; then deb; else say "no dpkg-deb: without a Debian package"; fi
"$cargo" metadata --format-version 1 --locked --filter-platform "$target" | "$tools/bin/python" docker/sbom.py > "$dist/$name.cdx.json"
(cd "$dist" && find . -maxdepth 1 -type f -name 'dueq*' -printf '%P\0' | sort -z | xargs -0 sha256sum > SHA256SUMS)
ls -l "$dist" >&2
