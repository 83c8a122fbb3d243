#!/usr/bin/env python3
"""A server as people write it in Python: FastAPI, tokenizers, ONNX Runtime, one model call a request.

    rival_server.py MODEL GRAPH PORT

GRAPH is the fused ONNX graph that bench/compare_cpu.py makes of the same weights.
Needs fastapi, uvicorn, httptools, uvloop, numpy, onnxruntime, tokenizers.
"""

import base64
import pathlib
import sys

import fastapi
import numpy
import onnxruntime
import tokenizers
import uvicorn

MODEL, GRAPH, PORT = sys.argv[1:4]
tokenizer = tokenizers.Tokenizer.from_file(str(pathlib.Path(MODEL) / "tokenizer.json"))
tokenizer.no_padding()
tokenizer.enable_truncation(256)
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
session = onnxruntime.InferenceSession(GRAPH, options, providers=["CPUExecutionProvider"])
app = fastapi.FastAPI()


@app.get("/health")
def health():
    return {}


@app.post("/v1/embeddings")
def embeddings(request: dict):
    texts = request["input"]
    rows, tokens = [], 0
    for text in [texts] if isinstance(texts, str) else texts:
        ids = numpy.array([tokenizer.encode(text).ids], dtype=numpy.int32)
        tokens += ids.size
        rows.append(session.run(None, {"ids": ids, "types": numpy.zeros_like(ids)})[0][0])
    coded = request.get("encoding_format") == "base64"
    data = [
        {
            "object": "embedding",
            "index": i,
            "embedding": base64.b64encode(row.tobytes()).decode() if coded else row.tolist(),
        }
        for i, row in enumerate(rows)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": "m", "usage": usage}


uvicorn.run(app, host="127.0.0.1", port=int(PORT), log_level="warning", access_log=False)
