#!/usr/bin/env python3
"""Makes testdata/encoder/bert12_cls.txt: what Hugging Face transformers computes for a BERT of 12
layers with random weights, CLS pooling, normalised.

    make_bert_reference.py > testdata/encoder/bert12_cls.txt

Needs torch and transformers, which the tests do not. The weights are those of TinyModel in
src/model/model_writer_for_test.h, generated here once more: for each tensor, the 64-bit Mersenne
twister seeded with the FNV-1a hash of its name (start: 0xcbf29ce484222325 xor the model's seed);
each value (random % 255 - 127) / 512, or 1 + nearbyint(whole / 4) / 128 for LayerNorm weights.
"""

import sys

import numpy
import torch
import transformers

SEED = 7
CONFIG = dict(
    num_hidden_layers=12, hidden_size=48, num_attention_heads=3, intermediate_size=192,
    vocab_size=90, max_position_embeddings=64, type_vocab_size=2, hidden_act="gelu",
    layer_norm_eps=1e-12,
)  # fmt: skip
# Token ids: the first k of a fixed stream, for several k.
LENGTHS = [1, 2, 3, 8, 17, 40, 64]
MASK = (1 << 64) - 1


def mersenne_twister(seed: int, count: int) -> list[int]:
    """The first values of std::mt19937_64."""
    state = [seed & MASK]
    for i in range(1, 312):
        state.append((6364136223846793005 * (state[-1] ^ (state[-1] >> 62)) + i) & MASK)
    values = []
    index = 312
    for _ in range(count):
        if index == 312:
            for i in range(312):
                x = (state[i] & 0xFFFFFFFF80000000) | (state[(i + 1) % 312] & 0x7FFFFFFF)
                state[i] = state[(i + 156) % 312] ^ (x >> 1) ^ (0xB5026F5AA96619E9 * (x & 1))
            index = 0
        x = state[index]
        index += 1
        x ^= (x >> 29) & 0x5555555555555555
        x ^= (x << 17) & 0x71D67FFFEDA60000
        x ^= (x << 37) & 0xFFF7EEE000000000
        x ^= x >> 43
        values.append(x & MASK)
    return values


def drawn(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    seed = 0xCBF29CE484222325 ^ SEED
    for c in name.encode():
        seed = ((seed ^ c) * 0x100000001B3) & MASK
    random = mersenne_twister(seed, int(numpy.prod(shape)))
    whole = numpy.array([value % 255 - 127 for value in random], dtype=numpy.float32)
    if name.endswith("LayerNorm.weight"):
        values = 1 + numpy.rint(whole / 4) / 128
    else:
        values = whole / 512
    return torch.tensor(values.reshape(shape), dtype=torch.float32)


def main() -> None:
    model = transformers.BertModel(
        transformers.BertConfig(**CONFIG), add_pooling_layer=False
    ).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(drawn(name, tuple(parameter.shape)))
        print(f"# transformers {transformers.__version__}, torch {torch.__version__}: ids, vector")
        token = 17
        stream = []
        for _ in range(max(LENGTHS)):
            token = (token * 29 + 11) % CONFIG["vocab_size"]
            stream.append(token)
        for length in LENGTHS:
            ids = torch.tensor([stream[:length]])
            cls = model(input_ids=ids).last_hidden_state[0, 0]
            vector = torch.nn.functional.normalize(cls, dim=0)
            print(length, *stream[:length], *(f"{x:.9g}" for x in vector.tolist()))


if __name__ == "__main__":
    sys.exit(main())
