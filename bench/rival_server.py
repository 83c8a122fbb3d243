#!/usr/bin/env python3
"""A server as people write it in Python: FastAPI, one call of the model a request.

    rival_server.py onnxruntime MODEL PORT GRAPH
    rival_server.py sentence-transformers MODEL PORT

GRAPH is the fused ONNX graph that bench/compare_cpu.py makes of the same weights.
Needs fastapi and uvicorn; for the first httptools, uvloop, numpy, onnxruntime and tokenizers, for
the second sentence-transformers.
"""

import base64
import pathlib
import sys

import fastapi
import uvicorn

KIND, MODEL, PORT, *GRAPH = sys.argv[1:]


def onnxruntime_encoder(graph):
    import numpy
    import onnxruntime
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(pathlib.Path(MODEL) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def encode(texts):
        """The vectors and how many tokens they were made of."""
        rows, tokens = [], 0
        for text in texts:
            ids = numpy.array([tokenizer.encode(text).ids], dtype=numpy.int32)
            tokens += ids.size
            rows.append(session.run(None, {"ids": ids, "types": numpy.zeros_like(ids)})[0][0])
        return rows, tokens

    return encode


def sentence_transformers_encoder():
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(MODEL, device="cpu")
    return lambda texts: (model.encode(texts, show_progress_bar=False), 0)  # it does not count


encode = onnxruntime_encoder(*GRAPH) if KIND == "onnxruntime" else sentence_transformers_encoder()
app = fastapi.FastAPI()


@app.get("/health")
def health():
    return {}


@app.post("/v1/embeddings")
def embeddings(request: dict):
    texts = request["input"]
    rows, tokens = encode([texts] if isinstance(texts, str) else texts)
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
