#!/usr/bin/env python3
"""Checks (or, with --fix, makes) the layout of every C++ and CUDA file with clang-format 14."""

import pathlib
import shutil
import subprocess
import sys

FOLDERS = ("include", "src", "tests", "bench")
SUFFIXES = {".h", ".cc", ".cu", ".cuh"}


def main() -> int:
    formatter = shutil.which("clang-format-14") or shutil.which("clang-format")
    if formatter is None:
        print("check_format: clang-format-14 is not installed", file=sys.stderr)
        return 1
    root = pathlib.Path(__file__).resolve().parent.parent
    files = [
        str(path)
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*"))
        if path.suffix in SUFFIXES
    ]
    mode = ["-i"] if "--fix" in sys.argv[1:] else ["--dry-run", "--Werror"]
    return subprocess.run([formatter, "--style=file", *mode, *files], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
