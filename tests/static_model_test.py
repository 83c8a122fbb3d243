"""Compares Sprat with model2vec on static models made for the purpose.

    static_model_test.py SPRAT GOLDEN_DIRECTORY

The models have the shape of potion-base: all-MiniLM-L6-v2's tokenizer and word rows
(tools/make_static_model.py), then each type, layout and option that model2vec reads.
$SPRAT_TEST_MODEL says where all-MiniLM-L6-v2 is.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import model2vec
import numpy
import safetensors.numpy
import tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tools"), str(ROOT / "tests" / "tokenizer")]
import make_st_golden  # noqa: E402
import make_static_model  # noqa: E402
import texts as real_texts  # noqa: E402

TOLERANCE = 1e-5
GLOSSES = 4000


def golden_texts(directory):
    """Every text of the golden files."""
    texts = []
    for path in sorted(pathlib.Path(directory).glob("*.jsonl")):
        lines = path.read_text(encoding="utf-8").split("\n")
        texts += [json.loads(line)["text"] for line in lines if line]
    return texts


def reference(model, texts, **options):
    loaded = model2vec.StaticModel.from_pretrained(model, **options)
    return numpy.asarray(loaded.encode(texts, use_multiprocessing=False), dtype=numpy.float64)


class StaticModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.encoder = pathlib.Path(os.environ["SPRAT_TEST_MODEL"])
        cls.golden = golden_texts(arguments[1])
        glosses = real_texts.wordnet_glosses()
        cls.texts = cls.golden + glosses[:: len(glosses) // GLOSSES]
        cls.potion = cls.folder / "potion"
        make_static_model.make(cls.encoder, cls.potion, columns=256, dtype="F32")
        cls.tensors = safetensors.numpy.load_file(cls.potion / "model.safetensors")

    def vectors(self, model, texts, *options):
        """Sprat's vectors of `texts`."""
        lines = "".join(json.dumps(text) + "\n" for text in texts)
        output = self.folder / "vectors.npy"
        command = [arguments[0], "embed", "-m", model, "--input-format", "jsonl", "-o", output, *options]
        done = subprocess.run(command, input=lines, capture_output=True, encoding="utf-8", check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return numpy.load(output).astype(numpy.float64)

    def check(self, found, expected, tolerance=TOLERANCE):
        self.assertEqual(found.shape, expected.shape)
        zero = ~expected.any(axis=1)
        numpy.testing.assert_array_equal(~found.any(axis=1), zero, "other vectors are zero")
        difference = numpy.abs(found - expected).max()
        print(f"{self.id()}: {len(found)} texts, {zero.sum()} zero vectors, largest difference {difference:.3g}")
        self.assertLessEqual(difference, tolerance)
        return zero.sum()

    def variant(self, name, tensors=None, folder=".", config_file="config.json", **config):
        """A copy of the potion model with other tensors, places or values of its configuration."""
        model = self.folder / name
        (model / folder).mkdir(parents=True)
        shutil.copy(self.potion / "tokenizer.json", model / folder)
        safetensors.numpy.save_file(tensors or self.tensors, model / folder / "model.safetensors")
        (model / config_file).write_text(json.dumps(config), encoding="utf-8")
        return model

    def test_single_precision(self):
        zeros = self.check(self.vectors(self.potion, self.texts), reference(self.potion, self.texts))
        self.assertGreater(zeros, 0)

    def test_half_precision(self):
        model = self.folder / "half"
        make_static_model.make(self.encoder, model, columns=256, dtype="F16")
        found = self.vectors(model, self.texts)
        # model2vec rounds what it returns to F16, twice: to compare at full precision it gets the same
        # table as F32.
        table = safetensors.numpy.load_file(model / "model.safetensors")["embeddings"]
        as_single = self.variant("half_as_single", {"embeddings": table.astype(numpy.float32)}, normalize=True)
        self.check(found, reference(as_single, self.texts))
        self.check(found, reference(model, self.texts), tolerance=2.0**-10)

    @unittest.skipUnless("SPRAT_TEST_DISTILLED" in os.environ, "no distilled model: bench/distill_static.py")
    def test_distilled(self):
        distilled = pathlib.Path(os.environ["SPRAT_TEST_DISTILLED"])
        found = self.vectors(distilled, self.texts)
        tensors = safetensors.numpy.load_file(distilled / "model.safetensors")
        self.assertEqual(tensors["embeddings"].dtype, numpy.float16)
        exact = self.folder / "distilled"  # the same values as F32, as above
        shutil.copytree(distilled, exact)
        tensors["embeddings"] = tensors["embeddings"].astype(numpy.float32)
        safetensors.numpy.save_file(tensors, exact / "model.safetensors")
        self.check(found, reference(exact, self.texts))
        self.check(found, reference(distilled, self.texts), tolerance=2.0**-10)

    def test_first_columns(self):
        expected = reference(self.potion, self.golden, dimensionality=64)
        self.check(self.vectors(self.potion, self.golden, "--dimensions", "64"), expected)

    def test_without_norm(self):
        for name, config in (("missing", {}), ("false", {"normalize": False})):
            with self.subTest(normalize=name):
                model = self.variant(f"normalize_{name}", **config)
                expected = reference(model, self.golden)
                self.assertGreater(numpy.abs(numpy.linalg.norm(expected, axis=1) - 1).max(), 0.5)
                self.check(self.vectors(model, self.golden), expected)

    def test_maximum_length(self):
        long_texts = self.golden + [" ".join(self.golden), "\U0001f98a" * 30 + " good morning"]
        for max_length in (1, 7, 512, None):
            with self.subTest(max_length=max_length):
                model = self.variant(f"length_{max_length}", normalize=True, max_length=max_length)
                self.check(self.vectors(model, long_texts), reference(model, long_texts))

    def test_types_and_mapping(self):
        random = numpy.random.default_rng(4)
        table = self.tensors["embeddings"][::15].copy()  # in one piece: save_file writes what lies there
        whole = numpy.round(table * (127 / numpy.abs(table).max())).astype(numpy.int8)
        mapping = random.integers(0, len(table), len(self.tensors["embeddings"]))
        weights = random.uniform(0.1, 3, len(mapping))
        for name, rows in (("F32", table), ("F16", table.astype(numpy.float16)), ("I8", whole)):
            for weight_type in (numpy.float64, numpy.float32, numpy.float16):
                with self.subTest(rows=name, weights=weight_type.__name__):
                    stored = weights.astype(weight_type)
                    model = self.variant(
                        f"mapped_{name}_{weight_type.__name__}", normalize=True,
                        tensors={"embeddings": rows, "mapping": mapping, "weights": stored})
                    # In F32, as above; numpy rounds products of F16 to F16.
                    exact = self.variant(
                        f"mapped_{name}_{weight_type.__name__}_exact", normalize=True,
                        tensors={"embeddings": rows.astype(numpy.float32), "mapping": mapping,
                                 "weights": stored.astype(numpy.float64)})
                    self.check(self.vectors(model, self.golden), reference(exact, self.golden))

    def test_weights_without_mapping(self):
        weights = numpy.random.default_rng(5).uniform(0.1, 3, len(self.tensors["embeddings"]))
        model = self.variant("weights", {**self.tensors, "weights": weights}, normalize=True)
        self.check(self.vectors(model, self.golden), reference(model, self.golden))

    def test_semantics_of_sentence_transformers(self):
        """Against vectors of its StaticEmbedding, of texts that model2vec would cut and thin out."""
        lines = (pathlib.Path(arguments[1]) / "static_st.jsonl").read_text(encoding="utf-8").split("\n")
        golden = [json.loads(line) for line in lines if line]
        for truncation in make_st_golden.TRUNCATIONS:
            with self.subTest(truncation=truncation):
                model = self.folder / f"st_{truncation}"
                make_st_golden.make_model(self.encoder, model, truncation)
                expected = [line for line in golden if line["truncation"] == truncation]
                self.assertGreater(len(expected), 50)
                found = self.vectors(model, [line["text"] for line in expected], "--static-semantics", "st")
                zeros = self.check(found, numpy.array([line["vector"] for line in expected]))
                self.assertGreater(zeros, 0)

    def test_layouts_of_sentence_transformers(self):
        tensors = {"embedding.weight": self.tensors["embeddings"]}
        for folder in (".", "0_StaticEmbedding"):
            with self.subTest(folder=folder):
                model = self.variant(f"layout_{folder}", tensors, folder,
                                     "config_sentence_transformers.json", normalize=True)
                self.check(self.vectors(model, self.golden), reference(model, self.golden))

    def run_sprat(self, *args, text="", status=0):
        done = subprocess.run([arguments[0], *map(str, args)], input=text, capture_output=True,
                              encoding="utf-8", check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout

    def test_commands(self):
        """Every command takes a static model."""
        unlimited = self.variant("commands", max_length=None)  # and does not normalise
        for model in (self.potion, unlimited):
            with self.subTest(model=model.name):
                info = json.loads(self.run_sprat("info", "-m", model, "--json"))
                self.assertEqual([info[key] for key in ("family", "dimensions", "max_length")],
                                 ["static", 256, 512 if model == self.potion else 0])
                self.assertEqual(info["normalizes"], model == self.potion)
                self.run_sprat("info", "-m", model)
                bench = self.run_sprat("bench", "-m", model, "--json", "--tokens", "8,600" if model == unlimited
                                       else "1,512", "--batch", "1,64", "--seconds", "0.01")
                rows = [json.loads(line) for line in bench.splitlines()]
                self.assertEqual([row["batch"] for row in rows], [1, 64] * 2)
                self.assertEqual({row["fingerprint"] for row in rows}, {info["fingerprint"]})
                texts = self.golden[:50]
                numpy.save(self.folder / "theirs.npy", reference(model, texts).astype(numpy.float32))
                lines = "".join(json.dumps(text) + "\n" for text in texts)
                verify = ("verify", "-m", model, self.folder / "theirs.npy", "--input-format", "jsonl", "--json")
                self.assertTrue(json.loads(self.run_sprat(*verify, text=lines))["pass"])
                similar = json.loads(self.run_sprat("similarity", "-m", model, "--json", "cat", "cat", "tax law"))
                row = similar["similarity"][0]
                self.assertAlmostEqual(row[1], 1, places=5)
                self.assertLess(row[2], row[1])
                document = self.folder / "document.txt"
                document.write_text("The cat sleeps.\n\nInterest rates rose.\n\n" + "A long line. " * 400)
                found = self.run_sprat("search", "-m", model, "--no-cache", "a sleeping cat", document)
                self.assertIn("cat sleeps", found)
        refused = subprocess.run([arguments[0], "bench", "-m", self.potion, "--tokens", "513"],
                                 capture_output=True, text=True, check=False)
        self.assertIn("this model takes 1 to 512", refused.stderr)

    def test_the_fingerprint_is_of_what_decides_the_vector(self):
        def fingerprint(model, *options):
            return json.loads(self.run_sprat("info", "-m", model, "--json", *options))["fingerprint"]
        plain = fingerprint(self.potion)
        other_layout = self.variant("same", {"embedding.weight": self.tensors["embeddings"]},
                                    "0_StaticEmbedding", "config_sentence_transformers.json", normalize=True)
        self.assertEqual(fingerprint(other_layout), plain)
        one_value = self.tensors["embeddings"].copy()
        one_value[20000, 200] += 1
        for name, model in (("value", self.variant("other_value", {"embeddings": one_value}, normalize=True)),
                            ("normalize", self.variant("other_norm", normalize=False)),
                            ("max_length", self.variant("other_length", normalize=True, max_length=8))):
            self.assertNotEqual(fingerprint(model), plain, name)
        self.assertNotEqual(fingerprint(self.potion, "--static-semantics", "st"), plain)

    def test_models_of_tokens(self):
        """Byte-level BPE without an unknown token, BPE with one, and Unigram."""
        from tokenizers import models, pre_tokenizers, trainers
        byte_level = tokenizers.Tokenizer(models.BPE())
        byte_level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        unknown = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
        unknown.pre_tokenizer = pre_tokenizers.Metaspace()
        unigram = tokenizers.Tokenizer(models.Unigram())
        unigram.pre_tokenizer = pre_tokenizers.Metaspace()
        for name, tokenizer, trainer in (
                ("byte_level", byte_level, trainers.BpeTrainer(
                    vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)),
                ("bpe", unknown, trainers.BpeTrainer(
                    vocab_size=600, limit_alphabet=60, special_tokens=["<unk>"], show_progress=False)),
                ("unigram", unigram, trainers.UnigramTrainer(
                    vocab_size=500, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False))):
            with self.subTest(tokens=name):
                tokenizer.train_from_iterator(self.texts[-1000:], trainer)
                rows = tokenizer.get_vocab_size()
                model = self.variant(name, {"embeddings": self.tensors["embeddings"][:rows]}, normalize=True)
                tokenizer.save(str(model / "tokenizer.json"))
                zeros = self.check(self.vectors(model, self.golden), reference(model, self.golden))
                self.assertGreater(zeros, 0)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
