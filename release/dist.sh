#!/usr/bin/env bash
# Builds what is uploaded, checks it, and tries it out: dist/ has the source distribution, a wheel
# made from it and from nothing else, and on Linux that wheel with the tag of the oldest systems it
# runs on. Both are installed into empty environments, where the demo runs.
#
#     release/dist.sh PYTHON
set -euo pipefail
cd "$(dirname "$0")/.."

python=$(realpath -s "$1")
tools=$(dirname "$python")
export PATH=$tools:$PATH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

rm -rf dist
uv build -q --sdist --python "$python" --out-dir "$scratch/source"
uv build -q --wheel --python "$python" --out-dir "$scratch/wheel" "$scratch"/source/*.tar.gz
mkdir dist
cp "$scratch"/source/*.tar.gz dist/
if [ "$(uname)" = Linux ]; then
  "$python" -m auditwheel repair --wheel-dir dist "$scratch"/wheel/*.whl
else
  cp "$scratch"/wheel/*.whl dist/
fi
"$python" -m twine check --strict dist/*
# W002: an empty `__init__.py` is the same file wherever it stands.
check-wheel-contents --ignore W002 dist/*.whl

# Empty but for what the demo needs, as a stranger's: the package's folder is not on the path.
try_out() {
  uv venv -q --python "$python" "$scratch/$1"
  uv pip install -q --python "$scratch/$1/bin/python" "$2[arrow]"
  cp examples/demo.py "$scratch/demo.py"
  (cd "$scratch" && "$scratch/$1/bin/python" demo.py >"$scratch/$1.txt" && "$scratch/$1/bin/ferry" --version)
  grep -q "same bits" "$scratch/$1.txt"
  echo "$1: the demo ran from $(basename "$2")"
}
try_out wheel-environment "$PWD"/dist/*.whl
try_out source-environment "$PWD"/dist/*.tar.gz
ls -l dist
