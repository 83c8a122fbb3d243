#!/usr/bin/env python3
"""Writes a model directory from a BERT sentence encoder exported to ONNX. For tests only.

    convert_onnx_bert.py MODEL.onnx TOKENIZER_DIRECTORY OUTPUT_DIRECTORY --max-length 128

The ONNX file is one that PyTorch's exporter wrote: embeddings, norms and biases keep their names, while
the weight of a linear layer is an anonymous (in, out) operand of MatMul. It is known by what follows:
the Add whose other operand is a bias with a name. TOKENIZER_DIRECTORY has the vocab.txt and
tokenizer.json of the same model family, for the ONNX file has none. Pooling is the mean, without
normalisation, as in paraphrase-MiniLM-L3-v2.
Needs: numpy, onnx, safetensors.
"""

import argparse
import json
import pathlib
import shutil

import numpy
import onnx
import onnx.numpy_helper
import safetensors.numpy

BIAS = ".bias"


def canonical(name: str) -> str:
    """The name that BertModel gives a tensor, without the exporter's prefix."""
    for start in ("embeddings.", "encoder."):
        at = name.find(start)
        if at >= 0:
            return name[at:]
    raise SystemExit(f"convert_onnx_bert: {name} is no tensor of BertModel")


def linear_weights(graph, constants) -> dict:
    """Each linear layer's weight, (out, in), by the name of its bias with "weight" in place of it."""
    producers = {output: node for node in graph.node for output in node.output}
    found = {}
    for node in graph.node:
        if node.op_type != "Add":
            continue
        for bias, product in (node.input, reversed(node.input)):
            matmul = producers.get(product)
            if not bias.endswith(BIAS) or matmul is None or matmul.op_type != "MatMul":
                continue
            name = canonical(bias)[: -len(BIAS)] + ".weight"
            found[name] = numpy.ascontiguousarray(constants[matmul.input[1]].T)
    return found


def norm_epsilon(graph) -> float:
    """The one epsilon of all LayerNormalization nodes."""
    values = {
        attribute.f
        for node in graph.node
        if node.op_type == "LayerNormalization"
        for attribute in node.attribute
        if attribute.name == "epsilon"
    }
    (epsilon,) = values
    return float(epsilon)


def head_width(graph) -> int:
    """D, from the scores' division by its square root: the only Div whose result meets the mask."""
    constants = {
        node.output[0]: onnx.numpy_helper.to_array(node.attribute[0].t)
        for node in graph.node
        if node.op_type == "Constant" and node.attribute[0].name == "value"
    }
    scores = {node.output[0] for node in graph.node if node.op_type == "MatMul"}
    widths = {
        round(float(constants[node.input[1]]) ** 2)
        for node in graph.node
        if node.op_type == "Div" and node.input[0] in scores and node.input[1] in constants
    }
    (width,) = widths
    return width


def write_json(path: pathlib.Path, content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def convert(source: pathlib.Path, tokenizer: pathlib.Path, target: pathlib.Path, limit: int) -> None:
    graph = onnx.load(source).graph
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    tensors = {
        canonical(name): value
        for name, value in constants.items()
        if "embeddings." in name or "encoder." in name
    }
    tensors.update(linear_weights(graph, constants))

    vocabulary, hidden = tensors["embeddings.word_embeddings.weight"].shape
    layers = 1 + max(int(name.split(".")[2]) for name in tensors if name.startswith("encoder.layer."))
    expected = 5 + 16 * layers
    if len(tensors) != expected:
        raise SystemExit(f"convert_onnx_bert: found {len(tensors)} tensors, expected {expected}")
    target.mkdir(parents=True, exist_ok=True)
    safetensors.numpy.save_file(tensors, target / "model.safetensors")
    write_json(
        target / "config.json",
        {
            "model_type": "bert",
            "num_hidden_layers": layers,
            "hidden_size": hidden,
            "num_attention_heads": hidden // head_width(graph),
            "intermediate_size": tensors["encoder.layer.0.intermediate.dense.weight"].shape[0],
            "vocab_size": vocabulary,
            "max_position_embeddings": tensors["embeddings.position_embeddings.weight"].shape[0],
            "type_vocab_size": tensors["embeddings.token_type_embeddings.weight"].shape[0],
            "layer_norm_eps": norm_epsilon(graph),
            "hidden_act": "gelu",
        },
    )
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    write_json(
        target / "modules.json",
        [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate(modules)
        ],
    )
    write_json(
        target / "1_Pooling" / "config.json",
        {"word_embedding_dimension": hidden, "pooling_mode_mean_tokens": True},
    )
    write_json(target / "sentence_bert_config.json", {"max_seq_length": limit})
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        if (tokenizer / name).exists():
            shutil.copy(tokenizer / name, target / name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("onnx", type=pathlib.Path)
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--max-length", type=int, required=True)
    arguments = parser.parse_args()
    convert(arguments.onnx, arguments.tokenizer, arguments.output, arguments.max_length)


if __name__ == "__main__":
    main()
