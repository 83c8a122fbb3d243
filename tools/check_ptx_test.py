"""Lets check_ptx.py judge fat binaries built here, byte by byte."""

import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import check_ptx


def entry(kind, architecture, specific=False):
    header = struct.pack("<HHIQ", kind, 1, 64, 24) + bytes(12)
    header += struct.pack("<IQQ", architecture, 0, check_ptx.SPECIFIC if specific else 0x11)
    return header.ljust(64, b"\0") + b"payload.".ljust(24, b"\0")


def fat_binary(*entries):
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, sum(map(len, entries))) + b"".join(entries)


SM_80, COMPUTE_80 = entry(check_ptx.CUBIN, 80), entry(check_ptx.PTX, 80)
SM_90A, COMPUTE_90A = entry(check_ptx.CUBIN, 90, True), entry(check_ptx.PTX, 90, True)


class CheckPtxTest(unittest.TestCase):
    def run_tool(self, *parts):
        with tempfile.TemporaryDirectory() as scratch:
            program = pathlib.Path(scratch) / "program"
            program.write_bytes(b"\x7fELF code".join([b"", *parts, b""]))
            command = [sys.executable, check_ptx.__file__, str(program)]
            return subprocess.run(command, check=False, capture_output=True, text=True)

    def test_plain_ptx_beside_plain_code_passes(self):
        result = self.run_tool(fat_binary(COMPUTE_80, SM_80, COMPUTE_90A, SM_90A))
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_specific_ptx_is_not_enough(self):
        result = self.run_tool(fat_binary(SM_80, COMPUTE_90A, SM_90A))
        self.assertEqual(result.returncode, 1)
        self.assertIn("sm_80, compute_90a, sm_90a: no PTX", result.stdout)

    def test_every_fat_binary_is_looked_at(self):
        result = self.run_tool(fat_binary(COMPUTE_80, SM_80), fat_binary(SM_80))
        self.assertEqual(result.returncode, 1)

    def test_specific_kernels_need_no_ptx_but_are_not_all(self):
        both = self.run_tool(fat_binary(SM_90A), fat_binary(COMPUTE_80, SM_80))
        self.assertEqual(both.returncode, 0)
        self.assertIn("no kernels for a plain", self.run_tool(fat_binary(SM_90A)).stdout)

    def test_a_program_without_kernels_fails(self):
        self.assertEqual(self.run_tool(b"nothing").returncode, 1)


if __name__ == "__main__":
    unittest.main()
