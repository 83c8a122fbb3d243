#!/usr/bin/env python3
"""Makes a static model of the shape of potion-base from a BERT encoder. For tests and benchmarks only.

    make_static_model.py ENCODER_DIRECTORY OUTPUT_DIRECTORY [--columns 256] [--dtype F32]

The table is the encoder's word rows, reduced by a principal component analysis and weighted by rank
as model2vec's distillation weights by frequency (Zipf's law): the shape, the value range and the tokenizer of a
distilled model, without running the encoder. Its vectors mean little.
Needs: numpy, safetensors.
"""

import argparse
import json
import pathlib

import numpy
import safetensors
import safetensors.numpy

WORD_ROWS = ("embeddings.word_embeddings.weight", "bert.embeddings.word_embeddings.weight")
DTYPES = {"F32": numpy.float32, "F16": numpy.float16}


def word_rows(path: pathlib.Path) -> numpy.ndarray:
    with safetensors.safe_open(path, framework="numpy") as file:
        for name in WORD_ROWS:
            if name in file.keys():
                return file.get_tensor(name).astype(numpy.float64)
    raise SystemExit(f"make_static_model: {path}: none of {', '.join(WORD_ROWS)}")


def principal_components(rows: numpy.ndarray, columns: int) -> numpy.ndarray:
    """The coordinates of `rows` along the `columns` directions in which they vary most."""
    centred = rows - rows.mean(axis=0)
    _, directions = numpy.linalg.eigh(centred.T @ centred)  # by rising eigenvalue
    return centred @ directions[:, ::-1][:, :columns]


def make(encoder: pathlib.Path, output: pathlib.Path, columns: int, dtype: str, normalize: bool = True):
    rows = word_rows(encoder / "model.safetensors")
    # The smooth inverse frequency a / (a + p) with p ~ 1 / rank: entries are sorted by frequency.
    frequency = 1.0 / numpy.arange(2, len(rows) + 2)
    frequency /= frequency.sum()
    table = principal_components(rows, columns) * (1e-4 / (1e-4 + frequency))[:, None]
    output.mkdir(parents=True)
    safetensors.numpy.save_file({"embeddings": numpy.ascontiguousarray(table.astype(DTYPES[dtype]))},
                                output / "model.safetensors")
    (output / "model.safetensors").chmod(0o644)  # save_file leaves it to its owner
    tokenizer = json.loads((encoder / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["truncation"] = tokenizer["padding"] = None
    (output / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    config = {"model_type": "model2vec", "architectures": ["StaticModel"], "hidden_dim": columns,
              "seq_length": 1000000, "normalize": normalize}
    (output / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--columns", type=int, default=256)
    parser.add_argument("--dtype", choices=DTYPES, default="F32")
    options = parser.parse_args()
    make(options.encoder, options.output, options.columns, options.dtype)


if __name__ == "__main__":
    main()
