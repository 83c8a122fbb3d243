#!/usr/bin/env python3
"""The routes over loopback: answers, errors, HTTP itself.

    wire_test.py PROGRAM MODEL TINY_MODEL [unittest arguments]
"""

import json
import math
import random
import socket
import struct
import subprocess

from harness import GOOD, Arguments, ServerTest, decoded, main
from running_server import read_all


def as_f32(values):
    return list(struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values)))


class OpenAi(ServerTest):
    def embed(self, body, **more):
        return self.server.post("/v1/embeddings", body, **more)

    def test_the_answer_has_the_documented_form(self):
        answer = self.embed({"model": "m", "input": ["good", "morning"]})
        self.assertEqual(answer.status, 200)
        body = answer.json()
        self.assertEqual(set(body), {"object", "data", "model", "usage"})
        self.assertEqual((body["object"], body["model"]), ("list", "m"))
        self.assertEqual([row["index"] for row in body["data"]], [0, 1])
        self.assertEqual({row["object"] for row in body["data"]}, {"embedding"})
        for name in ("total", "queue", "tokenization", "inference"):
            self.assertGreaterEqual(float(answer.headers[f"x-{name}-time"]), 0.0)

    def test_b75_base64_is_the_answer_when_asked_for(self):
        for texts in ("good morning", ["good morning", "b"]):
            floats = self.embed({"input": texts, "encoding_format": "float"}).json()["data"]
            coded = self.embed({"input": texts, "encoding_format": "base64"}).json()["data"]
            for one, other in zip(floats, coded):
                self.assertIsInstance(other["embedding"], str)
                self.assertEqual(len(other["embedding"]), 2048)
                self.assertEqual(decoded(other["embedding"]), as_f32(one["embedding"]))

    def test_b87_usage_counts_what_the_model_saw(self):
        for texts, tokens in (
            ("good morning", 4),
            (["good", "morning"], 6),
            (" ".join(["word"] * 600), 256),
            ("", 2),
        ):
            usage = self.embed({"input": texts}).json()["usage"]
            self.assertEqual(usage, {"prompt_tokens": tokens, "total_tokens": tokens})

    def test_a_cut_text_is_counted_in_a_header_or_refused(self):
        long = " ".join(["word"] * 600)
        self.assertEqual(self.embed({"input": ["a", long, long]}).headers["x-truncated"], "2")
        answer = self.embed({"input": long, "truncate": False})
        error = self.assert_openai_error(answer, 413)
        self.assertIn("256", error["message"])
        self.assertIn("602", error["message"])

    def test_b77_token_ids_are_taken_as_they_are(self):
        one = self.embed({"input": [101, 2204, 2851, 102]}).json()
        self.assertEqual(len(one["data"]), 1)
        self.assertEqual(one["data"][0]["embedding"], self.good)
        self.assertEqual(one["usage"]["prompt_tokens"], 4)
        two = self.embed({"input": [[2204, 2851], [2204]]}).json()
        self.assertEqual([row["index"] for row in two["data"]], [0, 1])
        self.assertEqual(two["usage"]["prompt_tokens"], 3)

    def test_ids_of_another_tokenizer_name_the_trap(self):
        error = self.assert_openai_error(self.embed({"input": [[15339, 100257]]}), 400, "input")
        self.assertIn("check_embedding_ctx_length=False", error["message"])

    def test_b85_dimensions_cut_then_normalise(self):
        for encoding in ("float", "base64"):
            body = {"input": "good morning", "dimensions": 128, "encoding_format": encoding}
            row = self.embed(body).json()["data"][0]["embedding"]
            cut = row if encoding == "float" else decoded(row)
            self.assertEqual(len(cut), 128)
            norm = math.sqrt(sum(x * x for x in self.good[:128]))
            for got, full in zip(cut, self.good):
                self.assertAlmostEqual(got, full / norm, delta=1e-6)
        self.assert_openai_error(self.embed({"input": "a", "dimensions": 385}), 400)
        self.assert_openai_error(self.embed({"input": "a", "dimensions": 0}), 400, "dimensions")

    def test_b93_order_is_that_of_the_inputs(self):
        rng = random.Random(93)
        texts = [" ".join(["word"] * rng.randrange(1, 60) + [str(i)]) for i in range(48)]
        texts += rng.sample(texts, 16)
        rng.shuffle(texts)
        rows = self.embed({"input": texts}).json()["data"]
        self.assertEqual([row["index"] for row in rows], list(range(64)))
        alone = {
            text: self.embed({"input": text}).json()["data"][0]["embedding"] for text in set(texts)
        }
        for text, row in zip(texts, rows):
            self.assertEqual(row["embedding"], alone[text])

    def test_b71_empty_lists_are_400(self):
        for value in ([], [[]]):
            self.assert_openai_error(self.embed({"model": "m", "input": value}), 400, "input")

    def test_b73_wrong_types_are_400(self):
        wrong = [None, 5, True, {}, {"text": "x"}, ["a", 5], ["a", None], ["a", ["b"]], [1.5]]
        for value in wrong:
            self.assert_openai_error(self.embed({"input": value}), 400, "input")
        self.assert_openai_error(self.embed({"model": "m"}), 400, "input")
        self.assert_openai_error(self.embed({"input": "a", "model": 5}), 400, "model")
        for body in ("", "[]", "nul", '{"input":"a"'):
            self.assert_openai_error(self.embed(body), 400)
        plain = self.embed(json.dumps(GOOD), headers={"Content-Type": "text/plain"})
        self.assert_openai_error(plain, 415)

    def test_b91_models_are_named(self):
        for name in (None, "", "m"):
            self.assertEqual(self.embed({"input": "a", "model": name}).json()["model"], "m")
        for name in (Arguments.model, "text-embedding-3-small", "M"):
            error = self.assert_openai_error(self.embed({"input": "a", "model": name}), 404)
            self.assertEqual(error["code"], "model_not_found")
            self.assertIn("'m'", error["message"])
        listed = self.server.request("GET", "/v1/models").json()
        self.assertEqual([model["id"] for model in listed["data"]], ["m"])
        self.assertEqual(self.server.request("GET", "/v1/models/m").json()["id"], "m")
        self.assert_openai_error(self.server.request("GET", "/v1/models/x"), 404)

    def test_b79_long_lists_are_split_inside_or_refused_with_the_limit(self):
        for n in (33, 129, 2048):
            rows = self.embed({"input": ["a"] * n, "dimensions": 2}).json()["data"]
            self.assertEqual(len(rows), n)
        error = self.assert_openai_error(self.embed({"input": ["a"] * 20000}), 400, "input")
        self.assertIn("2048", error["message"])
        info = self.server.request("GET", "/info").json()
        self.assertEqual(info["max_client_batch_size"], 2048)


