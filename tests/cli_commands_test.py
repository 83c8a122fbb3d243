"""sprat tokenize, similarity, search, info, verify, bench, and what all commands share."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import threading
import time
import unittest

from cli_harness import SPRAT, TINY_MODEL, SpratTest, main, npy

HAS_SERVER = b"--port" in subprocess.run([SPRAT, "serve", "--help"], capture_output=True).stdout
COMMANDS = ("embed", "similarity", "search", "tokenize", "info", "verify", "bench")


class Usage(SpratTest):
    def test_help_shows_an_example(self):
        for command in COMMANDS:
            out, errors = self.run_sprat(command, "--help")
            self.assertIn(f"sprat {command}", out.decode().split("Example")[1])
            self.assertEqual(errors, "")
            self.assertLessEqual(max(map(len, out.decode().splitlines())), 100)
        out, _ = self.run_sprat("--help")
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", out.decode())

    def test_help_that_cannot_be_written_is_an_error(self):
        for args in (("--help",), ("--version",), ("embed", "--help")):
            with open("/dev/full", "wb") as full:
                process = self.start(*args, stdout=full, stderr=subprocess.PIPE)
                _, errors = process.communicate()
            self.assertEqual(process.returncode, 1, args)
            self.assertIn(b"standard output: cannot write: No space left on device", errors)

    def test_wrong_usage_is_status_2(self):
        for args, message in (
                ((), "Usage: sprat"),
                (("nonsense",), "'nonsense' is not a command"),
                (("embed", "--nonsense"), "--nonsense"),
                (("embed", "--format", "xml"), "--format: must be one of jsonl, npy, csv, f32, got 'xml'"),
                (("embed", "--threads", "0"), "--threads: must be a whole number from 1 to 1024, "
                                              "got '0'"),
                (("embed", "--threads", "-1"), "from 1 to 1024, got '-1'"),
                (("embed", "--dimensions", "0"), "--dimensions: must be a whole number from 1 to "
                                                 "4294967295, got '0'"),
                (("embed", "--dimensions", "-1"), "got '-1'"),
                (("embed", "--pooling", "sum"), "--pooling: must be one of cls, mean, max, "
                                                "mean_sqrt_len, weightedmean, lasttoken, got "
                                                "'sum'"),
                (("embed", ""), "FILES: is empty"),
                (("embed", "-o", ""), "--output: is empty"),
                (("info", "-m", ""), "--model: is empty"),
                (("embed", "--prompt-name", ""), "--prompt-name: is empty"),
                (("embed", "--prompt", b"\xff"), "--prompt: not UTF-8: byte 1 of"),
                (("embed", "--text-field", "body"), "--text-field: has no effect on lines"),
                (("embed", "-", "-"), "FILES: standard input (-) is named twice"),
                (("similarity", "-i", "-", "-"), "--input: standard input (-) is named twice"),
                (("similarity", "-i", ""), "--input: is empty"),
                (("search", "query", "-", "-"), "FILES: standard input (-) is named twice"),
                (("search", "query", ""), "FILES: is empty"),
                (("search", "query", ".", "-k", "1.5"), "--top: must be a whole number"),
                (("tokenize", "--max-length", "-1"), "from 0 to 4294967295, got '-1'"),
                (("attribute", b"a\xff"), "TEXT: not UTF-8: byte 2 of"),
                (("attribute", "a", "--calls", "0"), "--calls: must be a whole number"),
                (("verify", "-"), "FILES: standard input holds the vectors"),
                (("verify", ""), "VECTORS: is empty"),
                (("bench", "--texts", ""), "--texts: is empty"),
                *([(("serve", "--port", "65536"), "--port: must be a whole number from 0 to"),
                   (("serve", "--max-batch", "0"), "--max-batch: must be a whole number from 1"),
                   (("serve", "--window-ms", "nan"), "--window-ms: must be a number from 0 to"),
                   (("serve", "-m", ""), "--model: is empty"),
                   (("serve", "-m", "=x"), "--model: '=x': the alias is empty"),
                   (("serve", "-m", f"a={TINY_MODEL}", "-m", f"a={TINY_MODEL}"),
                    "--model: two models are called 'a'"),
                   (("serve", "-m", TINY_MODEL, "-m", TINY_MODEL),
                    "--model: two models are called 'tiny_model'"),
                   (("serve", "--tls-cert", "c.pem"), "--tls-cert requires --tls-key"),
                   (("serve", "--tls-key", "k.pem"), "--tls-key requires --tls-cert"),
                   (("serve", "--host", ""), "--host: is empty and there is no --uds"),
                   (("serve", "--uds", 108 * "x"), "--uds: a socket's path has at most 107 bytes, "
                                                   "got 108"),
                   (("serve", "--cors-origin", "example.org"),
                    "--cors-origin: must be '*', scheme://host or scheme://host:port, got "
                    "'example.org'")] if HAS_SERVER else []),
                (("info", "--dimensions", "5"), "not expected: --dimensions 5"),
                (("ngram", "info", "-m", ""), "--model: is empty"),
                (("ngram", "ids", "-", "-"), "FILES: standard input (-) is named twice"),
                (("ngram", "info", "--queue-depth", "0x20"), "--queue-depth: must be a whole"),
                (("ngram", "bench", "--seconds", "nan"), "--seconds: must be a number from"),
                (("ngram", "embed", "--tables", "ram"), "--tables: must be one of mapped"),
                (("embed", "--dtype", "f16"), "'f16' is not supported; supported: auto, f32"),
                (("embed", "--device", "tpu"), "'tpu' is not a device"),
                (("embed", "--prompt", "a", "--prompt-name", "b"), "excludes"),
                (("embed", "--stream", "--format", "npy"), "--stream"),
                (("search", "query"), "FILES"),
                (("search", "  ", "."), "QUERY: is empty"),
                (("search", b"\xff", "."), "QUERY: not UTF-8: byte 1"),
                (("similarity", "a", b"b\xff"), "TEXTS: not UTF-8: byte 2 of"),
                (("similarity", "a", "-i", "t.txt"), "not both"),
                (("verify",), "VECTORS"),
                (("verify", "v.npy", "t.txt", "--min-cosine", "2"), "--min-cosine: must be a "
                                                                    "number from -1 to 1, got '2'"),
                (("verify", "v.npy", "t.txt", "--min-cosine", "nan"), "got 'nan'"),
                (("verify", "v.npy", "t.txt", "--min-recall", "nan"), "from 0 to 1, got 'nan'"),
                (("bench", "--batch", "0"), "--batch"),
                (("bench", "--batch", "1000000"), "--batch"),
                (("bench", "--tokens", "-5"), "--tokens"),
                (("bench", "--seconds", "nan"), "--seconds: must be a number from 0.001 to 600"),
                (("bench", "--seconds", "0"), "--seconds"),
                *((("embed", "--max-length", text),
                   f"--max-length: must be a whole number from 1 to 4294967295, got '{text}'")
                  for text in ("0", "-3", "abc", "2.5", "99999999999999999999999", "0x20", " 5",
                               "+5", "many"))):
            with self.subTest(args=args):
                done = subprocess.run([SPRAT, *args], env=self.env, cwd=self.folder,
                                      capture_output=True, stdin=subprocess.DEVNULL)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.stdout, b"")
                self.assertIn(message, done.stderr.decode())

    def test_b111_a_gpu_is_used_only_where_it_is_named_and_its_absence_is_an_error(self):
        self.env["CUDA_VISIBLE_DEVICES"] = ""
        for device in ("cuda", "cuda:99"):
            _, errors = self.run_sprat("embed", "--device", device, stdin="a", status=1)
            self.assertIn(f"device '{device}': no CUDA device", errors)
        self.assertEqual(self.vectors("a", "--device", "cpu", "--dtype", "f32"), self.vectors("a"))
        out, errors = self.run_sprat("embed", "--device", "auto", stdin="a")
        self.assertEqual(json.loads(out)["embedding"], self.vectors("a")[0])
        self.assertEqual(errors.splitlines(), ["sprat: warning: device auto is the CPU; a GPU is "
                                               "used where it is named: cuda, cuda:N"])

    def test_an_option_without_effect_is_said(self):
        _, errors = self.run_sprat("embed", "--static-semantics", "st", stdin="a")
        self.assertIn("warning: --static-semantics has no effect: this model is no static one",
                      errors)

    def test_models(self):
        _, errors = self.run_sprat("info", "-m", "absent", status=1)
        self.assertIn("no model 'absent'", errors)
        self.assertIn("tried: absent does not exist", errors)
        self.assertIn("/.cache/sprat/models: none", errors)
        _, errors = self.run_sprat("embed", "--prompt-name", "absent", stdin="a", status=1)
        self.assertIn("absent", errors)

    def test_colour_only_on_a_terminal_and_not_with_no_color(self):
        def on_terminal(**variables):
            leader, follower = pty.openpty()
            process = self.start("info", stdout=follower, stderr=follower)
            os.close(follower)
            out = b""
            while True:
                try:
                    block = os.read(leader, 65536)
                except OSError:  # EIO: the other side is closed
                    break
                if not block:
                    break
                out += block
            os.close(leader)
            self.assertEqual(process.wait(), 0)
            return out

        self.env["TERM"] = "xterm"
        self.assertIn(b"\x1b[1mModel", on_terminal())
        self.assertNotIn(b"\x1b", self.run_sprat("info")[0])
        self.env["NO_COLOR"] = "1"
        self.assertNotIn(b"\x1b", on_terminal())


class Tokenize(SpratTest):
    def test_ids_and_tokens(self):
        rows = self.rows("tokenize", stdin="good \"\n\n")
        self.assertEqual(rows[0]["tokens"], ["[CLS]", "good", "\"", "[SEP]"])
        self.assertEqual(len(rows[0]["ids"]), 4)
        self.assertEqual(rows[1]["tokens"], ["[CLS]", "[SEP]"])
        self.assertEqual([row["index"] for row in rows], [0, 1])

    def test_an_input_is_never_the_output(self):
        self.write("t.txt", "good\n")
        _, errors = self.run_sprat("tokenize", "t.txt", "-o", "./t.txt", status=2)
        self.assertIn("--output: t.txt is also an input", errors)
        self.assertEqual((self.folder / "t.txt").read_text(), "good\n")

    def test_max_length_may_exceed_the_model(self):
        text = "good " * 100
        out, errors = self.run_sprat("tokenize", stdin=text)
        self.assertEqual(len(json.loads(out)["ids"]), 64)
        self.assertIn("1 text was cut", errors)
        for option, ids in (("80", 80), ("0", 102), ("3", 3)):
            (row,) = self.rows("tokenize", "--max-length", option, stdin=text)
            self.assertEqual(len(row["ids"]), ids)
            self.assertEqual(row["tokens"][-1], "[SEP]")


class Similarity(SpratTest):
    def test_json(self):
        (result,) = self.rows("similarity", "good", "morning", "good", "--json")
        self.assertEqual(result["texts"], ["good", "morning", "good"])
        matrix = result["similarity"]
        good, morning = self.vectors("good\nmorning")
        self.assertAlmostEqual(matrix[0][1], sum(a * b for a, b in zip(good, morning)), delta=1e-5)
        self.assertEqual(matrix[0][1], matrix[1][0])
        self.assertEqual(matrix[0][2], 1)

    def test_table_shows_texts_shortened_and_harmless(self):
        out, _ = self.run_sprat("similarity", "good\x1b[31m", "morning " * 50)
        lines = out.decode().splitlines()
        self.assertEqual(len(lines), 3)
        self.assertRegex(lines[1], r"^1 +1\.000 +-?\d\.\d{3}  good \[31m$")
        self.assertTrue(lines[2].endswith("…"))
        self.assertLessEqual(max(map(len, lines)), 100)

    def test_texts_from_files(self):
        self.write("t.txt", "good\n\nmorning")
        (result,) = self.rows("similarity", "-i", "t.txt", "--json")
        self.assertEqual(result["texts"], ["good", "", "morning"])
        (result,) = self.rows("similarity", "--json", stdin="good\n")
        self.assertEqual(result["similarity"], [[1]])
        _, errors = self.run_sprat("similarity", stdin="a\n" * 2001, status=1)
        self.assertIn("line 2001: more than 2000 texts", errors)


class Search(SpratTest):
    def setUp(self):
        super().setUp()
        self.write("d/a.txt", "river bank\n\nrain bow\n\n  good\nmorning\n")
        self.write("d/sub/b.md", "# world\n\nword passage\n")
        self.write("d/.hidden/c.txt", "good morning")
        self.write("d/.git/c.txt", "good morning")
        self.write("d/binary", b"good morning\0")
        self.write("d/latin1.txt", b"caf\xe9")

    def search(self, *args):
        return self.rows("search", "good morning", *args, "--json")

    def test_a_model_without_a_limit_gets_whole_paragraphs(self):
        paragraph = "good word " * 60 + "morning"
        self.write("long.txt", paragraph + "\n\nriver\n")
        model = self.write_static_model("static", {}, {"max_length": None})
        passages = [hit["text"] for hit in self.search("long.txt", "-m", model)]
        self.assertIn(paragraph, passages)

    def test_finds_file_and_line(self):
        hits = self.search("d")
        self.assertEqual({(h["file"], h["line"]) for h in hits},
                         {("d/a.txt", 1), ("d/a.txt", 3), ("d/a.txt", 5), ("d/sub/b.md", 1)})
        self.assertEqual([h["score"] for h in hits], sorted((h["score"] for h in hits), reverse=True))
        query, = self.vectors("good morning", "--prompt-name", "query")
        for hit in hits:
            passage, = self.vectors(json.dumps(hit["text"]), "--input-format", "jsonl",
                                    "--prompt-name", "passage")
            self.assertAlmostEqual(hit["score"], sum(a * b for a, b in zip(query, passage)),
                                   delta=1e-5)
        self.assertEqual(len(self.search("d", "-k", "2")), 2)

    def test_table_and_summary(self):
        out, errors = self.run_sprat("search", "good morning", "d")
        self.assertRegex(out.decode(), r"(?m)^-?\d\.\d{3}  d/a.txt:5\n    good\n    morning$")
        self.assertIn("4 passages in 2 files, 1 binary file passed over, 1 not UTF-8 passed over",
                      errors)

    def test_equal_passages_are_shown_once(self):
        self.write("d/z.txt", "river bank\n")
        hit = next(h for h in self.search("d") if h["text"] == "river bank")
        self.assertEqual((hit["file"], hit["copies"]), ("d/a.txt", 1))

    def test_the_cache_changes_nothing_but_the_time(self):
        first = self.search("d")
        cache, = (self.folder / ".cache/sprat/search").glob("*.vectors")
        self.assertEqual(self.search("d"), first)
        self.assertEqual(self.search("d", "--no-cache"), first)
        good = cache.read_bytes()
        for damaged in (b"", good[:40], good[:-1], bytes(len(good)), good[:100] + b"\xff" * 50 +
                        good[150:]):
            cache.unlink()
            cache.write_bytes(damaged)
            self.assertEqual(self.search("d"), first)
            self.assertEqual(len(cache.read_bytes()), len(good))

    def test_what_a_vector_depends_on_is_in_the_cache_key(self):
        plain = self.search("d")
        for option in (("--dimensions", "8"), ("--max-length", "4"), ("--pooling", "cls")):
            cached = self.search("d", *option)
            self.assertEqual(cached, self.search("d", *option, "--no-cache"))
            self.assertNotEqual(cached, plain)

    def test_no_cache_leaves_no_file(self):
        self.search("d", "--no-cache")
        self.assertFalse((self.folder / ".cache").exists())

    def test_a_cache_that_cannot_be_written_is_a_warning(self):
        self.write(".cache", "a file where a folder should be")
        out, errors = self.run_sprat("search", "good morning", "d", "--json")
        self.assertEqual(len(out.splitlines()), 4)
        self.assertIn("warning: the vectors are not kept", errors)

    def test_a_folder_in_place_of_the_cache_is_a_warning_about_it(self):
        self.search("d")
        cache, = (self.folder / ".cache/sprat/search").glob("*.vectors")
        cache.unlink()
        cache.mkdir()
        _, errors = self.run_sprat("search", "good morning", "d")
        self.assertIn(f"{cache}: a directory; expected a file to write", errors)
        self.assertNotIn("-o", errors)

    def test_the_answer_does_not_wait_for_the_lock_of_the_cache(self):
        self.search("d")
        lock, = (self.folder / ".cache/sprat/search").glob("*.lock")
        self.write("new.txt", "a new passage")
        with open(lock) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            process = self.start("search", "good morning", "new.txt", "--json",
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            watchdog = threading.Timer(60, process.kill)
            watchdog.start()
            line = process.stdout.readline()
            waits = process.poll() is None
            _, errors = process.communicate()
            watchdog.cancel()
        self.assertTrue(waits)
        self.assertEqual(json.loads(line)["text"], "a new passage")
        self.assertEqual(process.returncode, 0)
        self.assertIn("the vectors are not kept for the next search", errors.decode())
        self.assertIn(f"{lock}: locked by another process for more than 3000 ms", errors.decode())

    def test_an_interrupted_search_keeps_its_vectors(self):
        self.write("large.txt", "".join(f"good {i}\n\n" for i in range(1_000_000)))
        process = self.start("search", "good morning", "large.txt", stderr=subprocess.DEVNULL)
        folder = self.folder / ".cache/sprat/search"
        for _ in range(2000):
            if process.poll() is not None or list(folder.glob("*.vectors")):
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), -signal.SIGINT)
        cache, = folder.glob("*.vectors")
        self.assertGreater(cache.stat().st_size, 64 + 128 * (48 + 4 * 32))

    def test_a_file_is_searched_once(self):
        hits = self.search("d/a.txt", "./d/a.txt", "d")
        self.assertEqual({hit["copies"] for hit in hits}, {0})
        self.assertEqual(len(hits), 4)

    @unittest.skipUnless(os.geteuid() == 0, "needs to become a user who may not read everything")
    def test_what_cannot_be_read_is_named(self):
        for name in ("d/locked", "d/open", "home"):
            (self.folder / name).mkdir()
        for i in range(4):
            self.write(f"d/open/{i}.txt", "good morning").chmod(0)
        (self.folder / "d/locked").chmod(0)
        self.folder.chmod(0o755)
        os.chown(self.folder / "home", 65534, 65534)
        self.env["HOME"] = str(self.folder / "home")
        nobody = {"user": 65534, "group": 65534, "extra_groups": []}
        try:
            process = self.start("search", "good", "d", stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, **nobody)
        except PermissionError:
            self.skipTest("nobody else may run this build")
        _, errors = process.communicate()
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn("warning: not searched:\n  d/locked: cannot open: Permission denied\n"
                      "  d/open/0.txt: cannot open: Permission denied\n"
                      "  d/open/1.txt: cannot open: Permission denied\n  and 2 more\n",
                      errors.decode())
        self.assertIn("5 not readable", errors.decode())
        _, errors = self.run_sprat("search", "good", "d/locked", status=1, **nobody)
        self.assertIn("error: d/locked: cannot open: Permission denied", errors)

    def test_searches_at_once(self):
        processes = [self.start("search", "good", "d", "--json", stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL) for _ in range(6)]
        outputs = {process.communicate()[0] for process in processes}
        self.assertEqual([process.returncode for process in processes], [0] * 6)
        self.assertEqual(len(outputs), 1)

    def test_long_paragraphs_are_seen_to_their_end(self):
        # 60 words in pieces of several tokens each: far beyond the 64 tokens of the model.
        words = [f"x{i:03}z" for i in range(60)]
        self.write("long.txt", "start\n\n" + "\n".join(words) + "\n")
        hits = self.search("long.txt", "-k", "100")
        seen = " ".join(h["text"] for h in sorted(hits, key=lambda h: h["line"])).split()
        self.assertEqual(seen, ["start", *words])
        for hit in hits:
            if hit["text"] != "start":
                self.assertEqual(words[hit["line"] - 3], hit["text"].split()[0])
            row, = self.rows("embed", "--prompt-name", "passage", "--input-format", "jsonl",
                             stdin=json.dumps(hit["text"]))
            self.assertFalse(row["truncated"])

    def test_named_files_are_searched_or_refused(self):
        for path, message in (("absent", "absent: cannot open: No such file"),
                              ("d/binary", "d/binary: line 1, byte 13: 0x00 does not belong"),
                              ("d/latin1.txt", "d/latin1.txt: line 1, byte 4: 0xe9 does not"),
                              ("/dev/null", "nothing to search")):
            _, errors = self.run_sprat("search", "good", path, status=1)
            self.assertIn(message, errors)
        self.assertEqual(len(self.search("d/.hidden/c.txt")), 1)
        out, _ = self.run_sprat("search", "good", "-", "--json", stdin="x\n\ngood\n")
        self.assertEqual({json.loads(line)["line"] for line in out.splitlines()}, {1, 3})


class Info(SpratTest):
    def test_json(self):
        (info,) = self.rows("info", "--json")
        for key, value in (("family", "encoder"), ("layers", 2), ("hidden", 32), ("heads", 4),
                           ("ffn", 64), ("dimensions", 32), ("max_length", 64),
                           ("pooling", "mean"), ("arithmetic", "cpu-f32"),
                           ("prompts", {"query": "query: ", "passage": "passage: "}),
                           ("supported", "Linux on x86-64 and arm64")):
            self.assertEqual(info[key], value)
        self.assertRegex(info["fingerprint"], "^[0-9a-f]{64}$")
        self.assertIn(info["kernels"], info["available_kernels"])

    def test_table(self):
        out, _ = self.run_sprat("info")
        self.assertIn("Linux on x86-64 and arm64", out.decode())
        self.assertIn("2 layers, width 32, 4 heads, feed-forward 64", out.decode())


class Verify(SpratTest):
    TEXTS = "\n".join(["good morning", "river bank", "rain bow", "world", "a word"])

    def setUp(self):
        super().setUp()
        self.write("t.txt", self.TEXTS)
        self.mine = self.vectors(self.TEXTS)

    def verify(self, data, *args, status=0):
        self.write("v.npy", data)
        return self.run_sprat("verify", "v.npy", "t.txt", *args, status=status)

    def test_the_same_vectors_pass(self):
        out, _ = self.verify(npy(self.mine))
        self.assertIn("PASS", out.decode().splitlines()[-1])
        out, _ = self.verify(npy(self.mine), "--json")
        result = json.loads(out)
        self.assertTrue(result["pass"])
        self.assertEqual(result["max_difference"], 0)
        self.assertEqual((result["recall"], result["recall_at"]), (1, 4))

    def test_half_precision_passes(self):
        half = npy(self.mine)[:128].replace(b"<f4", b"<f2")
        half += b"".join(struct.pack("<e", x) for row in self.mine for x in row)
        result = json.loads(self.verify(half, "--json")[0])
        self.assertGreater(result["max_difference"], 0)
        self.assertLess(result["max_difference"], 2e-3)

    def test_other_vectors_fail(self):
        swapped = [self.mine[1], self.mine[0], *self.mine[2:]]
        out, _ = self.verify(npy(swapped), status=1)
        self.assertRegex(out.decode().splitlines()[-1],
                         r"^FAIL: the cosine of t.txt: line [12] is -?0\.\d+, below 0.9999")
        self.verify(npy(swapped), "--min-cosine", "-1", "--min-recall", "0")
        longer = [[3 * x for x in row] for row in self.mine]
        out, _ = self.verify(npy(longer), status=1)
        self.assertIn("FAIL: directions agree, lengths do not: 0.3333 to 0.3333", out.decode())

    def test_unnormalised_vectors(self):
        raw = self.vectors(self.TEXTS, "--no-normalize")
        self.assertIn("--no-normalize", self.verify(npy(raw), status=1)[0].decode())
        self.verify(npy(raw), "--no-normalize")

    def test_hostile_files(self):
        good = npy(self.mine)
        nan = good[:-4] + b"\x00\x00\xc0\x7f"
        for data, message in (
                (b"", "not a .npy file"),
                (b"PK\x03\x04zip", "not a .npy file"),
                (good[:40], "the .npy header is cut off"),
                (good[:-1], "does not match the 639 bytes after the header"),
                (good + b"x", "does not match the 641 bytes after the header"),
                (good.replace(b"<f4", b"<i4"), "elements of type '<i4'; supported: <f4, <f2, <f8"),
                (good.replace(b"<f4", b"|O4"), "elements of type '|O4'"),
                (good.replace(b"(5, 32)", b"(160,) "), "an array of shape (160); expected"),
                (good.replace(b"(5, 32)", b"(32, 5)"), "vectors of 5 dimensions; this model makes "
                                                       "32"),
                (npy(self.mine[:4]), "v.npy holds 4 vectors, but there are at least 5 texts"),
                (npy(self.mine + self.mine[:1]), "v.npy holds 6 vectors, but there are 5 texts"),
                (nan, "v.npy: row 4, column 31 is not a finite number")):
            _, errors = self.verify(data, status=1)
            self.assertIn(message, errors)
        _, errors = self.run_sprat("verify", "absent.npy", "t.txt", status=1)
        self.assertIn("absent.npy: cannot open", errors)


class Attribute(SpratTest):
    def test_stages_add_up(self):
        rows = self.rows("attribute", "good morning", "--device", "cpu", "--json", "--calls", "50")
        self.assertEqual([row["stage"] for row in rows],
                         ["tokenize", "copy in", "enqueue", "forward", "pool", "wake", "copy out",
                          "total"])
        share = {row["stage"]: row["share"] for row in rows}
        self.assertAlmostEqual(sum(share.values()), 2)  # the stages, and the total itself
        self.assertGreater(share["tokenize"], 0)
        self.assertGreater(share["forward"], share["tokenize"])
        self.assertEqual((share["pool"], share["wake"]), (0, 0))
        for row in rows:
            self.assertEqual((row["device"], row["tokens"], row["calls"]), ("cpu", 4, 50))
            self.assertLessEqual(row["p50_us"], row["p99_us"])


class Bench(SpratTest):
    def test_rows_and_keys(self):
        rows = self.rows("bench", "--json", "--seconds", "0.02", "--tokens", "8,64", "--batch",
                         "1,4")
        self.assertEqual([(row["tokens"], row["batch"]) for row in rows],
                         [(8, 1), (8, 4), (64, 1), (64, 4)])
        for row in rows:
            self.assertLessEqual(
                {"tokens", "batch", "threads", "dtype", "device", "path", "min_us", "p50_us",
                 "p99_us", "texts_per_s", "tokens_per_s", "fingerprint", "cpu"}, set(row))
            self.assertEqual((row["dtype"], row["device"]), ("f32", "cpu"))
            self.assertGreater(row["min_us"], 0)
            self.assertLessEqual(row["min_us"], row["p50_us"])
            self.assertLessEqual(row["p50_us"], row["p99_us"])

    def test_short_times_have_decimals(self):
        out, _ = self.run_sprat("bench", "--seconds", "0.02", "--tokens", "4", "--threads", "1")
        header, _, row = out.decode().splitlines()
        self.assertIn(", 1 thread,", header)
        self.assertRegex(row.split()[2], r"^(\d?\d\.\d\d|\d{3,})$")

    def test_texts_of_a_file(self):
        self.write("t.txt", "good morning\nworld\n")
        (row,) = self.rows("bench", "--json", "--seconds", "0.02", "--texts", "t.txt")
        self.assertEqual(row["tokens"], 3.5)

    def test_silly_lengths_are_refused(self):
        for tokens in ("2", "65"):
            _, errors = self.run_sprat("bench", "--tokens", tokens, status=1)
            self.assertIn(f"--tokens {tokens}: this model takes 3 to 64", errors)


if __name__ == "__main__":
    main()
