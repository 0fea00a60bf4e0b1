#!/usr/bin/env bash
# Builds the Python module with ThreadSanitizer, and with AddressSanitizer and
# UndefinedBehaviorSanitizer, and runs tests/native/stress.py with each, and the tests of bindings
# with the latter.
#
#     native/sanitize.sh PYTHON      SECONDS_EACH=30
set -euo pipefail
cd "$(dirname "$0")/.."

python=$(realpath -s "$1")
seconds=${SECONDS_EACH:-30}
tools=$("$python" -c "import sysconfig; print(sysconfig.get_path('scripts'))")
build=$PWD/build/sanitize
compiler=${CXX:-g++}

# sanitize NAME FLAGS LIBRARY OPTIONS...
sanitize() {
  local name=$1 flags=$2 library=$3
  shift 3
  PATH=$tools:$PATH cmake -S . -B "$build/$name" -G Ninja \
    -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_CXX_FLAGS="$flags -fno-omit-frame-pointer" -DPython_EXECUTABLE="$python" \
    -Dnanobind_DIR="$("$python" -m nanobind --cmake_dir)" >"$build-$name.log"
  PATH=$tools:$PATH cmake --build "$build/$name" >>"$build-$name.log"
  # The package as it is, with this module.
  rm -rf "$build/$name/package"
  mkdir -p "$build/$name/package/tensorferry"
  ln -s "$PWD"/src/tensorferry/* "$build/$name/package/tensorferry/"
  rm -f "$build/$name/package/tensorferry"/_native*.so
  cp "$build/$name"/_native*.so "$build/$name/package/tensorferry/"
  echo "$name: $seconds s"
  environment=(PYTHONPATH="$build/$name/package" PYTHONMALLOC=malloc OPENBLAS_NUM_THREADS=1 "$@"
    LD_PRELOAD="$("$compiler" -print-file-name="$library") $("$compiler" -print-file-name=libstdc++.so)")
  env "${environment[@]}" "$python" tests/native/stress.py "$seconds"
}

mkdir -p "$build"
sanitize address "-fsanitize=address,undefined -fno-sanitize-recover=all" libasan.so \
  ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1
env "${environment[@]}" "$python" -m pytest -q -p no:cacheprovider -p no:faulthandler \
  tests/native tests/hostile/test_collisions.py
sanitize thread "-fsanitize=thread" libtsan.so \
  TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:exitcode=66"
