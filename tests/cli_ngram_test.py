"""sprat ngram: ids, embed, info and bench, on a model whose answers are known by hand."""

import json
import struct
import unittest

from cli_harness import SpratTest, main

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
        # Every word row is 10 0 10 0 and every projected row 0 5 0 5. BF16: 1.0 is 0x3f80.
        tensors = {"model.embed_tokens.weight": ("F32", [1000, 4], f32([10, 0, 10, 0] * 1000))}
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
        self.write("model/config.json", json.dumps(CONFIG))
        self.write("model/model.safetensors", struct.pack("<Q", len(text)) + text + content)

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
                (("embed", "--context", "a"), "8", "--context: 'a' is not a token id"),
                (("embed", "--tables", "cached", "--cache-bytes", "100"), "8",
                 "expected at least the 4 of one token"),
                (("embed", "--ignored-tokens", "5"), "8", "'5' in '5': expected first:last")):
            out, errors = self.run_sprat("ngram", args[0], "-m", "model", *args[1:], stdin=stdin,
                                         status=1)
            self.assertEqual(out, b"")
            self.assertIn(message, errors)
        self.write("model/config.json", json.dumps({**CONFIG, "architectures": ["Sibling"]}))
        _, errors = self.run_sprat("ngram", "embed", "-m", "model", stdin="8", status=1)
        self.assertIn("architectures 'Sibling' is not supported", errors)
        for args in (("--tables", "disk"), ("--scale", "half"), ("--queue-depth", "0")):
            self.run_sprat("ngram", "embed", "-m", "model", *args, stdin="8", status=2)
        self.run_sprat("ngram", status=2)

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


if __name__ == "__main__":
    main()
