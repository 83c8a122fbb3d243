#!/usr/bin/env python3
"""Checks that a program's CUDA kernels also run on GPUs that did not exist when it was built.

    check_ptx.py PROGRAM

A later GPU needs PTX, which its driver compiles at start. PTX of an architecture-specific target
(compute_90a) is no use to it: so every fat binary (one for each .cu file) that has machine code for
a plain architecture must also have PTX for a plain one. A fat binary with nothing but
architecture-specific code is a set of kernels that the host launches on that GPU only.

The layout of a fat binary is that of CUDA 12 and 13: a header of 16 bytes (magic, version, header
size, bytes that follow), then entries, each a header (kind at 0, its size at 4, payload size at 8,
architecture at 28, flags at 40) and a payload.
"""

import pathlib
import struct
import sys
from typing import NamedTuple

MAGIC = struct.pack("<IHH", 0xBA55ED50, 1, 16)
PTX, CUBIN = 1, 2
SPECIFIC = 0x100000  # the flag of an architecture with a suffix: 90a


class Entry(NamedTuple):
    kind: int
    architecture: int
    specific: bool

    def __str__(self):
        name = {PTX: "compute", CUBIN: "sm"}.get(self.kind, f"kind {self.kind}")
        return f"{name}_{self.architecture}{'a' if self.specific else ''}"


def fat_binaries(program: bytes) -> list[list[Entry]]:
    """The entries of each fat binary in the program."""
    found = []
    at = program.find(MAGIC)
    while at >= 0:
        (size,) = struct.unpack_from("<Q", program, at + 8)
        entry, end = at + 16, at + 16 + size
        entries = []
        while end <= len(program) and entry + 48 <= end:
            kind, _, header, payload = struct.unpack_from("<HHIQ", program, entry)
            (architecture,) = struct.unpack_from("<I", program, entry + 28)
            (flags,) = struct.unpack_from("<Q", program, entry + 40)
            if header < 48:
                raise ValueError(f"the fat binary at {at:#x} has an entry header of {header} bytes")
            entries.append(Entry(kind, architecture, bool(flags & SPECIFIC)))
            entry += header + payload
        found.append(entries)
        at = program.find(MAGIC, at + 16)
    return found


def faults(program: bytes) -> list[str]:
    """What is wrong, a line each."""
    found = fat_binaries(program)
    plain = [f for f in found if any(e.kind == CUBIN and not e.specific for e in f)]
    if not plain:
        return ["no kernels for a plain architecture"]
    return [
        f"{', '.join(map(str, entries))}: no PTX that a later GPU could use"
        for entries in plain
        if not any(e.kind == PTX and not e.specific for e in entries)
    ]


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__.strip().splitlines()[2].strip(), file=sys.stderr)
        return 2
    lines = faults(pathlib.Path(sys.argv[1]).read_bytes())
    for line in lines:
        print(f"{sys.argv[1]}: {line}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
