#!/usr/bin/env python3
"""Real clients against the real server with the real model.

    clients_test.py PROGRAM MODEL [unittest arguments]

Needs the packages of tests/requirements.txt; MODEL is a directory of all-MiniLM-L6-v2.
"""

import json
import os
import subprocess
import sys
import unittest

import numpy as np

from running_server import RunningServer

PROGRAM = MODEL = ""
TEXTS = ["good morning", "the invoice is due on Friday", ""]


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = RunningServer(PROGRAM, MODEL)
        cls.url = f"http://127.0.0.1:{cls.server.port}"
        answer = cls.server.post("/v1/embeddings", {"input": TEXTS}).json()
        cls.expected = np.array([row["embedding"] for row in answer["data"]], dtype=np.float32)
        # Clients that look for a proxy or count usage at home find nothing.
        os.environ.update(NO_PROXY="*", LITELLM_LOCAL_MODEL_COST_MAP="True", HF_HUB_OFFLINE="0")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.close() == 0

    def assert_rows(self, rows, expected=None):
        expected = self.expected if expected is None else expected
        np.testing.assert_allclose(np.array(rows, dtype=np.float32), expected, rtol=0, atol=1e-7)

    def openai(self):
        import openai

        return openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0)

    def test_openai(self):
        client = self.openai()
        for encoding in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}):
            answer = client.embeddings.create(model="m", input=TEXTS, **encoding)
            rows = [
                np.frombuffer(__import__("base64").b64decode(row.embedding), dtype="<f4")
                if isinstance(row.embedding, str)
                else row.embedding
                for row in answer.data
            ]
            self.assert_rows(rows)
            self.assertEqual(answer.usage.prompt_tokens, answer.usage.total_tokens)
        one = client.embeddings.create(model="m", input="good morning")
        self.assert_rows([one.data[0].embedding], self.expected[:1])
        ids = client.embeddings.create(model="m", input=[101, 2204, 2851, 102])
        self.assert_rows([ids.data[0].embedding], self.expected[:1])
        cut = client.embeddings.create(model="m", input=TEXTS[0], dimensions=64)
        self.assertEqual(len(cut.data[0].embedding), 64)
        self.assertEqual([model.id for model in client.models.list()], ["m"])

    def test_openai_errors(self):
        import openai

        client = self.openai()
        with self.assertRaises(openai.NotFoundError) as unknown:
            client.embeddings.create(model="text-embedding-3-small", input="a")
        self.assertEqual(unknown.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError):
            client.embeddings.create(model="m", input=[])

    def test_langchain_openai(self):
        import openai
        from langchain_openai import OpenAIEmbeddings

        common = {"model": "m", "base_url": self.url + "/v1", "api_key": "none", "max_retries": 0}
        plain = OpenAIEmbeddings(check_embedding_ctx_length=False, **common)
        self.assert_rows(plain.embed_documents(TEXTS[:2]), self.expected[:2])
        self.assert_rows([plain.embed_query(TEXTS[0])], self.expected[:1])
        # With the switch at its default the client sends ids of another tokenizer. Where they are
        # beyond this vocabulary the server can tell, and names the switch.
        import tiktoken

        try:
            tiktoken.get_encoding("cl100k_base")
        except Exception:  # noqa: BLE001: it downloads its vocabulary
            return
        checked = OpenAIEmbeddings(tiktoken_model_name="text-embedding-3-small", **common)
        with self.assertRaises(openai.BadRequestError) as refused:
            checked.embed_documents(["Straßenbahnhaltestelle"])
        self.assertIn("check_embedding_ctx_length=False", str(refused.exception))

    def test_litellm(self):
        import litellm

        answer = litellm.embedding(
            model="openai/m", input=TEXTS[:2], api_base=self.url + "/v1", api_key="none"
        )
        self.assert_rows([row["embedding"] for row in answer.data], self.expected[:2])

    def test_huggingface_hub(self):
        from huggingface_hub import InferenceClient

        client = InferenceClient(base_url=self.url + "/embed")
        self.assert_rows(client.feature_extraction(TEXTS[0]), self.expected[:1])

    def test_curl(self):
        body = json.dumps({"input": TEXTS, "pad": "x" * 1_500_000}).encode()
        for header in ("Expect: 100-continue", "Transfer-Encoding: chunked"):
            # Without the server's 100 Continue, curl waits out its patience before it sends the body.
            command = ["curl", "-sS", "--expect100-timeout", "60", "-w", "%{time_total}"]
            command += ["-o", "/dev/stderr", "-H", header]
            command += ["-H", "Content-Type: application/json", "--data-binary", "@-"]
            sent = subprocess.run(
                [*command, self.url + "/v1/embeddings"], input=body, capture_output=True, check=True
            )
            self.assert_rows([row["embedding"] for row in json.loads(sent.stderr)["data"]])
            self.assertLess(float(sent.stdout), 30)

    def test_prometheus_client(self):
        from prometheus_client.parser import text_string_to_metric_families

        text = self.server.request("GET", "/metrics").body.decode()
        families = {family.name: family for family in text_string_to_metric_families(text)}
        for name, kind in (
            ("sprat_requests", "counter"),
            ("sprat_request_duration_seconds", "histogram"),
            ("sprat_batch_size", "histogram"),
            ("sprat_queue_depth", "gauge"),
            ("process_resident_memory_bytes", "gauge"),
        ):
            self.assertEqual(families[name].type, kind)
        for family in families.values():
            if family.type != "histogram":
                continue
            counts = [s.value for s in family.samples if s.name.endswith("_bucket")]
            self.assertEqual(counts, sorted(counts))
            total = [s.value for s in family.samples if s.name.endswith("_count")]
            self.assertEqual(counts[-1], total[0])

    def test_schemathesis(self):
        program = os.path.join(os.path.dirname(sys.executable), "schemathesis")
        command = [program, "run", self.url + "/openapi.json", "--max-examples", "25"]
        command += ["--seed", "5", "--checks"]
        command += ["not_a_server_error,status_code_conformance,content_type_conformance,"
                    "response_schema_conformance"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
        self.assertEqual(ended.returncode, 0, ended.stdout[-6000:] + ended.stderr[-2000:])


if __name__ == "__main__":
    PROGRAM, MODEL = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
