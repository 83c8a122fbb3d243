"""tools/make_ngram_model.py: what it writes the program opens, what it cannot write it says.

    ngram_tool_test.py SPRAT
"""

import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import unittest

import numpy as np

TOOL = pathlib.Path(__file__).resolve().parent.parent / "tools" / "make_ngram_model.py"
SPRAT = sys.argv[1]


class MakeNgramModel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sprat_ngram_tool_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_tool(self, *args, status=0, **options):
        done = subprocess.run([sys.executable, TOOL, *map(str, args)], capture_output=True,
                              text=True, cwd=self.folder, **options)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def test_what_it_writes_is_opened(self):
        for args in ((), ("--dtype", "F8_E4M3"), ("--dtype", "F32", "--names", "oe"),
                     ("--shards", "4", "--row-multiple", "64"), ("--sparse",),
                     ("--no-word-table",), ("--ratio", "2.5", "--vocab", "7", "--neighbors", "2")):
            with self.subTest(args=args):
                self.run_tool("model", *args)
                out = subprocess.run([SPRAT, "ngram", "info", "-m", "model", "--json"],
                                     capture_output=True, text=True, cwd=self.folder, check=True)
                self.assertEqual(json.loads(out.stdout)["hidden"], 96)
                for file in (self.folder / "model").iterdir():
                    file.unlink()

    def test_a_table_of_the_real_number_of_rows(self):
        self.run_tool("model", "--preset", "flash-lite-table", "--sparse", "--no-word-table")
        file = self.folder / "model" / "model.safetensors"
        self.assertGreater(file.stat().st_size, 10_223_617 * 512)
        self.assertLess(file.stat().st_blocks * 512, 1 << 20)
        np.save(self.folder / "word.npy", np.full((2, 256), 2, np.float32))
        out = subprocess.run([SPRAT, "ngram", "embed", "-m", "model", "--word-rows", "word.npy",
                              "--tables", "cached"], input="131071 131071", capture_output=True,
                             text=True, cwd=self.folder, check=True).stdout
        # The rows are zeros, and there is one table: the average is half the word row.
        self.assertEqual(json.loads(out)["embeddings"], [[1] * 256] * 2)

    def test_wrong_arguments_are_one_line_and_status_2(self):
        for args, message in (
                ((), "the following arguments are required: out"),
                (("m", "--vocab", "0"), "--vocab: expected a whole number from 1 to 4294967295, "
                                        "got '0'"),
                (("m", "--hidden", "-96"), "--hidden: expected a whole number from 1 to 1048576, "
                                           "got '-96'"),
                (("m", "--hidden", "97"), "--hidden 97 must be a multiple of the 4 tables"),
                (("m", "--hidden", "9.5"), "got '9.5'"),
                (("m", "--ratio", "0"), "--ratio: expected a positive number, got '0'"),
                (("m", "--ratio", "-1"), "--ratio: expected a positive number, got '-1'"),
                (("m", "--ratio", "nan"), "got 'nan'"),
                (("m", "--ratio", "inf"), "got 'inf'"),
                (("m", "--ratio", "0.0001"), "makes tables of 0.1 rows, expected from 1"),
                (("m", "--ratio", "1e9"), "makes tables of 1e+12 rows"),
                (("m", "--neighbors", "1"), "--neighbors: expected a whole number from 2 to 32"),
                (("m", "--splits", "0"), "--splits: expected a whole number from 1 to 4096"),
                (("m", "--splits", "4000", "--neighbors", "3"), "make 8000 tables, 4096 at most"),
                (("m", "--row-multiple", "0"), "--row-multiple: expected a whole number from 1"),
                (("m", "--shards", "0"), "--shards: expected a whole number from 1"),
                (("m", "--shards", "5"), "--shards 5 must be from 1 to the 4 tables"),
                (("m", "--seed", "-1"), "--seed: expected a whole number from 0"),
                (("m", "--eos", "-1"), "--eos: expected a whole number from 0"),
                (("m", "--dtype", "F64"), "invalid choice: 'F64'")):
            with self.subTest(args=args):
                errors = self.run_tool(*args, status=2)
                self.assertIn(message, errors)
                self.assertEqual(errors.count("\n"), 1, errors)
                self.assertFalse((self.folder / "m").exists())

    def test_what_cannot_be_written_is_one_line_and_status_1(self):
        (self.folder / "file").write_text("a file")
        for out, message in (("file", "file: "), ("file/model", "file/model: Not a directory"),
                             ("/proc/model", "/proc/model: No such file or directory")):
            errors = self.run_tool(out, status=1)
            self.assertIn(message, errors)
            self.assertEqual(errors.count("\n"), 1, errors)

    def test_a_full_disk_leaves_no_half_a_model(self):
        limit = 100_000  # the smallest model has 600 KB
        errors = self.run_tool("model", status=1,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE,
                                                                     (limit, limit)))
        self.assertRegex(errors, "^make_ngram_model.py: error: .*: File too large\n$")
        self.assertFalse((self.folder / "model" / "model.safetensors").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
