#!/usr/bin/env bash
# Builds the core with other compilers and for other processors, and runs the fuzz targets on their
# seeds there. What is not installed is passed over, and said so:
#
#     apt-get install clang libc++-dev libc++abi-dev g++-aarch64-linux-gnu qemu-user
#     pip install ziglang
#
# Windows' and macOS' programs cannot run here: zig, which brings the headers of both, compiles and
# links them. Pip installs it under the name python-zig.
#
#     native/portable.sh                  all of it
#     native/portable.sh arm other        some: compilers, processors, arm, other (systems)
set -euo pipefail
cd "$(dirname "$0")"
parts=" ${*:-compilers processors arm other} "

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
flags=(-std=c++20 -O2 -Wall -Wextra -Wpedantic -Werror -I. -pthread)
targets=($(cd fuzz && ls fuzz_*.cc | sed 's/^fuzz_//; s/\.cc$//'))

wants() { [[ $parts == *" $1 "* ]]; }
has() { command -v "$1" >/dev/null || { echo "passed over: $1 is not installed"; return 1; }; }

# compile NAME COMPILER...: one program a target.
compile() {
  local name=$1 source target
  shift
  mkdir -p "$build/$name"
  for source in core/*.cc fuzz/replay.cc; do
    "$@" "${flags[@]}" -c "$source" -o "$build/$name/$(basename "$source" .cc).o"
  done
  for target in "${targets[@]}"; do
    "$@" "${flags[@]}" "fuzz/fuzz_$target.cc" "$build/$name"/*.o -o "$build/$name/$target.run"
  done
}

# run NAME WHERE [EMULATOR...]
run() {
  local name=$1 where=$2 target result
  shift 2
  for target in "${targets[@]}"; do
    result=$("$@" "$build/$name/$target.run" "fuzz/seeds/$target"/* 2>"$build/errors") || {
      echo "$where: $target failed"
      tail "$build/errors"
      exit 1
    }
    echo "$where: $target: $result"
  done
}

if wants compilers; then
  compilers=(g++ clang++)
  for version in 14 15 16 17 18 19 20 21 22; do
    if command -v "clang++-$version" >/dev/null; then compilers+=("clang++-$version"); fi
  done
  for compiler in "${compilers[@]}"; do
    has "$compiler" || continue
    compile "$compiler" "$compiler"
    run "$compiler" "$compiler"
  done
  if has clang++ && [ -d /usr/include/c++/v1 ]; then
    compile libc++ clang++ -stdlib=libc++
    run libc++ "clang++ with libc++"
  fi
fi

# Processors of this kind that lack what the code would use.
if wants processors && has qemu-x86_64 && [ "$(uname -m)" = x86_64 ]; then
  [ -d "$build/g++" ] || compile g++ g++
  for processor in core2duo Nehalem Haswell Haswell,-abm Haswell,-bmi1,-avx2 Haswell,-popcnt max; do
    run g++ "$processor" qemu-x86_64 -cpu "$processor"
  done
fi

if wants arm && has aarch64-linux-gnu-g++ && has qemu-aarch64; then
  compile aarch64 aarch64-linux-gnu-g++
  run aarch64 "aarch64" qemu-aarch64 -L /usr/aarch64-linux-gnu
  # No processor that qemu knows lacks the instruction: the kernel is made to say so.
  echo 'unsigned long getauxval(unsigned long type) { (void)type; return 0; }' >"$build/without.c"
  aarch64-linux-gnu-gcc -shared -fPIC "$build/without.c" -o "$build/without.so"
  run aarch64 "aarch64 without crc" qemu-aarch64 -L /usr/aarch64-linux-gnu -E "LD_PRELOAD=$build/without.so"
fi

zig=$(command -v zig || command -v python-zig || true)
if wants other && has "${zig:-zig}"; then
  # What clang asks about the processor is in no library of zig's but Linux's. Nothing runs here.
  echo 'unsigned __cpu_model[4]; int __cpu_indicator_init(void) { return 0; }' >"$build/processor.c"
  for target in x86_64-windows-gnu x86_64-macos; do
    mkdir -p "$build/$target"
    "$zig" cc -target "$target" -c "$build/processor.c" -o "$build/$target/processor.o"
  done
  for target in x86_64-windows-gnu aarch64-macos x86_64-macos; do
    compile "$target" "$zig" c++ -target "$target"
    echo "$target: compiled and linked"
  done
  # The bindings need Python's headers: those of this system fit macOS, not Windows.
  python=${PYTHON:-python3}
  if headers=$("$python" -c "import nanobind, sysconfig
print(nanobind.include_dir(), sysconfig.get_path('include'))" 2>/dev/null); then
    for source in *.cc; do
      "$zig" c++ -target aarch64-macos -std=c++20 -Wall -Wextra -Werror -I. \
        $(printf -- '-isystem %s ' $headers) -c "$source" -o "$build/binding.o"
    done
    echo "aarch64-macos: the bindings compiled"
  else
    echo "passed over: $python does not have nanobind"
  fi
fi
