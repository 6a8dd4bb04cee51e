#!/usr/bin/env bash
# Compares the speed of the policies with libCacheSim's, in turns on one CPU, on one load: 20 million requests with
# 64-bit keys by Zipf's law (exponent 1) for a million objects, in a cache of 100,000.
#
#     crates/cache/beside/libcachesim.sh FOLDER [POLICY...]
#
# FOLDER has libCacheSim's source. What the package `libcachesim` of PyPI unpacks to has it in src/libCacheSim
# (`pip download --no-deps --no-binary :all: libcachesim==0.3.5`). Its build needs cmake, a C++ compiler, and the headers of
# GLib and zstd (Debian: libglib2.0-dev, libzstd-dev). Nothing of libCacheSim becomes part of Highwater: it is built in
# target/beside, and run as a program of its own.
set -euo pipefail

[ $# -ge 1 ] && [ -f "$1/libCacheSim/include/libCacheSim.h" ] || {
    echo "usage: $0 FOLDER [POLICY...], FOLDER with libCacheSim's source" >&2
    exit 2
}
source="$(cd "$1" && pwd)"
shift
cd "$(dirname "$0")/../../.."
policies=("$@")
[ ${#policies[@]} -gt 0 ] || policies=(lru fifo clock lfu 2q arc lirs w-tinylfu s3-fifo sieve clock2q+ lhd)
capacity=100000
build="${CARGO_TARGET_DIR:-target}/beside"
mkdir -p "$build"

cmake -S "$source" -B "$build/libcachesim" -DCMAKE_BUILD_TYPE=Release -DENABLE_TESTS=OFF -DBUILD_SHARED_LIBS=OFF >"$build/log"
cmake --build "$build/libcachesim" --target libCacheSim --parallel >>"$build/log" 2>&1 || { tail "$build/log" >&2; exit 1; }
archive="$(find "$build/libcachesim" -name 'liblibCacheSim.a' -o -name 'libCacheSim.a' | head -n 1)"
cc -O3 -march=native -I"$source/libCacheSim/include" $(pkg-config --cflags glib-2.0) crates/cache/beside/libcachesim.c \
    "$archive" $(pkg-config --libs glib-2.0 libzstd) -lstdc++ -lm -ldl -lpthread -o "$build/beside"
cargo build --quiet --release --package highwater-cache --example speed
speed="${CARGO_TARGET_DIR:-target}/release/examples/speed"
"$speed" --keys "$build/keys"

echo 'policy        misses   libCacheSim   Highwater  ratio   with numbering  ratio   (million requests a CPU second)'
for policy in "${policies[@]}"; do
    # Three rounds in turns; the median stands.
    for _ in 1 2 3; do
        "$build/beside" "$build/keys" $capacity "$policy"
        "$speed" "$policy" | tail -n 1
    done | awk -v policy="$policy" '
        NR % 2 { theirs[++n] = $3; misses = $2; next }
        { ours[n] = $3; numbered[n] = $4; own = $2 }
        function median(v) { return v[1] + v[2] + v[3] - least(v) - most(v) }
        function least(v) { return v[1] < v[2] ? (v[1] < v[3] ? v[1] : v[3]) : (v[2] < v[3] ? v[2] : v[3]) }
        function most(v) { return v[1] > v[2] ? (v[1] > v[3] ? v[1] : v[3]) : (v[2] > v[3] ? v[2] : v[3]) }
        END {
            a = median(theirs); b = median(ours); c = median(numbered)
            note = (own - misses > 0.001 || misses - own > 0.001) ? "  misses differ: " own : ""
            printf "%-12s %7s %13.1f %11.1f %6.2f %16.1f %6.2f%s\n", policy, misses, a, b, b / a, c, c / a, note
        }'
done
