"""What very large inputs cost: 10 MB of text, one word of 10 MB, a million empty texts, a large table.

    large_inputs_test.py SPRAT

Each run is a process of its own: its peak memory and its CPU time are compared with those of runs on
little and on less. $SPRAT_TEST_MODEL and $SPRAT_TEST_MODELS say where the models are.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import make_static_model  # noqa: E402

MB = 1_000_000
LARGE = 10 * MB
# Over what the process takes for one word: the text and its copies, the ids, the ways to cut it.
MOST_MEMORY = 25 * LARGE

# Runs a command and prints what it took. In a small process, because what a process held when it
# started another counts as the other's peak.
MEASURE = """
import os, sys
null = os.open(os.devnull, os.O_WRONLY)
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)])
_, status, usage = os.wait4(process, 0)
print(usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime)
sys.exit(os.waitstatus_to_exitcode(status))
"""


class LargeInputs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        encoder = pathlib.Path(os.environ["SPRAT_TEST_MODEL"])
        wordpiece = cls.folder / "wordpiece"
        make_static_model.make(encoder, wordpiece, columns=256, dtype="F16")
        unigram = pathlib.Path(os.environ["SPRAT_TEST_MODELS"]) / "tokenlearn-static"
        embed = ("embed", "--format", "f32", "--threads", "2")
        # The second of a static model's tokenizes the text to its end.
        cls.commands = {
            "tokenizer of an encoder": ("tokenize", "-m", encoder),
            "WordPiece, cut": (*embed, "-m", wordpiece),
            "WordPiece, whole": (*embed, "-m", wordpiece, "--static-semantics", "st"),
            "Unigram, cut": (*embed, "-m", unigram),
            "Unigram, whole": (*embed, "-m", unigram, "--static-semantics", "st"),
        }

    def cost(self, command, content):
        """Peak resident bytes and CPU seconds of sprat with `content` as its lines."""
        path = self.folder / "lines"
        path.write_bytes(content)
        done = subprocess.run([sys.executable, "-S", "-c", MEASURE, arguments[0], *map(str, command), path],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        memory, seconds = done.stdout.split()
        return int(memory), float(seconds)

    def check(self, fill):
        """`fill`: a number of bytes -> as many bytes of lines."""
        for name, command in self.commands.items():
            with self.subTest(command=name):
                least_memory, start = self.cost(command, b"word\n")
                _, some = self.cost(command, fill(LARGE // 4))
                memory, all_of_it = self.cost(command, fill(LARGE))
                print(f"{self.id()}: {name}: {(memory - least_memory) / MB:.0f} MB more, "
                      f"{some - start:.2f} s for a quarter, {all_of_it - start:.2f} s")
                self.assertLessEqual(memory - least_memory, MOST_MEMORY)
                # Four times the bytes; a quadratic cost would be 16 times the time.
                self.assertLessEqual(all_of_it - start, 8 * max(some - start, 0) + 0.3)

    def test_one_text(self):
        self.check(lambda size: (b"the unaffable embeddings, re-tokenized; " * (size // 40)) + b"\n")

    def test_one_word(self):
        self.check(lambda size: b"q" * size + b"\n")

    def test_one_word_of_other_letters(self):
        self.check(lambda size: "\u0416\u0438\u0437\u043d\u044c".encode() * (size // 10) + b"\n")

    def test_a_large_table_is_not_read(self):
        """One text needs a few rows of a table of 500 MB."""
        model = self.folder / "large_table"
        model.mkdir()
        shutil.copy(pathlib.Path(os.environ["SPRAT_TEST_MODEL"]) / "tokenizer.json", model)
        (model / "config.json").write_text("{}")
        shape = [30522, 4096]
        table = {"dtype": "F32", "shape": shape, "data_offsets": [0, shape[0] * shape[1] * 4]}
        header = json.dumps({"embeddings": table}).encode()
        with open(model / "model.safetensors", "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(file.tell() + table["data_offsets"][1])  # a hole: zeros that take no space
        memory, seconds = self.cost(("embed", "-m", model), b"good morning\n")
        print(f"{self.id()}: {memory / MB:.0f} MB, {seconds:.3f} s")
        self.assertLessEqual(memory, 60 * MB)

    def test_empty_texts(self):
        self.check(lambda size: b"\n" * (size // 10))


if __name__ == "__main__":
    arguments = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
