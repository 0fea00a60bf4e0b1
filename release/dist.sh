#!/usr/bin/env bash
# Builds what is uploaded, checks it, and tries it out: dist/ has the source distribution, and the
# wheels made from it and from nothing else: one for Python 3.11, and one for the stable ABI, which
# serves all later ones. On Linux they have the tag of the oldest systems they run on. All are
# installed into empty environments of each Python that is found, where the demo runs.
#
#     release/dist.sh PYTHON      the one that has the tools
set -euo pipefail
cd "$(dirname "$0")/.."

python=$(realpath -s "$1")
tools=$(dirname "$python")
export PATH=$tools:$PATH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

rm -rf dist
mkdir dist
uv build -q --sdist --python "$python" --out-dir dist
rm -f dist/.gitignore

# Empty but for what the demo needs, as a stranger's: the package's folder is not on the path.
try_out() {
  local place=$scratch/environment
  uv venv -q --clear --python "$1" "$place"
  uv pip install -q --python "$place/bin/python" "$2[arrow]"
  cp examples/demo.py "$scratch/demo.py"
  (cd "$scratch" && "$place/bin/python" demo.py >"$scratch/demo.txt" && "$place/bin/ferry" --version)
  grep -q "same bits" "$scratch/demo.txt"
  echo "$("$1" --version): the demo ran from $(basename "$2")"
}

mapfile -t pythons < <("$python" release/pythons.py 3.11 3.12 3.13 3.14)
for one in "${pythons[@]}"; do
  wheel=$(compgen -G "$PWD/dist/*-abi3-*.whl" || true)
  if [ -z "$wheel" ]; then
    rm -rf "$scratch/wheel"
    uv build -q --wheel --python "$one" --out-dir "$scratch/wheel" dist/*.tar.gz
    if [ "$(uname)" = Linux ]; then
      "$python" -m auditwheel -v repair --wheel-dir "$scratch/repaired" "$scratch"/wheel/*.whl 2>"$scratch/log" ||
        { cat "$scratch/log"; exit 1; }
    else
      mkdir "$scratch/repaired" && cp "$scratch"/wheel/*.whl "$scratch/repaired"
    fi
    wheel=$(compgen -G "$scratch/repaired/*.whl")
    wheel=$PWD/dist/$(basename "$wheel")
    mv "$scratch"/repaired/*.whl dist/
    rmdir "$scratch/repaired"
  fi
  try_out "$one" "$wheel"
done
try_out "$python" "$(compgen -G "$PWD/dist/*.tar.gz")"

"$python" -m twine check --strict dist/*
# W002: an empty `__init__.py` is the same file wherever it stands.
check-wheel-contents --ignore W002 dist/*.whl
if compgen -G "dist/*-abi3-*.whl" >/dev/null; then abi3audit --strict --summary dist/*-abi3-*.whl; fi
ls -l dist
