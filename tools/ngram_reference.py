#!/usr/bin/env python3
"""The n-gram embedding in PyTorch, f64, from its definition: what `sprat ngram` is held against.

    ngram_reference.py MODEL [--sprat PROGRAM] [--tables FORM] [--sequences N] [--seed S]

Draws sequences with ends of sequence in them, asks the program for ids and vectors, and compares
every id and the worst row's relative Frobenius error. Needs torch and numpy. Exit status 1 if an id
differs or a row's error is 0.5 % (F8_E4M3 made at load: 3 %) or more.
"""

import argparse
import json
import pathlib
import random
import struct
import subprocess
import sys

import numpy as np
import torch

WIDE = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class Checkpoint:
    """The tensors of model.safetensors or its shards, mapped."""

    def __init__(self, directory: pathlib.Path):
        index = directory / "model.safetensors.index.json"
        names = ["model.safetensors"]
        if index.exists():
            names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        self.places = {}
        for name in names:
            bytes_ = np.memmap(directory / name, np.uint8, "c")
            (length,) = struct.unpack("<Q", bytes_[:8].tobytes())
            for key, entry in json.loads(bytes_[8 : 8 + length].tobytes()).items():
                if key != "__metadata__":
                    begin, end = (8 + length + offset for offset in entry["data_offsets"])
                    self.places[key] = (entry["dtype"], entry["shape"], bytes_[begin:end])

    def rows(self, name: str, rows=None) -> torch.Tensor:
        """A tensor, or some of its rows, in f64."""
        dtype, shape, bytes_ = self.places[name]
        if not shape:
            return torch.frombuffer(bytearray(bytes_.tobytes()), dtype=WIDE[dtype]).double()
        table = bytes_.reshape(shape[0], -1)
        chosen = np.ascontiguousarray(table if rows is None else table[rows.numpy()])
        if dtype != "F8_E4M3":
            return torch.from_numpy(chosen).view(WIDE[dtype]).double()
        code = torch.from_numpy(chosen).long()
        exponent, mantissa = (code >> 3) & 15, (code & 7).double()
        magnitude = torch.where(
            exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10).double()
        )
        scale = self.rows(name + "_scale")
        if scale.numel() > 1:
            scale = scale.reshape(-1, 1)[rows]
        return torch.where(code >= 128, -magnitude, magnitude) * scale


class NgramEmbedding(torch.nn.Module):
    """out(t) = (E[x_t] + sum_i W_i T_i[id_i(t)]) / (1 + G)."""

    def __init__(self, directory: pathlib.Path):
        super().__init__()
        config = json.loads((directory / "config.json").read_text())
        newer = "oe_neighbor_num" in config
        self.vocab, self.eos = config["vocab_size"], config["eos_token_id"]
        self.ratio = config["oe_vocab_size_ratio" if newer else "ngram_vocab_size_ratio"]
        self.orders = config["oe_neighbor_num" if newer else "emb_neighbor_num"]
        self.splits = config["oe_split_num" if newer else "emb_split_num"]
        family = "model.oe_embed_{}{}.weight" if newer else "model.ngram_embeddings.{}.{}.weight"
        kinds = ("tokens", "proj") if newer else ("embedders", "post_projs")
        self.names = [
            tuple(family.format(kind, i) for kind in kinds)
            for i in range(self.splits * (self.orders - 1))
        ]
        self.checkpoint = Checkpoint(directory)

    def look_back(self, tokens: torch.Tensor, distance: int) -> torch.Tensor:
        """x_{t - distance}, or 0 where the sequence or a segment begins in between."""
        shifted = torch.zeros_like(tokens)
        shifted[distance:] = tokens[: len(tokens) - distance]
        for between in range(1, distance + 1):
            stop = torch.zeros_like(tokens, dtype=torch.bool)
            stop[between:] = tokens[: len(tokens) - between] == self.eos
            shifted[stop] = 0
        return shifted

    def ids(self, tokens: torch.Tensor) -> torch.Tensor:
        """(T) token ids to (T, G) rows."""
        columns = []
        for i in range(len(self.names)):
            modulus = int(self.ratio * self.vocab) + 2 * i + 1
            total = tokens.clone()
            for distance in range(1, i // self.splits + 2):
                total += self.look_back(tokens, distance) * pow(self.vocab, distance, modulus)
            columns.append(total % modulus)
        return torch.stack(columns, dim=1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        ids = self.ids(tokens)
        out = self.checkpoint.rows("model.embed_tokens.weight", tokens)
        for i, (table, projection) in enumerate(self.names):
            rows = self.checkpoint.rows(table, ids[:, i])
            out = out + torch.nn.functional.linear(rows, self.checkpoint.rows(projection))
        return out / (1 + len(self.names))


def ask(program: str, command: str, model: pathlib.Path, sequences, options) -> list[dict]:
    lines = "".join(" ".join(map(str, sequence)) + "\n" for sequence in sequences)
    answer = subprocess.run(
        [program, "ngram", command, "-m", str(model), *options],
        input=lines, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return [json.loads(line) for line in answer.splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--sprat", default="build/release/bin/sprat")
    parser.add_argument("--tables", default="mapped")
    parser.add_argument("--sequences", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    reference = NgramEmbedding(arguments.model)
    draw = random.Random(arguments.seed)
    sequences = [
        [
            reference.eos if draw.random() < 0.05 else draw.randrange(reference.vocab)
            for _ in range(draw.randrange(1, 200))
        ]
        for _ in range(arguments.sequences)
    ]
    ids = ask(arguments.sprat, "ids", arguments.model, sequences, [])
    vectors = ask(
        arguments.sprat, "embed", arguments.model, sequences, ["--tables", arguments.tables]
    )
    wrong, worst = 0, 0.0
    for sequence, found_ids, found in zip(sequences, ids, vectors, strict=True):
        tokens = torch.tensor(sequence)
        wrong += int((reference.ids(tokens) != torch.tensor(found_ids["ids"])).sum())
        exact = reference(tokens)
        difference = torch.tensor(found["embeddings"], dtype=torch.float64) - exact
        worst = max(worst, float((difference.norm(dim=1) / exact.norm(dim=1)).max()))
    print(f"{sum(map(len, sequences))} tokens, {wrong} wrong ids, worst row error {worst:.3%}")
    return 0 if wrong == 0 and worst < (0.03 if arguments.tables == "fp8" else 0.005) else 1


if __name__ == "__main__":
    sys.exit(main())
