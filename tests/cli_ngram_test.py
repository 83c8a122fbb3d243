"""sprat ngram: ids, embed, info and bench, on a model whose answers are known by hand."""

import json
import os
import struct
import unittest

from cli_harness import SpratTest, main, npy, read_npy

CONFIG = {"architectures": ["LongcatFlashNgramForCausalLM"], "vocab_size": 1000, "hidden_size": 4,
          "ngram_vocab_size_ratio": 3, "emb_neighbor_num": 3, "emb_split_num": 2, "eos_token_id": 2}
# Rows of the tables of 3001, 3003, 3005 and 3007 rows that 8 6 17 40 3 25 read.
IDS = [[8, 8, 8, 8], [2004, 2000, 1996, 1992], [15, 11, 697, 1383], [2035, 2025, 1030, 33],
       [990, 964, 1653, 2341], [24, 22, 465, 904]]


def f32(values):
    return struct.pack(f"<{len(values)}f", *values)


class Ngram(SpratTest):
    def setUp(self):
        super().setUp()
        self.write_model("model")

    def write_model(self, folder, word_table=True):
        # Every word row is 10 0 10 0 and every projected row 0 5 0 5. BF16: 1.0 is 0x3f80.
        tensors = {}
        if word_table:
            tensors["model.embed_tokens.weight"] = ("F32", [1000, 4], f32([10, 0, 10, 0] * 1000))
        for i in range(4):
            rows = 3001 + 2 * i
            prefix = "model.ngram_embeddings"
            tensors[f"{prefix}.embedders.{i}.weight"] = ("BF16", [rows, 1], b"\x80\x3f" * rows)
            tensors[f"{prefix}.post_projs.{i}.weight"] = ("F32", [4, 1], f32([0, 5, 0, 5]))
        header, content = {}, b""
        for name, (dtype, shape, values) in tensors.items():
            header[name] = {"dtype": dtype, "shape": shape,
                            "data_offsets": [len(content), len(content) + len(values)]}
            content += values
        text = json.dumps(header).encode()
        self.write(f"{folder}/config.json", json.dumps(CONFIG))
        self.write(f"{folder}/model.safetensors", struct.pack("<Q", len(text)) + text + content)

    def ngram(self, command, *args, **options):
        return self.rows("ngram", command, "-m", "model", *args, **options)

    def test_ids_of_lines_in_any_form(self):
        lines = self.ngram("ids", stdin="8 6 17 40 3 25\n[8, 6]\n\n17,40\n")
        self.assertEqual([line["ids"] for line in lines],
                         [IDS, IDS[:2], [], [[17] * 4, [2035, 2025, 2015, 2005]]])
        self.assertEqual([line["index"] for line in lines], [0, 1, 2, 3])

    def test_a_context_makes_pieces_equal_to_the_whole(self):
        for cut in range(1, 6):
            tokens = ["8", "6", "17", "40", "3", "25"]
            (line,) = self.ngram("ids", "--context", " ".join(tokens[:cut]),
                                 stdin=" ".join(tokens[cut:]))
            self.assertEqual(line["ids"], IDS[cut:])

    def test_vectors(self):
        self.write("tokens.txt", "8 6\n3\n")
        for tables in ("mapped", "resident", "fp8", "cached"):
            lines = self.ngram("embed", "tokens.txt", "--tables", tables)
            self.assertEqual([line["embeddings"] for line in lines],
                             [[[2, 4, 2, 4]] * 2, [[2, 4, 2, 4]]])
        (line,) = self.ngram("embed", "--scale", "full", stdin="8")
        self.assertEqual(line, {"index": 0, "tokens": 1, "embeddings": [[10, 4, 10, 4]]})
        out, _ = self.run_sprat("ngram", "embed", "-m", "model", "--format", "f32", "-o", "v.f32",
                                "tokens.txt")
        self.assertEqual(out, b"")
        self.assertEqual((self.folder / "v.f32").read_bytes(), f32([2, 4, 2, 4] * 3))

    def test_the_ending_of_the_output_chooses_the_format(self):
        self.write("tokens.txt", "8 6\n\n3\n")
        for name in ("v.npy", "V.NPY", "v.csv", "v.f32", "v.txt", "v"):
            out, _ = self.run_sprat("ngram", "embed", "-m", "model", "tokens.txt", "-o", name)
            self.assertEqual(out, b"")
            data = (self.folder / name).read_bytes()
            if name.lower() == "v.npy":
                self.assertEqual(read_npy(data), ((3, 4), (2, 4, 2, 4) * 3))
            elif name == "v.csv":
                self.assertEqual(data, b"2,4,2,4\n" * 3)
            elif name == "v.f32":
                self.assertEqual(data, f32([2, 4, 2, 4] * 3))
            else:
                self.assertEqual([json.loads(line)["tokens"] for line in data.splitlines()],
                                 [2, 0, 1])
        out, _ = self.run_sprat("ngram", "embed", "-m", "model", "--format", "npy", "tokens.txt")
        self.assertEqual(read_npy(out)[0], (3, 4))
        self.assertEqual(self.ngram("embed", "--format", "jsonl", "-o", "j.npy", stdin="8"), [])
        self.assertTrue((self.folder / "j.npy").read_bytes().startswith(b'{"index":0,'))

    def test_a_model_without_word_rows_says_what_to_do(self):
        self.write_model("bare", word_table=False)
        _, errors = self.run_sprat("ngram", "embed", "-m", "bare", stdin="8 6", status=1)
        self.assertIn("there is no tensor model.embed_tokens.weight [1000, 4]", errors)
        self.assertIn("give the word rows of the tokens: --word-rows FILE", errors)
        _, errors = self.run_sprat("ngram", "bench", "-m", "bare", status=1)
        self.assertIn("--no-word-table", errors)
        self.run_sprat("ngram", "bench", "-m", "bare", "--no-word-table", "--seconds", "0.01")
        (line,) = self.rows("ngram", "ids", "-m", "bare", stdin="8 6")
        self.assertEqual(line["ids"], IDS[:2])
        (info,) = self.rows("ngram", "info", "-m", "bare", "--json")
        self.assertIs(info["word_table"], False)
        # 1 + G = 5: (10, 20, 30, 40) / 5 and 4 of the projected rows in the second and the fourth.
        self.write("rows.npy", npy([[10, 20, 30, 40], [50, 0, 0, 5], [0, 0, 0, 0]]))
        for model in ("bare", "model"):
            lines = self.rows("ngram", "embed", "-m", model, "--word-rows", "rows.npy",
                              stdin="8 6\n3\n")
            self.assertEqual([line["embeddings"] for line in lines],
                             [[[2, 8, 6, 12], [10, 4, 0, 5]], [[0, 4, 0, 4]]])
        before = (self.folder / "rows.npy").read_bytes()
        for arguments, message in ((("rows.npy", "-o", "rows.npy"), "rows.npy"),
                                   (("-",), "--word-rows")):
            _, errors = self.run_sprat("ngram", "embed", "-m", "bare", "--word-rows", *arguments,
                                       stdin="8 6\n3\n", status=2)
            self.assertIn(message, errors)
        self.assertEqual((self.folder / "rows.npy").read_bytes(), before)
        _, errors = self.run_sprat("ngram", "embed", "-m", "bare", "--word-rows", "rows.npy",
                                   stdin="8 6", status=1)
        self.assertIn("rows.npy: a matrix of 3 x 4, expected 2 x 4: a word row for each token",
                      errors)

    def test_tables_larger_than_memory(self):
        # Tables in a hole of the file, half as large again as the memory there is.
        config = {**CONFIG, "hidden_size": 256, "emb_neighbor_num": 2, "emb_split_num": 1}
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        ratio = memory * 3 // 2 // 512 // 1000
        rows = ratio * 1000 + 1
        if rows > 4_000_000_000:
            self.skipTest("more memory than a table of 2^32 rows takes")
        header, end = {}, 0
        for name, shape in (("model.embed_tokens.weight", [1000, 256]),
                            ("model.ngram_embeddings.embedders.0.weight", [rows, 256]),
                            ("model.ngram_embeddings.post_projs.0.weight", [256, 256])):
            begin, end = end, end + 2 * shape[0] * shape[1]
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
        text = json.dumps(header).encode()
        self.write("large/config.json", json.dumps({**config, "ngram_vocab_size_ratio": ratio}))
        path = self.write("large/model.safetensors", struct.pack("<Q", len(text)) + text)
        os.truncate(path, 8 + len(text) + end)
        for tables, row_bytes in (("mapped", 512), ("resident", 512), ("fp8", 260),
                                  ("cached", 512)):
            (info,) = self.rows("ngram", "info", "-m", "large", "--json", "--tables", tables)
            self.assertEqual(info["form"], tables)
            self.assertEqual(info["table_bytes"], rows * row_bytes)
            in_memory = rows * row_bytes if tables in ("resident", "fp8") else 0
            if tables != "cached":  # with the projection, 131,072 bytes, rounded up to panels
                self.assertGreaterEqual(info["resident_bytes"], in_memory + 2 * 256 * 256)
                self.assertLess(info["resident_bytes"], in_memory + 2 * 2 * 256 * 256)
        for command in (("embed",), ("bench", "--seconds", "0.01")):
            _, errors = self.run_sprat("ngram", *command, "-m", "large", "--tables", "resident",
                                       stdin="8", status=1)
            self.assertRegex(errors, f"resident tables take {rows * 512} bytes of memory, and "
                                     "[0-9]+ are available; mapped or cached tables stay")
            self.run_sprat("ngram", *command, "-m", "large", "--tables", "mapped", stdin="8")
        _, errors = self.run_sprat("ngram", "embed", "-m", "large", "--tables", "cached",
                                   "--cache-bytes", str(memory * 2), stdin="8", status=1)
        self.assertRegex(errors, f"a row cache of {rows} slots takes [0-9]+ bytes with its map and the tables' scales, "
                                 "more than the [0-9]+ bytes of memory: choose a smaller one")

    def test_info(self):
        (info,) = self.ngram("info", "--json", "--tables", "cached", "--cache-bytes", "64000",
                             "--reader", "pread")
        for key, value in (("tables", 4), ("width", 1), ("rows", 12016), ("scale", "average"),
                           ("form", "cached"), ("row_bytes", 2), ("token_bytes", 8),
                           ("cache_slots", 1000), ("reader", "pread"), ("table_dtype", "BF16")):
            self.assertEqual(info[key], value, key)
        out, _ = self.run_sprat("ngram", "info", "-m", "model")
        self.assertIn("4 with 12,016 rows of 1 values", out.decode())

    def test_bench(self):
        rows = self.ngram("bench", "--json", "--tokens", "1,16", "--seconds", "0.01", "--tables",
                          "cached")
        self.assertEqual([row["tokens"] for row in rows], [1, 16])
        self.assertEqual(rows[0]["misses"], 0)
        self.assertEqual(rows[0]["hits"], 4)
        self.assertLessEqual(rows[0]["min_us"], rows[0]["p50_us"])
        (fresh,) = self.ngram("bench", "--json", "--tokens", "16", "--seconds", "0.01", "--tables",
                              "cached", "--fresh", "--cache-bytes", "6400")
        self.assertGreater(fresh["misses"], 30)
        out, _ = self.run_sprat("ngram", "bench", "-m", "model", "--seconds", "0.01")
        self.assertIn("tokens/s", out.decode())

    def test_faults_are_named(self):
        for args, stdin, message in (
                (("ids",), "8 6\n8 x 9", "standard input: line 2: 'x' is not a token id"),
                (("ids",), "8 4294967296", "'4294967296' is not a token id"),
                (("embed",), "8 1000", "token 1 of piece 0 is 1000, expected an id below"),
                (("embed", "--tables", "cached", "--cache-bytes", "100"), "8",
                 "expected at least the 4 of one token")):
            out, errors = self.run_sprat("ngram", args[0], "-m", "model", *args[1:], stdin=stdin,
                                         status=1)
            self.assertEqual(out, b"")
            self.assertIn(message, errors)
        self.write("model/config.json", json.dumps({**CONFIG, "architectures": ["Sibling"]}))
        _, errors = self.run_sprat("ngram", "embed", "-m", "model", stdin="8", status=1)
        self.assertIn("architectures 'Sibling' is not supported", errors)

    def test_wrong_usage_is_status_2_and_points_to_the_help(self):
        self.write("t.txt", "8 6")
        for args, message, helped in (
                ((), "Usage: sprat ngram", None),
                (("nonsense",), "'nonsense' is not a command", "ngram"),
                (("-m", "model"), "'-m' is not a command", "ngram"),
                (("ids", "--nonsense"), "--nonsense", "ngram ids"),
                (("ids", "--tables", "cached"), "--tables", "ngram ids"),
                (("info", "extra"), "extra", "ngram info"),
                (("bench", "--tokens", "0"), "--tokens: must be a whole number", "ngram bench"),
                (("embed", "--tables", "disk"), "--tables: must be one of", "ngram embed"),
                (("embed", "--scale", "half"), "--scale: must be one of", "ngram embed"),
                (("embed", "--format", "xml"), "--format: must be one of", "ngram embed"),
                (("embed", "--tables", "cached", "--queue-depth", "0"), "--queue-depth: must be",
                 "ngram embed"),
                (("embed", "--context", "a"), "--context: 'a' is not a token id", "ngram embed"),
                (("embed", "--ignored-tokens", "5"), "'5' in '5': expected first:last",
                 "ngram embed"),
                (("embed", "--cache-bytes", "64000"), "--cache-bytes: has no effect on mapped "
                                                      "tables; give --tables cached as well",
                 "ngram embed"),
                (("info", "--tables", "fp8", "--reader", "pread"),
                 "--reader: has no effect on fp8 tables", "ngram info"),
                (("embed", "t.txt", "-o", "./t.txt"), "--output: t.txt is also an input",
                 "ngram embed"),
                (("ids", "t.txt", "-o", "t.txt"), "--output: t.txt is also an input",
                 "ngram ids")):
            with self.subTest(args=args):
                out, errors = self.run_sprat("ngram", *args, stdin="8", status=2)
                self.assertEqual(out, b"")
                self.assertIn(message, errors)
                if helped:
                    self.assertTrue(errors.endswith(f"\nSee 'sprat {helped} --help'.\n"), errors)
        self.assertEqual((self.folder / "t.txt").read_bytes(), b"8 6")

    def test_a_device_that_is_not_there_is_named(self):
        for command in (("embed",), ("bench", "--seconds", "0.01")):
            _, errors = self.run_sprat("ngram", *command, "-m", "model", "--device", "cuda:99",
                                       stdin="8", status=1)
            self.assertRegex(errors, "CUDA")
            for device in ("auto", "gpu", "cuda:", "cuda:x"):
                _, errors = self.run_sprat("ngram", *command, "-m", "model", "--device", device,
                                           stdin="8", status=2)
                self.assertIn(f"'{device}' is not a device; devices are cpu, cuda and cuda:N",
                              errors)
            self.run_sprat("ngram", *command, "-m", "model", "--device", "cpu", stdin="8")
        self.run_sprat("ngram", "ids", "-m", "model", "--device", "cuda", stdin="8", status=2)

    def test_help_shows_an_example(self):
        for command in ("ids", "embed", "info", "bench"):
            out, _ = self.run_sprat("ngram", command, "--help")
            self.assertIn(f"sprat ngram {command}", out.decode().split("Example")[1])
            self.assertLessEqual(max(map(len, out.decode().splitlines())), 100)


if __name__ == "__main__":
    main()
