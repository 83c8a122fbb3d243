#!/usr/bin/env python3
"""Compares the speed of two builds by running them alternately.

    bench_compare.py [--rounds N] OLD NEW [-- ARGUMENTS...]

OLD and NEW are the same program of two builds: a Google Benchmark program, or `sprat` (then
ARGUMENTS begin with `bench`). Each round runs one after the other, in turn first. A benchmark has
changed only if its range of times over all rounds does not overlap with the other build's range;
everything else is noise. Exit status: 0, or 1 if something became slower.
"""

import argparse
import dataclasses
import json
import subprocess
import sys

TO_MICROSECONDS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}


@dataclasses.dataclass(frozen=True)
class Verdict:
    name: str
    old_us: tuple[float, float]  # smallest and largest time of the old build
    new_us: tuple[float, float]
    answer: str  # "faster", "slower" or "same"


def parse(output: str) -> dict[str, float]:
    """Benchmark name -> time in microseconds, from what a benchmark program printed.

    Google Benchmark prints one JSON object; `sprat bench --json` one a line, of which p50_us counts.
    """
    try:
        report = json.loads(output)
    except json.JSONDecodeError:
        report = None
    if isinstance(report, dict) and "benchmarks" in report:
        return {
            entry["name"]: entry["real_time"] * TO_MICROSECONDS[entry["time_unit"]]
            for entry in report["benchmarks"]
            if entry.get("run_type", "iteration") == "iteration" and "real_time" in entry
        }
    times = {}
    for line in output.splitlines():
        entry = json.loads(line)
        name = " ".join(f"{key}={entry[key]}" for key in ("tokens", "batch", "threads"))
        times[name] = float(entry["p50_us"])
    return times


def compare(old: list[dict[str, float]], new: list[dict[str, float]]) -> list[Verdict]:
    """A verdict for each benchmark that every run of both builds has, in the old build's order."""
    verdicts = []
    for name in old[0]:
        if not all(name in run for run in old + new):
            continue
        old_us = min(run[name] for run in old), max(run[name] for run in old)
        new_us = min(run[name] for run in new), max(run[name] for run in new)
        answer = "same"
        if new_us[1] < old_us[0]:
            answer = "faster"
        elif new_us[0] > old_us[1]:
            answer = "slower"
        verdicts.append(Verdict(name, old_us, new_us, answer))
    return verdicts


def run(program: str, arguments: list[str]) -> dict[str, float]:
    if arguments[:1] == ["bench"]:
        command = [program, *arguments, "--json"]
    else:
        command = [program, "--benchmark_format=json", *arguments]
    result = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        raise SystemExit(f"bench_compare: exit status {result.returncode}: {' '.join(command)}")
    return parse(result.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    runs = {options.old: [], options.new: []}
    if len(runs) != 2 or options.rounds < 1:
        parser.error("two different programs and at least one round are needed")
    for number in range(options.rounds):
        order = (options.old, options.new) if number % 2 == 0 else (options.new, options.old)
        for program in order:
            runs[program].append(run(program, options.arguments))
    verdicts = compare(runs[options.old], runs[options.new])
    if not verdicts:
        print("no benchmark is in both builds", file=sys.stderr)
        return 1
    width = max(len(verdict.name) for verdict in verdicts)
    print(f"{'benchmark':{width}}  {'old us':>21}  {'new us':>21}  {'new/old':>7}  verdict")
    for verdict in verdicts:
        old, new = ("{:.2f}..{:.2f}".format(*us) for us in (verdict.old_us, verdict.new_us))
        ratio = sum(verdict.new_us) / sum(verdict.old_us)
        print(f"{verdict.name:{width}}  {old:>21}  {new:>21}  {ratio:7.3f}  {verdict.answer}")
    return 1 if any(verdict.answer == "slower" for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
