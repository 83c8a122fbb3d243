#!/usr/bin/env python3
"""A copy of a model directory with an ONNX graph in onnx/model.onnx, for infinity_emb.

    export_onnx.py MODEL OUT

Needs torch, transformers, onnx.
"""

import pathlib
import shutil
import sys

import torch
from transformers import AutoModel

INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class LastHiddenState(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.model(input_ids, attention_mask, token_type_ids).last_hidden_state


def main():
    source, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    if (out / "onnx/model.onnx").exists():
        return
    shutil.copytree(source, out, dirs_exist_ok=True)
    (out / "onnx").mkdir(exist_ok=True)
    model = AutoModel.from_pretrained(source, attn_implementation="eager").eval()
    ids = torch.ones(2, 8, dtype=torch.long)
    torch.onnx.export(
        LastHiddenState(model),
        (ids, torch.ones_like(ids), torch.zeros_like(ids)),
        str(out / "onnx/model.onnx"),
        input_names=list(INPUTS),
        output_names=["last_hidden_state"],
        dynamic_axes={name: {0: "batch", 1: "tokens"} for name in (*INPUTS, "last_hidden_state")},
        opset_version=14,
        dynamo=False,
    )


if __name__ == "__main__":
    main()
