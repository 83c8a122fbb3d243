"""Writes a small static model, without any library."""

import json
import pathlib
import struct


def write_static_model(folder, encoder, rows, config):
    """A static model with the words of an encoder's vocab.txt; rows: word -> its columns."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    words = pathlib.Path(encoder, "vocab.txt").read_text(encoding="utf-8").splitlines()
    tokenizer = {
        "added_tokens": [], "post_processor": None, "pre_tokenizer": {"type": "BertPreTokenizer"},
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "lowercase": True,
                       "handle_chinese_chars": True, "strip_accents": None},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {word: i for i, word in enumerate(words)}}}
    columns = len(next(iter(rows.values()), [0, 0]))
    rest = [0.0] * (columns - 2)
    table = [rows.get(word, [1.0, float(i), *rest]) for i, word in enumerate(words)]
    data = struct.pack(f"<{columns * len(words)}f", *(x for row in table for x in row))
    header = json.dumps({"embeddings": {"dtype": "F32", "shape": [len(words), columns],
                                        "data_offsets": [0, len(data)]}}).encode()
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data)
    return folder
