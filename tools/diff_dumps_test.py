"""Tests how diff_dumps.py reads activations and what it calls a difference."""

import array
import math
import pathlib
import tempfile
import unittest

import diff_dumps


def write(path: pathlib.Path, rows: list[list[float]], descr: str = "<f4") -> None:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    header = header.ljust(63 - 10 + 64) + "\n"
    values = array.array("f", [value for row in rows for value in row])
    size = len(header).to_bytes(2, "little")
    path.write_bytes(b"\x93NUMPY\x01\x00" + size + header.encode() + values.tobytes())


class CompareTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.a, self.b = (pathlib.Path(folder.name) / name for name in "ab")
        for one in (self.a, self.b):
            one.mkdir()
            for what in ("layer00", "embeddings"):
                write(one / f"call0000_sequence0000_{what}.npy", [[1, 2, 3], [4, 5, 6]])

    def test_the_same_in_the_order_of_the_forward_pass(self):
        found = diff_dumps.compare(self.a, self.b)
        self.assertEqual([entry.name[22:] for entry in found], ["embeddings.npy", "layer00.npy"])
        self.assertEqual([entry.largest for entry in found], [0, 0])

    def test_names_the_largest_difference(self):
        write(self.b / "call0000_sequence0000_layer00.npy", [[1, 2, 3.125], [4, 5.5, 6]])
        (_, found) = diff_dumps.compare(self.a, self.b)
        self.assertEqual((found.largest, found.note), (0.5, "row 1, column 1: 5 and 5.5"))

    def test_nan_is_a_difference(self):
        write(self.b / "call0000_sequence0000_layer00.npy", [[1, math.nan, 3], [4, 5, 6]])
        self.assertEqual(diff_dumps.compare(self.a, self.b)[1].largest, math.inf)

    def test_other_shape_and_missing_file(self):
        write(self.b / "call0000_sequence0000_layer00.npy", [[1, 2, 3]])
        write(self.b / "call0000_sequence0000_layer01.npy", [[1, 2, 3]])
        found = diff_dumps.compare(self.a, self.b)[1:]
        self.assertEqual(found[0].note, "shapes (2, 3) and (1, 3)")
        self.assertEqual(found[1].note, f"not in {self.a}")

    def test_refuses_other_types(self):
        write(self.b / "call0000_sequence0000_layer00.npy", [[1, 2, 3], [4, 5, 6]], descr="<f8")
        with self.assertRaisesRegex(ValueError, "<f8, expected <f4"):
            diff_dumps.compare(self.a, self.b)


if __name__ == "__main__":
    unittest.main()
