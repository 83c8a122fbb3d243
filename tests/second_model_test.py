"""Compares Sprat with ONNX Runtime on a second model, paraphrase-MiniLM-L3-v2.

    second_model_test.py SPRAT TEXTS.jsonl

The ONNX file is a test model of tools/fetch_model.py; tools/convert_onnx_bert.py turns it into a
model directory. $SPRAT_TEST_MODELS and $SPRAT_TEST_MODEL say where the fetched models are.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy
import onnxruntime
import tokenizers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import convert_onnx_bert  # noqa: E402

MAX_LENGTH = 128
TEXTS = 200


def reference_vectors(model: pathlib.Path, tokenizer: pathlib.Path, texts):
    """The ids and unit vectors of `texts`, each embedded alone, without padding."""
    session = onnxruntime.InferenceSession(str(model))
    encode = tokenizers.Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    encode.no_padding()
    encode.enable_truncation(MAX_LENGTH)
    ids, vectors = [], []
    for text in texts:
        ids.append(encode.encode(text).ids)
        row = numpy.array([ids[-1]], dtype=numpy.int64)
        outputs = session.run(None, {"input_ids": row, "attention_mask": numpy.ones_like(row)})
        # The file's outputs are the ids, the mask, the tokens' vectors and the sentence's.
        (pooled,) = (o for o in outputs if o.ndim == 2 and o.dtype == numpy.float32)
        vectors.append(pooled[0] / numpy.linalg.norm(pooled[0]))
    return ids, numpy.array(vectors)


class SecondModel(unittest.TestCase):
    def test_vectors_are_those_of_onnx_runtime(self):
        sprat, texts_file = arguments
        lines = pathlib.Path(texts_file).read_text(encoding="utf-8").split("\n")
        texts = [json.loads(line)["text"] for line in lines[:TEXTS]]
        self.assertEqual(len(texts), TEXTS)
        tokenizer = pathlib.Path(os.environ["SPRAT_TEST_MODEL"])
        folder = pathlib.Path(os.environ["SPRAT_TEST_MODELS"]) / "paraphrase-MiniLM-L3-v2-onnx"
        (onnx_file,) = folder.glob("*.onnx")
        ids, expected = reference_vectors(onnx_file, tokenizer, texts)
        self.assertIn(MAX_LENGTH, map(len, ids), "a text should reach the limit")

        with tempfile.TemporaryDirectory() as scratch:
            model = pathlib.Path(scratch) / "model"
            convert_onnx_bert.convert(onnx_file, tokenizer, model, MAX_LENGTH)
            lines = "".join(json.dumps(text) + "\n" for text in texts)
            command = [sprat, "embed", "-m", model, "--input-format", "jsonl", "--format", "jsonl"]
            done = subprocess.run(
                command, input=lines, capture_output=True, text=True, encoding="utf-8", check=False
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([row["index"] for row in rows], list(range(TEXTS)))
        self.assertEqual([row["tokens"] for row in rows], [len(row) for row in ids])
        vectors = numpy.array([row["embedding"] for row in rows])
        cosines = (vectors * expected).sum(axis=1)
        difference = numpy.abs(vectors - expected).max()
        print(f"minimum cosine {cosines.min():.9f}, largest difference {difference:.3g}")
        self.assertGreaterEqual(cosines.min(), 0.999999)
        self.assertLessEqual(difference, 2e-5)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
