#!/usr/bin/env python3
"""Checks that objects compiled for an instruction set export no function a linker could share.

    check_isa.py BUILD_DIRECTORY    looks at every object named after an instruction set

An inline function of a shared header that is compiled with, say, -mavx2 becomes a weak symbol; the
linker keeps one copy of it for the whole program, and if it keeps this one, a machine without AVX2
dies in code that never asked for it. So such an object may define no weak symbol at all.
"""

import pathlib
import re
import subprocess
import sys

ISA_OBJECT = re.compile(r"^(avx|sse|amx|neon|sve)\w*\.cc\.o$")
# Weak and unique definitions, as `nm` prints their types.
WEAK_TYPES = set("WVu")
# Data that the compiler emits for exception tables: no instruction of any set in it.
HARMLESS = re.compile(r"^DW\.ref\.")


def weak_symbols(path: pathlib.Path) -> list[str]:
    """The demangled names of the weak symbols that the object defines."""
    listing = subprocess.run(
        ["nm", "--defined-only", "--demangle", str(path)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    found = []
    for line in listing.splitlines():
        match = re.match(r"^[0-9a-fA-F]*\s+(\S)\s+(.*)$", line)
        if match and match[1] in WEAK_TYPES and not HARMLESS.match(match[2]):
            found.append(match[2])
    return found


def isa_objects(build: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in build.rglob("*.o") if ISA_OBJECT.match(path.name))


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    objects = isa_objects(pathlib.Path(sys.argv[1]))
    if not objects:
        print(f"no object named after an instruction set under {sys.argv[1]}: nothing was checked")
        return 1
    failed = False
    for path in objects:
        for symbol in weak_symbols(path):
            print(f"{path}: weak symbol {symbol}")
            failed = True
    if not failed:
        print(f"no weak symbols in {', '.join(path.name for path in objects)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
