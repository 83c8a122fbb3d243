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

import tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import make_static_model  # noqa: E402

MB = 1_000_000
LARGE = 10 * MB
# What may be held at once, in bytes for each byte of a large line. An array that grows by doubling has twice
# the room it needs, and only one grows, and is there twice, at a time.
LINE = 2 + 1 + 1  # the reader's buffer; the text, copied out of it; the text behind its prompt
UNIGRAM = 2 + 2 + 2  # the normalised text; its words; the old copy of an array that grows (WordPiece reads on the spot)
TOKEN = 2 * (2 * 4)  # for each token: its id in the tokenizer's array and in the caller's
UNIGRAM_WORD = 16  # for each byte of one word: the ways to cut it, as long as all are open (tokenizer/unigram.h)
# Whatever the size: a chunk of texts with their vectors, the caches and huge pages of two threads.
CONSTANT = 16 * MB

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
        # What ends with "whole" tokenizes the text to its end; the others stop after the tokens that count.
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

    def tokens(self, model, content):
        """How many tokens the whole of `content` is: from a part of it, as it repeats itself."""
        tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        part = content[: 20000].decode(errors="ignore")
        return len(tokenizer.encode(part, add_special_tokens=False).ids) * len(content) / len(part.encode())

    def bound(self, name, command, content, words):
        """The bytes of memory that may come on top of those for a line of one word."""
        for_a_byte = LINE
        if name == "Unigram, whole":
            for_a_byte += UNIGRAM + (UNIGRAM_WORD if words == 1 else 0)
        most = for_a_byte * len(content) + CONSTANT
        if name.endswith("whole"):
            most += TOKEN * self.tokens(command[command.index("-m") + 1], content)
        return most

    def check(self, fill, words):
        """fill: a number of bytes -> as many bytes of lines. words: in a line."""
        for name, command in self.commands.items():
            with self.subTest(command=name):
                content = fill(LARGE)
                bound = self.bound(name, command, content, words)
                least_memory, start = self.cost(command, b"word\n")
                _, some = self.cost(command, fill(LARGE // 4))
                memory, all_of_it = self.cost(command, content)
                print(f"{self.id()}: {name}: {(memory - least_memory) / MB:.0f} of {bound / MB:.0f} MB more, "
                      f"{some - start:.2f} s for a quarter, {all_of_it - start:.2f} s")
                self.assertLessEqual(memory - least_memory, bound)
                # Four times the bytes; a quadratic cost would be 16 times the time.
                self.assertLessEqual(all_of_it - start, 8 * max(some - start, 0) + 0.3)

    def test_one_text(self):
        self.check(lambda size: (b"the unaffable embeddings, re-tokenized; " * (size // 40)) + b"\n", words=LARGE // 10)

    def test_one_word(self):
        self.check(lambda size: b"q" * size + b"\n", words=1)

    def test_one_word_of_other_letters(self):
        self.check(lambda size: "\u0416\u0438\u0437\u043d\u044c".encode() * (size // 10) + b"\n", words=1)

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
        least_memory, _ = self.cost(self.commands["WordPiece, cut"], b"good morning\n")  # a table of 16 MB
        memory, seconds = self.cost(("embed", "-m", model), b"good morning\n")
        print(f"{self.id()}: {memory / MB:.0f} MB, {seconds:.3f} s")
        # The tokenizer, the program and its libraries; not the 500 MB.
        self.assertLessEqual(memory, least_memory + 2 * MB)

    def test_empty_texts(self):
        self.check(lambda size: b"\n" * (size // 10), words=0)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
