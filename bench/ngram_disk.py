#!/usr/bin/env python3
"""Reads of a cached n-gram table against what fio reaches on the same file, alternately.

    ngram_disk.py MODEL [--sprat PROGRAM] [--seconds S] [--rounds N] [--depth D] [--tokens T]
                  [--history bench/history.jsonl]

MODEL is a directory of tools/make_ngram_model.py, written in full and larger than the arena:

    tools/make_ngram_model.py MODEL --preset flash-lite-table --no-word-table

Prints one JSON object: reads a second of fio (4 KB, O_DIRECT, io_uring) and of `sprat ngram bench`
with other tokens in every call, each round's, and the ratio of the medians; --history appends it. Needs
fio.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

from http_load import remember


def fio(file: pathlib.Path, seconds: float, depth: int) -> float:
    answer = subprocess.run(
        ["fio", "--name=rows", f"--filename={file}", "--readonly", "--rw=randread", "--bs=4k",
         "--direct=1", "--ioengine=io_uring", f"--iodepth={depth}", "--norandommap",
         "--randrepeat=0", "--time_based", f"--runtime={seconds}", "--output-format=json"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return json.loads(answer)["jobs"][0]["read"]["iops"]


def sprat(arguments: argparse.Namespace) -> dict:
    answer = subprocess.run(
        [arguments.sprat, "ngram", "bench", "-m", str(arguments.model), "--no-word-table",
         "--tables", "cached", "--cache-bytes", str(arguments.cache_bytes), "--fresh", "--json",
         "--tokens", str(arguments.tokens), "--seconds", str(arguments.seconds),
         "--queue-depth", str(arguments.depth)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return json.loads(answer)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--sprat", default="build/release/bin/sprat")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--depth", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--cache-bytes", type=int, default=16 << 20)
    parser.add_argument("--history", type=pathlib.Path)
    arguments = parser.parse_args()
    rounds = []
    for _ in range(arguments.rounds):
        limit = fio(arguments.model / "model.safetensors", arguments.seconds, arguments.depth)
        row = sprat(arguments)
        rounds.append({
            "fio": round(limit),
            "sprat": row["reads_per_s"],
            "misses": row["misses"],
            "hits": row["hits"],
            "reader": row["reader"],
        })  # fmt: skip
    ratio = statistics.median(r["fio"] for r in rounds) / statistics.median(
        r["sprat"] for r in rounds
    )
    measured = {"depth": arguments.depth, "tokens": arguments.tokens,
                "fio_over_sprat": round(ratio, 3), "rounds": rounds}  # fmt: skip
    print(json.dumps(measured))
    remember(arguments.history, **measured)


if __name__ == "__main__":
    main()