class Tei(ServerTest):
    def test_embed_gives_rows(self):
        rows = self.server.post("/embed", {"inputs": ["good morning", "b"]}).json()
        self.assertEqual(len(rows), 2)
        self.assertEqual(rows[0], self.good)
        one = self.server.post("/embed", {"inputs": "good morning"}).json()
        self.assertEqual(one, [self.good])

    def test_b71_b73_b89_errors_have_their_form(self):
        for body, status in (
            ({"inputs": []}, 422),
            ({"inputs": 5}, 422),
            ({"inputs": ["a", None]}, 422),
            ({}, 422),
            ("nul", 400),
            ({"inputs": "a", "truncate": False, "dimensions": 0}, 400),
            ({"inputs": " ".join(["word"] * 600), "truncate": False}, 413),
        ):
            self.assert_tei_error(self.server.post("/embed", body), status)
        self.assert_tei_error(self.server.request("GET", "/embed"), 405)
        self.assert_tei_error(self.server.request("GET", "/nothing"), 404)

    def test_a_client_that_knows_only_the_address_embeds(self):
        body = {"inputs": "good morning"}
        self.assertEqual(self.server.post("/", body).json(), self.server.post("/embed", body).json())

    def test_similarity_is_the_cosine(self):
        body = {"inputs": {"source_sentence": "good morning", "sentences": ["good morning", "tax"]}}
        same, other = self.server.post("/similarity", body).json()
        self.assertAlmostEqual(same, 1.0, delta=1e-6)
        self.assertLess(other, 0.9)

    def test_embed_all_gives_what_is_pooled(self):
        texts = ["good morning", "the invoice is due on Friday", ""]
        answer = self.server.post("/embed_all", {"inputs": texts})
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["x-truncated"], "0")
        self.assertGreater(float(answer.headers["x-inference-time"]), 0)
        expected = self.server.post("/embed", {"inputs": texts, "normalize": False}).json()
        for text, rows, mean in zip(texts, answer.json(), expected):
            (tokens,) = self.server.post("/tokenize", {"inputs": text}).json()
            self.assertEqual(len(rows), len(tokens))
            for column, value in zip(zip(*rows), mean):
                self.assertAlmostEqual(sum(column) / len(rows), value, delta=1e-5)
        many = [f"word {i % 60}" for i in range(400)]  # several turns
        alone = {text: self.server.post("/embed_all", {"inputs": text}).json()[0] for text in set(many)}
        rows = self.server.post("/embed_all", {"inputs": many}).json()
        self.assertEqual(rows, [alone[text] for text in many])
        ids = [101, 2204, 2851, 102]
        self.assertEqual(
            self.server.post("/embed_all", {"inputs": [ids, ids[:2]]}).json()[0], answer.json()[0]
        )

    def test_embed_all_is_bounded(self):
        long = " ".join(["word"] * 600)
        answer = self.server.post("/embed_all", {"inputs": [long, "a"]})
        self.assertEqual([len(rows) for rows in answer.json()], [256, 3])
        self.assertEqual(answer.headers["x-truncated"], "1")
        for body, status, words in (
            ({"inputs": long, "truncate": False}, 413, "256"),
            ({"inputs": [long] * 100}, 413, "expected at most 16384"),
            ({"inputs": [[1, 30522]]}, 400, "30522"),
            ({"inputs": [[1] * 257]}, 400, "257 token ids, expected 1 to 256"),
            ({"inputs": []}, 422, "inputs"),
            ({"inputs": [5.5]}, 422, "inputs"),
            ({}, 422, "inputs"),
        ):
            answer = self.server.post("/embed_all", body)
            self.assert_tei_error(answer, status)
            self.assertIn(words, answer.json()["error"])

    def test_decode_gives_texts(self):
        text = "good morning, how are unhappy?"

        def decode(body):
            return self.server.post("/decode", body).json()

        (tokens,) = self.server.post("/tokenize", {"inputs": text}).json()
        ids = [token["id"] for token in tokens]
        self.assertEqual(decode({"ids": ids}), [text])
        self.assertEqual(decode({"ids": [ids, [2204], [30522, 2851]]}), [text, "good", "morning"])
        kept = decode({"ids": ids[:2] + [102], "skip_special_tokens": False})
        self.assertEqual(kept, ["[CLS] good [SEP]"])
        self.assertEqual(decode({"ids": [101, 102]}), [""])
        for body in ({}, {"ids": []}, {"ids": [[]]}, {"ids": "a"}, {"ids": [1, "a"]},
                     {"ids": [1.5]}, {"ids": [-1]}, {"ids": ["a"]}, {"ids": [[1], 2]},
                     {"ids": [1], "skip_special_tokens": 1}):
            self.assert_tei_error(self.server.post("/decode", body), 422)

    def test_tokenize_gives_ids(self):
        (tokens,) = self.server.post("/tokenize", {"inputs": "good morning"}).json()
        self.assertEqual([token["id"] for token in tokens], [101, 2204, 2851, 102])
        self.assertEqual([token["special"] for token in tokens], [True, False, False, True])
        body = {"inputs": ["good", "morning"], "add_special_tokens": False}
        rows = self.server.post("/tokenize", body).json()
        self.assertEqual([[t["id"] for t in row] for row in rows], [[2204], [2851]])


