#!/usr/bin/env python3
"""Runs clang-tidy 14 over the C++ files of src/, skipping those that passed as they are.

    tidy.py BUILD_DIRECTORY [--jobs N]

A file that passed is remembered in BUILD_DIRECTORY/tidy-passed by a hash of all that decides the
answer: its preprocessed text, its compile command, every .clang-tidy and clang-tidy's version.
Tests and benchmarks are left out: a macro of GoogleTest is most of what clang-tidy would see there.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def wanted(path: pathlib.Path) -> bool:
    inside = path.is_relative_to(ROOT / "src")
    return inside and path.suffix == ".cc" and not re.search(r"_(test|bench)\.cc$", path.name)


def fingerprint(entry: dict, common: bytes) -> str:
    """A hash of everything that clang-tidy's answer for this file depends on."""
    command = shlex.split(entry["command"])
    if command[0].endswith("ccache"):
        command = command[1:]
    for flag in ("-o", "-MT", "-MF"):
        if flag in command:
            at = command.index(flag)
            del command[at : at + 2]
    command = [word for word in command if word not in ("-MD", "-c")]
    # -C keeps comments: NOLINT is one (-CC would keep them in macros too, where Boost pastes tokens).
    # Line markers go, or the build directory would count.
    text = subprocess.run(
        [*command, "-E", "-C", "-P"], cwd=entry["directory"], check=True, capture_output=True
    ).stdout
    return hashlib.sha256(common + shlex.join(command).encode() + text).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    tool = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if tool is None:
        print("tidy: clang-tidy-14 is not installed", file=sys.stderr)
        return 1
    version = subprocess.run([tool, "--version"], check=True, capture_output=True).stdout
    configs = [ROOT / ".clang-tidy", *sorted(ROOT.glob("src/*/.clang-tidy"))]
    common = version + b"".join(config.read_bytes() for config in configs)
    entries = json.loads((arguments.build / "compile_commands.json").read_text(encoding="utf-8"))
    entries = [entry for entry in entries if wanted(pathlib.Path(entry["file"]))]
    if not entries:
        print(f"tidy: {arguments.build} compiles nothing of {ROOT / 'src'}", file=sys.stderr)
        return 1
    passed = arguments.build / "tidy-passed"
    passed.mkdir(exist_ok=True)

    def check(entry: dict) -> tuple[str, str, bool]:
        """(file, clang-tidy's output or '', whether it was run)"""
        mark = passed / fingerprint(entry, common)
        if mark.exists():
            return entry["file"], "", False
        # GCC's names of warnings are not all Clang's.
        options = ["--quiet", "--extra-arg=-Wno-unknown-warning-option", "-p", str(arguments.build)]
        command = [tool, *options, entry["file"]]
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        if result.returncode == 0:
            mark.touch()
            return entry["file"], "", True
        return entry["file"], result.stdout + result.stderr, True

    failed = run = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for file, output, was_run in pool.map(check, entries):
            run += was_run
            if output:
                failed += 1
                print(f"{os.path.relpath(file, ROOT)}\n{output}", flush=True)
    print(f"clang-tidy: {len(entries)} files, {run} checked anew, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
