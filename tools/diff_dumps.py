#!/usr/bin/env python3
"""Compares two folders of activations and names the first place where they part.

    diff_dumps.py A B [--atol 2e-5]

A and B hold what SPRAT_DUMP_DIR made `sprat embed` write (src/encoder/activation_dump.h), or .npy
files of the same names and shapes from elsewhere: f32, (tokens, hidden). Prints, for each file in
the order of the forward pass, the largest absolute difference and where it is. Exit status: 0, or 1
if a file differs by more than --atol, has another shape, or is in one folder only.
"""

import argparse
import array
import ast
import dataclasses
import math
import pathlib
import struct
import sys


@dataclasses.dataclass(frozen=True)
class Difference:
    name: str
    largest: float  # infinite if the two cannot be compared
    note: str


def read_npy(path: pathlib.Path) -> tuple[tuple[int, ...], array.array]:
    """Shape and values of a little-endian f32 file in C order. Format: numpy.lib.format."""
    data = path.read_bytes()
    if data[:6] != b"\x93NUMPY":
        raise ValueError(f"{path}: not a .npy file")
    (size, begin) = (
        (struct.unpack_from("<H", data, 8)[0], 10)
        if data[6] == 1
        else (struct.unpack_from("<I", data, 8)[0], 12)
    )
    header = ast.literal_eval(data[begin : begin + size].decode("latin1"))
    if header["descr"] != "<f4" or header["fortran_order"]:
        raise ValueError(f"{path}: {header['descr']}, expected <f4 in C order")
    values = array.array("f", data[begin + size :])
    if sys.byteorder == "big":
        values.byteswap()
    if len(values) != math.prod(header["shape"]):
        raise ValueError(f"{path}: {len(values)} values, expected {header['shape']}")
    return header["shape"], values


def difference(name: str, a: pathlib.Path, b: pathlib.Path) -> Difference:
    for folder in (a, b):
        if not (folder / name).exists():
            return Difference(name, math.inf, f"not in {folder}")
    (shape, x), (other, y) = read_npy(a / name), read_npy(b / name)
    if shape != other:
        return Difference(name, math.inf, f"shapes {shape} and {other}")
    largest, at = 0.0, 0
    for i, (p, q) in enumerate(zip(x, y)):
        apart = abs(p - q) if math.isfinite(p) and math.isfinite(q) else 0 if p == q else math.inf
        if apart > largest:
            largest, at = apart, i
    if largest == 0:
        return Difference(name, 0.0, "the same")
    row, column = divmod(at, shape[-1])
    return Difference(name, largest, f"row {row}, column {column}: {x[at]:.9g} and {y[at]:.9g}")


def forward_order(name: str) -> tuple[str, bool, str]:
    """Sorts the embeddings before the layers of the same sequence."""
    return (name.rsplit("_", 1)[0], not name.endswith("_embeddings.npy"), name)


def compare(a: pathlib.Path, b: pathlib.Path) -> list[Difference]:
    names = {path.name for folder in (a, b) for path in folder.glob("*.npy")}
    return [difference(name, a, b) for name in sorted(names, key=forward_order)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("a", type=pathlib.Path)
    parser.add_argument("b", type=pathlib.Path)
    parser.add_argument("--atol", type=float, default=2e-5, help="largest difference allowed")
    arguments = parser.parse_args()
    for folder in (arguments.a, arguments.b):
        if not folder.is_dir():
            parser.error(f"{folder}: not a folder")
    try:
        differences = compare(arguments.a, arguments.b)
    except (OSError, ValueError, KeyError, SyntaxError) as error:
        print(f"diff_dumps.py: {error}", file=sys.stderr)
        return 1
    if not differences:
        parser.error(f"no .npy files in {arguments.a} and {arguments.b}")
    for entry in differences:
        print(f"{entry.largest:10.3g}  {entry.name}  {entry.note}")
    apart = [entry for entry in differences if not entry.largest <= arguments.atol]
    if apart:
        print(f"{len(apart)} of {len(differences)} apart; the first is {apart[0].name}")
    return 1 if apart else 0


if __name__ == "__main__":
    sys.exit(main())