class Http(ServerTest):
    options = ("--read-timeout-s", "1", "--cors-origin", "https://app.example")

    def test_keep_alive_and_pipelining(self):
        connection = self.server.connection()
        for _ in range(3):
            answer = self.server.post("/v1/embeddings", GOOD, connection=connection)
            self.assertEqual(answer.status, 200)
        connection.close()
        body = json.dumps(GOOD).encode()
        one = (
            b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n%s\r\n%s"
        )
        last = one % (len(body), b"Connection: close\r\n", body)
        received = self.server.raw((one % (len(body), b"", body)) * 3 + last)
        self.assertEqual(received.count(b"HTTP/1.1 200 OK"), 4)

    def test_b81_expect_and_chunked(self):
        texts = [f"word {i}" for i in range(20)]
        payload = json.dumps({"input": texts, "unknown": "x" * 1_500_000}).encode()
        plain = self.server.post("/v1/embeddings", payload).json()["data"]
        for header in ("Expect: 100-continue", "Transfer-Encoding: chunked"):
            command = ["curl", "-sS", "-H", header, "-H", "Content-Type: application/json"]
            command += ["--data-binary", "@-", f"http://127.0.0.1:{self.server.port}/v1/embeddings"]
            sent = subprocess.run(command, input=payload, capture_output=True, check=True)
            self.assertEqual(json.loads(sent.stdout)["data"], plain)

    def test_b81_expect_does_not_cost_a_second(self):
        body = json.dumps(GOOD).encode()
        head = (
            b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n" % len(body)
        )
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as sock:
            sock.sendall(head)
            self.assertTrue(sock.recv(100).startswith(b"HTTP/1.1 100 Continue\r\n\r\n"))
            sock.sendall(body)
            self.assertTrue(read_all(sock).startswith(b"HTTP/1.1 200 OK"))

    def test_b81_a_body_in_single_bytes(self):
        body = json.dumps({**GOOD, "unknown": "x" * 20_000}).encode()
        head = (
            b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
        )
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in head + body:
                sock.send(bytes([byte]))
            self.assertTrue(read_all(sock).startswith(b"HTTP/1.1 200 OK"))

    def test_b89_head_has_no_body(self):
        for path in ("/health", "/info", "/nothing", "/v1/models/x"):
            answer = self.server.request("HEAD", path)
            self.assertEqual(answer.body, b"")
            self.assertGreater(int(answer.headers["Content-Length"]), 0)

    def test_wrong_methods_and_routes(self):
        answer = self.server.request("GET", "/v1/embeddings")
        self.assert_openai_error(answer, 405)
        self.assertEqual(answer.headers["Allow"], "POST")
        self.assert_openai_error(self.server.request("DELETE", "/v1/models"), 405)
        self.assert_openai_error(self.server.request("GET", "/v1/nothing"), 404)

    def test_request_ids_are_echoed_or_made(self):
        own = self.server.post("/v1/embeddings", GOOD, headers={"x-request-id": "abc-1"})
        self.assertEqual(own.headers["x-request-id"], "abc-1")
        made = self.server.post("/v1/embeddings", GOOD, headers={"x-request-id": "a b"})
        self.assertRegex(made.headers["x-request-id"], "^[0-9a-f]{16}$")

    def test_cors_lets_a_browser_send_its_key(self):
        preflight = self.server.request("OPTIONS", "/v1/embeddings")
        self.assertEqual(preflight.status, 204)
        self.assertEqual(preflight.headers["Access-Control-Allow-Origin"], "https://app.example")
        self.assertIn("Authorization", preflight.headers["Access-Control-Allow-Headers"])

    def test_documents_and_metrics(self):
        description = self.server.request("GET", "/openapi.json").json()
        self.assertIn("/v1/embeddings", description["paths"])
        page = self.server.request("GET", "/")
        self.assertTrue(page.body.startswith(b"<!doctype html>"))
        metrics = self.server.request("GET", "/metrics").body.decode()
        self.assertIn('sprat_requests_total{route="/v1/embeddings",status="200"}', metrics)
        self.assertGreater(self.server.metric("process_resident_memory_bytes"), 1e6)
        self.assertGreater(self.server.metric("sprat_tokens_total"), 0)


if __name__ == "__main__":
    main()
