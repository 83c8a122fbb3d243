#!/usr/bin/env python3
"""Vectors of sentence-transformers' StaticEmbedding for tests: make_st_golden.py ENCODER GOLDEN... > st.jsonl

    python3 -m venv build/st
    build/st/bin/pip install sentence-transformers==6.2.0
    build/st/bin/python tools/make_st_golden.py ~/.cache/sprat/models/all-MiniLM-L6-v2 \\
      testdata/golden/minilm.jsonl testdata/golden/static_tokenlearn.jsonl > testdata/golden/static_st.jsonl

The texts are those of the golden files GOLDEN and awkward ones. The model: the tokenizer of ENCODER and the
first columns of its word rows (word_rows below), in F32, without a Normalize module. One object a line: the
text, its vector, and in "truncation" the number of tokens to which tokenizer.json cuts, null for none.
"""
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tools"), str(ROOT / "tests" / "tokenizer")]

COLUMNS = 8
TRUNCATIONS = (None, 6)
CUT_TEXTS = 60  # how many are also cut


def make_model(encoder, output, truncation):
    """What sentence-transformers reads as a StaticEmbedding."""
    import numpy
    import safetensors.numpy
    from make_static_model import word_rows
    output.mkdir(parents=True)
    table = word_rows(encoder / "model.safetensors")[:, :COLUMNS].astype(numpy.float32)
    safetensors.numpy.save_file({"embedding.weight": numpy.ascontiguousarray(table)}, output / "model.safetensors")
    tokenizer = json.loads((encoder / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["padding"] = None
    tokenizer["truncation"] = truncation and {
        "direction": "Right", "max_length": truncation, "strategy": "LongestFirst", "stride": 0}
    (output / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    (output / "modules.json").write_text(json.dumps([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.StaticEmbedding"}]))
    (output / "config_sentence_transformers.json").write_text("{}")


def all_texts(golden_files):
    import texts as real_texts
    texts = [""]
    for path in golden_files:
        lines = pathlib.Path(path).read_text(encoding="utf-8").split("\n")
        texts += [json.loads(line)["text"] for line in lines if line]
    texts += real_texts.awkward_strings(100, seed=6, extra=["[SEP]", "[UNK]", "[MASK]", "the", " ", "\x00", "##ing"])
    texts += ["\u4e16 \U0001f98a", "good \U0001f98a morning", "q" * 150, "a lot of words, " * 300]
    return list(dict.fromkeys(texts))


def main():
    from sentence_transformers import SentenceTransformer
    encoder, texts = pathlib.Path(sys.argv[1]), all_texts(sys.argv[2:])
    with tempfile.TemporaryDirectory() as folder:
        for truncation in TRUNCATIONS:
            directory = pathlib.Path(folder) / str(truncation)
            make_model(encoder, directory, truncation)
            some = texts if truncation is None else texts[:: max(1, len(texts) // CUT_TEXTS)]
            vectors = SentenceTransformer(str(directory), device="cpu").encode(some)
            for text, vector in zip(some, vectors):
                print(json.dumps({"text": text, "truncation": truncation, "vector": [float(f"{x:.9g}") for x in vector]}))


if __name__ == "__main__":
    main()
