#!/usr/bin/env bash
# Builds each fuzz target with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer and runs it.
#
#     native/fuzz/run.sh [TARGET ...]      RUNS=10000000 executions each
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v clang++ >/dev/null; then
  echo "clang with libFuzzer is needed: apt-get install clang libclang-rt-14-dev" >&2
  exit 2
fi

runs=${RUNS:-10000000}
build=../build/fuzz
mkdir -p "$build/core"
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=($(cd fuzz && ls fuzz_*.cc | sed 's/^fuzz_//; s/\.cc$//'))

flags=(-std=c++20 -g -O2 -fno-omit-frame-pointer -fno-sanitize-recover=all -I.
  -DFERRY_BLOCK=32 -DFERRY_PART=64)
for source in core/*.cc; do
  clang++ "${flags[@]}" -fsanitize=fuzzer-no-link,address,undefined -c "$source" \
    -o "$build/core/$(basename "$source" .cc).o"
done

for target in "${targets[@]}"; do
  clang++ "${flags[@]}" -fsanitize=fuzzer,address,undefined -o "$build/$target" \
    "fuzz/fuzz_$target.cc" "$build"/core/*.o
  mkdir -p "$build/corpus/$target"
  echo "$target: $runs executions"
  if ! "$build/$target" -runs="$runs" -max_len=512 -print_final_stats=1 \
    -artifact_prefix="$build/$target-" "$build/corpus/$target" "fuzz/seeds/$target" \
    >"$build/$target.log" 2>&1; then
    tail -n 60 "$build/$target.log"
    exit 1
  fi
  grep -E "stat::(number_of_executed_units|average_exec_per_sec|peak_rss_mb)" "$build/$target.log"
done
