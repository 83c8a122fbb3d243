"""Compiles objects with and without a shared inline function and lets check_isa.py judge them."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import check_isa

HEADER = "inline int Twice(int x) { return x + x; }\n"
SHARED = HEADER + "int (*const table)(int) = Twice; int Use(int x) { return table(x); }\n"
PRIVATE = "namespace { " + HEADER + " }\nint (*Table())(int) { return Twice; }\n"


class CheckIsaTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.build = pathlib.Path(scratch.name)

    def compile(self, name, text):
        command = [os.environ.get("CXX", "c++"), "-O0", "-x", "c++", "-c", "-", "-o"]
        subprocess.run([*command, str(self.build / name)], input=text, text=True, check=True)

    def run_tool(self):
        command = [sys.executable, check_isa.__file__, str(self.build)]
        return subprocess.run(command, check=False, capture_output=True, text=True)

    def test_inline_function_of_a_shared_header_fails(self):
        self.compile("avx2.cc.o", SHARED)
        result = self.run_tool()
        self.assertEqual(result.returncode, 1)
        self.assertIn("avx2.cc.o: weak symbol Twice(int)", result.stdout)

    def test_unnamed_namespace_passes(self):
        self.compile("avx512_bf16.cc.o", PRIVATE)
        result = self.run_tool()
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_other_objects_may_have_weak_symbols(self):
        self.compile("neon.cc.o", PRIVATE)
        self.compile("scalar.cc.o", SHARED)
        self.assertEqual(self.run_tool().returncode, 0)

    def test_nothing_to_check_fails(self):
        self.compile("scalar.cc.o", PRIVATE)
        self.assertEqual(self.run_tool().returncode, 1)


if __name__ == "__main__":
    unittest.main()
