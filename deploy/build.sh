#!/bin/sh
# Install prudent with its server into a new environment and compile all kernels for a generic CPU of this platform.
# usage: build.sh SOURCE TARGET
set -eu
source=$1
target=$2
export NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES="" NUMBA_CACHE_DIR="$target/kernels" PYTHONDONTWRITEBYTECODE=1
python3 -m venv "$target"
"$target/bin/pip" install --no-cache-dir --quiet -c "$source/constraints.txt" "$source[serve,postgres]"
mkdir -p "$NUMBA_CACHE_DIR"
"$target/bin/prudent" compile
"$target/bin/prudent" serve --help > /dev/null
