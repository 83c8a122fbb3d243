"""sprat embed: a line in, a row out, whatever the line, the output or the signal."""

import json
import os
import resource
import signal
import subprocess
import time
import unittest

from cli_harness import SpratTest, f32, main, read_npy


class Lines(SpratTest):
    def test_b117_row_n_belongs_to_line_n(self):
        good, morning = self.vectors("good"), self.vectors("morning")
        for text in ("good\n\nmorning", "good\n\nmorning\n", "good\r\n\r\nmorning\r\n",
                     "\ufeffgood\n\nmorning", "\ufeffgood\r\n\r\nmorning"):
            rows = self.rows("embed", stdin=text)
            self.assertEqual([row["index"] for row in rows], [0, 1, 2], repr(text))
            self.assertEqual([rows[0]["embedding"], rows[2]["embedding"]], good + morning)
            self.assertEqual(rows[1]["tokens"], 2)  # [CLS] [SEP]
            self.assertEqual([row["truncated"] for row in rows], [False] * 3)

    def test_b117_hundred_thousand_lines_in_bounded_memory(self):
        peaks = {}
        for lines in (1_000, 100_000):
            path = self.write("texts.txt", "".join(f"good word {i}\n" for i in range(lines)))
            process = self.start("embed", path, "-o", "out.f32")
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            peaks[lines] = usage.ru_maxrss
            self.assertEqual((self.folder / "out.f32").stat().st_size, lines * 32 * 4)
        self.assertLess(peaks[100_000] - peaks[1_000], 30_000)  # kB

    def test_b117_five_megabytes_in_one_line(self):
        text = "good morning " * 400_000
        out, errors = self.run_sprat("embed", stdin="a\n" + text + "\nb\n")
        rows = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([row["truncated"] for row in rows], [False, True, False])
        self.assertIn("1 of 3 texts had more than 64 tokens and was cut; the first: standard "
                      "input: line 2", errors)

    def test_the_engine_s_errors_name_file_and_line(self):
        model = self.write_static_model("static", {"morning": [float("nan"), 1.0]}, {})
        texts = self.write("texts.txt", "good\n" * 2_500 + "morning\n")
        _, errors = self.run_sprat("embed", "-m", model, texts, status=1)
        self.assertIn("texts.txt: line 2501: ", errors)

    def test_b117_closed_input(self):
        read, write = os.pipe()
        os.close(write)
        process = self.start("embed", stdin=read, stderr=subprocess.PIPE)
        os.close(read)
        _, errors = process.communicate()
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"standard input: empty, there is no text to embed", errors)
        done = subprocess.run(["/bin/sh", "-c", 'exec "$0" embed <&-', os.environ["SPRAT_BINARY"]],
                              env=self.env, capture_output=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard input: cannot read: Bad file descriptor", done.stderr)

    def test_b117_full_disk(self):
        for args in ((), ("--format", "csv"), ("--format", "npy"), ("-o", "/dev/full")):
            with open("/dev/full", "wb") as full:
                process = self.start("embed", *args, stdin=subprocess.PIPE, stdout=full,
                                     stderr=subprocess.PIPE)
                _, errors = process.communicate(b"good\nmorning\n")
            self.assertEqual(process.returncode, 1, args)
            self.assertIn(b"cannot write: No space left on device", errors)

    def test_b117_reader_goes_away(self):
        path = self.write("texts.txt", "good morning\n" * 20_000)
        process = self.start("embed", path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        process.stderr.close()
        self.assertNotEqual(process.wait(), 0)
        self.assertEqual(errors, b"")
        self.assertEqual(json.loads(first)["index"], 0)

    def test_named_pipes_are_read_once_and_in_turn(self):
        expected = self.vectors("good\nmorning\nworld")
        long = "good " * 20_000 + "\n"  # more than a pipe holds
        for name in ("a", "b"):
            os.mkfifo(self.folder / name)
        writer = subprocess.Popen(
            ["/bin/sh", "-c", "printf 'good\\nmorning\\nworld\\n' >a; cat >b"],
            cwd=self.folder, stdin=subprocess.PIPE)
        process = self.start("embed", "a", "b", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(process.stdout.close)
        try:
            writer.communicate(long.encode(), timeout=60)
            out, _ = process.communicate(timeout=60)
        finally:
            writer.kill()
            process.kill()
            process.wait()
        rows = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([row["embedding"] for row in rows[:3]], expected)
        self.assertEqual(len(rows), 4)

    def test_faults_name_file_line_and_byte(self):
        for content, message in (
                (b"", "t.txt: empty, there is no text to embed"),
                (b"good\nmor\xffning\n", "t.txt: line 2, byte 4: 0xff is not UTF-8"),
                (b"x" * (16 << 20) + b"\n", "t.txt: line 1: longer than 16777216 bytes")):
            path = self.write("t.txt", content)
            _, errors = self.run_sprat("embed", "t.txt", "-o", "out.npy", status=1)
            self.assertIn("sprat: error: " + message, errors)
            self.assertEqual(sorted(os.listdir(self.folder)), ["t.txt"])
            path.unlink()
        _, errors = self.run_sprat("embed", "absent.txt", status=1)
        self.assertIn("absent.txt: cannot open: No such file or directory", errors)
        _, errors = self.run_sprat("embed", ".", status=1)
        self.assertIn(".: a directory; expected a file of texts", errors)


class Formats(SpratTest):
    TEXTS = ["good morning", "river bank", "", "caf\u00e9 \"quoted\", 7"]

    def test_inputs_agree(self):
        lines = self.vectors("\n".join(self.TEXTS))
        jsonl = "\n".join([json.dumps(self.TEXTS[0]),
                           *(json.dumps({"id": 1, "text": t}) for t in self.TEXTS[1:])])
        self.assertEqual(self.vectors(jsonl, "--input-format", "jsonl"), lines)
        quoted = "".join('7,"' + t.replace('"', '""') + '"\r\n' for t in self.TEXTS)
        self.assertEqual(self.vectors("id,title\r\n" + quoted, "--input-format", "csv",
                                      "--text-field", "title"), lines)
        self.assertEqual(self.vectors('text\n"good\nmorning"\n', "--input-format", "csv"),
                         lines[:1])

    def test_outputs_agree(self):
        rows = self.vectors("\n".join(self.TEXTS))
        flat = [f32(x) for row in rows for x in row]
        self.write("t.txt", "\n".join(self.TEXTS))
        csv, _ = self.run_sprat("embed", "t.txt", "--format", "csv")
        self.assertEqual([[float(x) for x in line.split(b",")] for line in csv.splitlines()], rows)
        raw, _ = self.run_sprat("embed", "t.txt", "--format", "f32")
        piped, _ = self.run_sprat("embed", "t.txt", "--format", "npy")
        self.run_sprat("embed", "t.txt", "-o", "out.npy")  # the ending chooses the format
        written = (self.folder / "out.npy").read_bytes()
        self.assertEqual(written, piped)
        shape, values = read_npy(written)
        self.assertEqual(shape, (4, 32))
        self.assertEqual(list(values), flat)
        self.assertEqual(raw, written[-len(raw):])
        self.assertEqual(len(raw), 4 * 32 * 4)

    def test_vectors_have_unit_length_unless_told_otherwise(self):
        (unit,) = self.vectors("good morning")
        self.assertAlmostEqual(sum(x * x for x in unit), 1, delta=1e-5)
        (raw,) = self.vectors("good morning", "--no-normalize")
        length = sum(x * x for x in raw) ** 0.5
        self.assertGreater(abs(length - 1), 1e-3)
        for a, b in zip(unit, raw):
            self.assertAlmostEqual(a, b / length, delta=1e-6)

    def test_dimensions_and_prompts(self):
        (full,) = self.vectors("good morning")
        (cut,) = self.vectors("good morning", "--dimensions", "8")
        length = sum(x * x for x in full[:8]) ** 0.5
        for a, b in zip(cut, full[:8], strict=True):
            self.assertAlmostEqual(a, b / length, delta=1e-6)
        self.assertEqual(self.vectors("good", "--prompt-name", "query"),
                         self.vectors("query: good"))
        self.assertEqual(self.vectors("good", "--prompt", "query: "), self.vectors("query: good"))


class Output(SpratTest):
    def test_an_error_leaves_what_was_there(self):
        self.write("out.npy", "before")
        self.write("t.txt", b"good\n" * 5_000 + b"\xff\n")
        self.run_sprat("embed", "t.txt", "-o", "out.npy", status=1)
        self.assertEqual((self.folder / "out.npy").read_text(), "before")
        self.assertEqual(sorted(os.listdir(self.folder)), ["out.npy", "t.txt"])

    def test_ctrl_c_leaves_nothing(self):
        process = self.start("embed", "-o", "out.jsonl", stdin=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        process.stdin.write(b"good morning\n" * 3_000)
        process.stdin.flush()
        for _ in range(1000):
            if os.listdir(self.folder):
                break
            time.sleep(0.01)
        self.assertEqual(len(os.listdir(self.folder)), 1)  # beside its place, half written
        process.send_signal(signal.SIGINT)
        process.communicate()
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertEqual(os.listdir(self.folder), [])

    def test_the_ending_of_the_output_in_any_case(self):
        for name in ("v.NPY", "v.Npy"):
            self.run_sprat("embed", "-o", name, stdin="good\n")
            self.assertEqual(read_npy((self.folder / name).read_bytes())[0], (1, 32))

    def test_a_link_stays_and_its_target_is_written(self):
        (self.folder / "link.npy").symlink_to("target.npy")
        for _ in range(2):  # without a target, and with one
            self.run_sprat("embed", "-o", "link.npy", stdin="good\n")
            self.assertTrue((self.folder / "link.npy").is_symlink())
            self.assertEqual(read_npy((self.folder / "target.npy").read_bytes())[0], (1, 32))

    def test_a_write_protected_file_stays(self):
        path = self.write("out.npy", "before")
        path.chmod(0o400)
        _, errors = self.run_sprat("embed", "-o", "out.npy", stdin="good\n", status=1)
        self.assertRegex(errors, "out.npy: (write-protected|cannot write: Permission denied)")
        self.assertEqual(path.read_text(), "before")

    def test_over_the_limit_of_a_files_size(self):
        path = self.write("t.txt", "good morning\n" * 3_000)
        process = self.start("embed", path, "-o", "out.f32", stderr=subprocess.PIPE,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE,
                                                                   (100_000, 100_000)))
        _, errors = process.communicate()
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"out.f32: cannot write: File too large", errors)
        self.assertEqual(os.listdir(self.folder), ["t.txt"])

    def test_an_input_is_never_the_output(self):
        self.write("t.txt", "good\n")
        _, errors = self.run_sprat("embed", "t.txt", "-o", "./t.txt", status=2)
        self.assertIn("t.txt is also an input", errors)
        self.assertEqual((self.folder / "t.txt").read_text(), "good\n")

    def test_stream_answers_each_line_at_once(self):
        process = self.start("embed", "--stream", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        expected = self.vectors("good\n\nmorning")
        for i, line in enumerate((b"good\n", b"\r\n", b"morning\n")):
            process.stdin.write(line)
            process.stdin.flush()
            row = json.loads(process.stdout.readline())  # hangs if it is not flushed
            self.assertEqual((row["index"], row["embedding"]), (i, expected[i]))
        out, _ = process.communicate()
        self.assertEqual((out, process.returncode), (b"", 0))

    def test_stream_of_nothing_is_done(self):
        self.assertEqual(self.run_sprat("embed", "--stream"), (b"", ""))


@unittest.skipUnless(os.path.isdir(os.environ.get("SPRAT_TEST_MODEL", "")),
                     "needs all-MiniLM-L6-v2: SPRAT_TEST_MODEL names no directory")
class RealModel(SpratTest):
    def setUp(self):
        super().setUp()
        self.env["SPRAT_MODEL"] = os.environ["SPRAT_TEST_MODEL"]

    def test_hello_world(self):
        # The first values that fastembed's tests expect of this model.
        (vector,) = self.vectors("hello world")
        self.assertEqual(len(vector), 384)
        for a, b in zip(vector, (-0.034478, 0.03102, 0.00673, 0.02611, -0.039362)):
            self.assertAlmostEqual(a, b, delta=1e-3)

    def test_meaning_decides(self):
        self.write("notes/a.txt", "The cat sleeps on the windowsill.\n\nRates were raised again.")
        hits = self.rows("search", "a napping kitten", "notes", "--json")
        self.assertEqual([(hit["file"], hit["line"]) for hit in hits],
                         [("notes/a.txt", 1), ("notes/a.txt", 3)])


if __name__ == "__main__":
    main()
