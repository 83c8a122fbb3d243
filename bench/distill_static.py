#!/usr/bin/env python3
"""Distils a static model from a sentence encoder with model2vec: distill_static.py ENCODER OUTPUT

    python3 -m venv build/distill
    build/distill/bin/pip install 'model2vec[distill]==0.10.0'
    build/distill/bin/python bench/distill_static.py ~/.cache/sprat/models/all-MiniLM-L6-v2 build/distilled

The result has the shape of the published potion models: WordPiece, 256 columns, F16. A minute or two on
two cores; PyTorch, which model2vec needs for it, takes about 5 GB of disk.
"""
import argparse
import os
import pathlib


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder", type=pathlib.Path, help="a directory in the format of Hugging Face transformers")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--columns", type=int, default=256)
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"  # before the import: whatever is missing is an error, not a download
    from model2vec.distill import distill
    model = distill(str(options.encoder), pca_dims=options.columns, device="cpu")
    model.save_pretrained(options.output)
    print(f"{options.output}: {model.embedding.shape[0]} rows of {model.embedding.shape[1]}, {model.embedding.dtype}")


if __name__ == "__main__":
    main()
