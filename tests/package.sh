#!/usr/bin/env bash
# Tries the Debian package that `make dist` has made on a bare system (debootstrap, as root): lintian, then three commands to
# the first callback, an upgrade that keeps data and settings, a removal that keeps them too, and a purge that does not.
# Usage: tests/package.sh [DEB]
set -euo pipefail
cd "$(dirname "$0")/.."
built=$(realpath "${CARGO_TARGET_DIR:-target}")
arch=$(dpkg --print-architecture)
deb=$(realpath "${1:-$(echo "$built"/dist/dueq_*_"$arch".deb)}")
root=$built/package-root
base=$built/package-base.tar
port=18980
url=http://127.0.0.1:$port

say() { printf 'package: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
within() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
install_deb() {
  cp "$1" "$root/tmp/dueq.deb"
  within apt-get install --yes -qq /tmp/dueq.deb > "$root/tmp/apt.log" 2>&1 || { cat "$root/tmp/apt.log" >&2; die "apt-get install $1"; }
}

for tool in debootstrap lintian; do
  command -v "$tool" > /dev/null || { apt-get update -qq && apt-get install --yes -qq --no-install-recommends "$tool" > /dev/null; }
done

say "lintian"
lintian --fail-on error "$deb"

if [ ! -e "$base" ]; then
  say "a bare system"
  rm -rf "$root"
  debootstrap --variant=minbase --include=ca-certificates,curl bookworm "$root" > "$built/package-base.log"
  tar -C "$root" -cf "$base.new" . && mv "$base.new" "$base"
fi
rm -rf "$root"
mkdir -p "$root"
tar -C "$root" -xf "$base"
cp /etc/resolv.conf "$root/etc/resolv.conf"
# There is no systemd here: nothing is started but by hand.
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
mount -t proc proc "$root/proc"
server=
over() {
  [ -z "$server" ] || kill -9 "$server" 2> /dev/null || true
  umount "$root/proc"
}
trap over EXIT

# The service as its unit starts it: the same user, directory and variables, and settings that come last.
start() {
  local unit=$root/lib/systemd/system/dueq.service command
  local -a variables
  command=$(sed -n 's/^ExecStart=//p' "$unit")
  mapfile -t variables < <(sed -n 's/^Environment=//p' "$unit"; grep -v -e '^#' -e '^$' "$root/etc/dueq/dueq.env")
  # shellcheck disable=SC2086 # the words of the command
  chroot --userspec=dueq:dueq "$root" env -i PATH=/usr/bin:/bin "${variables[@]}" sh -c 'cd /var/lib/dueq && umask 077 && exec "$@"' sh $command \
    > "$root/tmp/dueq.log" 2>&1 &
  server=$!
  for _ in $(seq 300); do
    if curl -sf "$url/readyz" > /dev/null; then return; fi
    kill -0 "$server" 2> /dev/null || break
    sleep 0.1
  done
  cat "$root/tmp/dueq.log" >&2
  die "the service does not get ready"
}
stop() {
  kill "$server"
  wait "$server" || die "exit code $? at the end"
  server=
}
held() { curl -sf "$url/topics/kept" | sed -n 's/.*"delayed":\([0-9]*\).*/\1/p'; }

# The release before, for the upgrade: the same files under another version.
dpkg-deb -R "$deb" "$built/package-older"
sed -i 's/^Version: .*/Version: 0.0.1-1/' "$built/package-older/DEBIAN/control"
dpkg-deb --root-owner-group --build "$built/package-older" "$built/package-older.deb" > /dev/null
rm -rf "$built/package-older"

say "from nothing to the first answer"
begin=$(date +%s%N)
within apt-get update -qq
install_deb "$built/package-older.deb"
echo "DUEQ_LISTEN=127.0.0.1:$port" >> "$root/etc/dueq/dueq.env"
launched=$(date +%s%N)
start
curl -sf "$url/topics/kept/messages" --json '{"payload": 1, "delay_ms": 3600000}' > /dev/null
end=$(date +%s%N)
say "$(((end - begin) / 1000000)) ms, of which $(((end - launched) / 1000000)) ms from the start of the service to the first publish"
[ $(((end - begin) / 1000000000)) -lt 60 ] || die "that is more than a minute"
owner() { within stat -c %U:%G:%a "$1"; }
[ "$(owner /etc/dueq/dueq.env)" = root:dueq:640 ] || die "dueq.env: $(owner /etc/dueq/dueq.env)"
[ "$(owner /var/lib/dueq)" = dueq:dueq:700 ] || die "the data: $(owner /var/lib/dueq)"
within test -e /etc/systemd/system/multi-user.target.wants/dueq.service || die "the service is not enabled"
stop

say "upgrade"
install_deb "$deb"
grep -q "^DUEQ_LISTEN=127.0.0.1:$port$" "$root/etc/dueq/dueq.env" || die "the settings are lost"
start
[ "$(held)" = 1 ] || die "the message is lost: $(held)"
[ "$(owner /etc/dueq/dueq.env)" = root:dueq:640 ] || die "dueq.env: $(owner /etc/dueq/dueq.env)"
within dueq --version
for page in man/man1/dueq.1.gz bash-completion/completions/dueq doc/dueq/copyright; do
  within test -s "/usr/share/$page" || die "no $page"
done
stop

say "remove, install again"
within apt-get remove --yes -qq dueq > /dev/null
within test -d /var/lib/dueq/appendonlydir || die "a removal deletes the data"
install_deb "$deb"
start
[ "$(held)" = 1 ] || die "the message is lost: $(held)"
stop

say "purge"
within apt-get purge --yes -qq dueq > /dev/null
for path in /var/lib/dueq /etc/dueq /usr/bin/dueq /usr/bin/dueq-bench /lib/systemd/system/dueq.service /etc/systemd/system/multi-user.target.wants/dueq.service; do
  within test ! -e "$path" || die "a purge leaves $path"
done
within getent passwd dueq > /dev/null && die "a purge leaves the user"
say "ok"
