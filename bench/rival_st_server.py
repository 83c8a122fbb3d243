#!/usr/bin/env python3
"""A server as people write it in Python: FastAPI and sentence-transformers.

    rival_st_server.py MODEL PORT

Needs fastapi, uvicorn, sentence-transformers.
"""

import base64
import sys

import fastapi
import uvicorn
from sentence_transformers import SentenceTransformer

MODEL, PORT = sys.argv[1:3]
model = SentenceTransformer(MODEL, device="cpu")
app = fastapi.FastAPI()


@app.post("/v1/embeddings")
def embeddings(request: dict):
    texts = request["input"]
    rows = model.encode([texts] if isinstance(texts, str) else texts, show_progress_bar=False)
    coded = request.get("encoding_format") == "base64"
    data = [
        {
            "object": "embedding",
            "index": i,
            "embedding": base64.b64encode(row.tobytes()).decode() if coded else row.tolist(),
        }
        for i, row in enumerate(rows)
    ]
    return {"object": "list", "data": data, "model": "m"}


uvicorn.run(app, host="127.0.0.1", port=int(PORT), log_level="warning", access_log=False)
