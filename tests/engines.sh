#!/usr/bin/env bash
# Runs tests on the other servers that dueq works with, which tests/setup.sh puts into target/engines: a slice, chosen for
# what differs between versions, or the whole of the contract, the faults and the embedded Redis.
# Usage: tests/engines.sh slice|whole [ENGINE]…   (none: redis-6.2 redis-8.2 valkey-9; of a slice the first and the last, whose
# answers differ most from those of the Redis on PATH)
set -euo pipefail
cd "$(dirname "$0")/.."
engines=$(realpath "${CARGO_TARGET_DIR:-target}/engines")
extent=${1:?slice or whole}
shift
[ $# -gt 0 ] || case $extent in
  slice) set -- redis-6.2 valkey-9 ;;
  *) set -- redis-6.2 redis-8.2 valkey-9 ;;
esac

# run TEST FILTER…
run() {
  local test=$1
  shift
  "${CARGO:-cargo}" test --locked --quiet --test "$test" -- "$@"
}

# on ENGINE: its tests, whose first failure does not end them
on() {
  local failed=0 skipped=() without=()
  export TEST_REDIS=$engines/$1
  [ -x "$TEST_REDIS" ] || { echo "engines: $TEST_REDIS is missing: tests/setup.sh engines"; return 2; }
  echo "engines: $extent on $("$TEST_REDIS" --version | cut -d ' ' -f 1-3)"
  case $extent in
    slice)
      # All tests run with Sentinels of the Redis on PATH, and these with the newest of the others'.
      [ "$1" = valkey-9 ] || without=(--skip sentinel)
      run contract ack:: extend:: lease:: nack:: partitions:: publish:: service:: || failed=1
      run faults "${without[@]}" --skip everysec --skip frozen cluster_moved failover memory_stays redis_killed scripts_flushed || failed=1
      ;;
    whole)
      # Redis 6.2 cannot read a log of several files, as Redis 7 writes it.
      [ "$1" != redis-6.2 ] || skipped=(--skip a_data_directory_of_version_1)
      # Valkey 9.1 counts time by the processor and looks at the machine's clock now and then: one that a test sets or stops
      # is not at once its own.
      [ "$1" != valkey-9 ] || skipped=(--skip model:: --skip a_clock_goes_forward_and_back_while_redis_runs)
      run contract || failed=1
      run faults "${skipped[@]}" || failed=1
      ;;
    *)
      echo "engines: slice or whole, not $extent"
      return 2
      ;;
  esac
  run command "${without[@]}" embedded:: sentinel:: || failed=1
  return $failed
}

# Slices mostly wait, so they run side by side, two tests of each at a time.
declare -A parts
[ "$extent" != slice ] || export RUST_TEST_THREADS=2
for engine in "$@"; do
  on "$engine" > "$engines/$engine.log" 2>&1 &
  parts[$engine]=$!
  [ "$extent" = slice ] || wait $! || true
done
failed=0
for engine in "$@"; do
  wait "${parts[$engine]}" || failed=1
  cat "$engines/$engine.log"
done
exit $failed
