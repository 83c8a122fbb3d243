#!/usr/bin/env python3
"""The server over loopback: routes, errors, limits, hostile input, concurrency, shutdown.

    wire_test.py PROGRAM MODEL [unittest arguments]

MODEL is a directory of all-MiniLM-L6-v2: some tests know its token ids.
"""

import base64
import concurrent.futures
import contextlib
import json
import math
import os
import random
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from running_server import RunningServer, read_all

PROGRAM = MODEL = ""
GOOD = {"model": "m", "input": "good morning"}


def decoded(text):
    data = base64.b64decode(text, validate=True)
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def as_f32(values):
    return list(struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values)))


class ServerTest(unittest.TestCase):
    """Tests that share one server. After each one it still answers as at the start."""

    options = ()

    @classmethod
    def setUpClass(cls):
        cls.server = RunningServer(PROGRAM, MODEL, *cls.options)
        cls.good = cls.server.post("/v1/embeddings", GOOD).json()["data"][0]["embedding"]

    @classmethod
    def tearDownClass(cls):
        status = cls.server.close()
        assert status == 0, f"exit status {status}\n" + "\n".join(cls.server.log)

    def tearDown(self):
        self.assertEqual(self.server.request("GET", "/health").status, 200)
        answer = self.server.post("/v1/embeddings", GOOD)
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.json()["data"][0]["embedding"], self.good)

    def assert_openai_error(self, answer, status, param=None):
        self.assertEqual(answer.status, status, answer.body)
        self.assertEqual(answer.headers["Content-Type"], "application/json")
        error = answer.json()["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertIsInstance(error["message"], str)
        self.assertTrue(error["code"] is None or isinstance(error["code"], str))
        if param is not None:
            self.assertEqual((error["param"] or "").split("[")[0], param)
        return error

    def assert_tei_error(self, answer, status):
        self.assertEqual(answer.status, status, answer.body)
        self.assertEqual(answer.headers["Content-Type"], "application/json")
        self.assertEqual(set(answer.json()), {"error", "error_type"})


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

    def test_base64_is_the_answer_when_asked_for(self):  # B75
        for texts in ("good morning", ["good morning", "b"]):
            floats = self.embed({"input": texts, "encoding_format": "float"}).json()["data"]
            coded = self.embed({"input": texts, "encoding_format": "base64"}).json()["data"]
            for one, other in zip(floats, coded):
                self.assertIsInstance(other["embedding"], str)
                self.assertEqual(len(other["embedding"]), 2048)
                self.assertEqual(decoded(other["embedding"]), as_f32(one["embedding"]))

    def test_usage_counts_what_the_model_saw(self):  # B87
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

    def test_token_ids_are_taken_as_they_are(self):  # B77
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

    def test_dimensions_cut_then_normalise(self):  # B85
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

    def test_order_is_that_of_the_inputs(self):  # B93
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

    def test_empty_lists_are_400(self):  # B71
        for value in ([], [[]]):
            self.assert_openai_error(self.embed({"model": "m", "input": value}), 400, "input")

    def test_wrong_types_are_400(self):  # B73
        wrong = [None, 5, True, {}, {"text": "x"}, ["a", 5], ["a", None], ["a", ["b"]], [1.5]]
        for value in wrong:
            self.assert_openai_error(self.embed({"input": value}), 400, "input")
        self.assert_openai_error(self.embed({"model": "m"}), 400, "input")
        self.assert_openai_error(self.embed({"input": "a", "model": 5}), 400, "model")
        for body in ("", "[]", "nul", '{"input":"a"'):
            self.assert_openai_error(self.embed(body), 400)
        plain = self.embed(json.dumps(GOOD), headers={"Content-Type": "text/plain"})
        self.assert_openai_error(plain, 415)

    def test_models_are_named(self):  # B91
        for name in (None, "", "m"):
            self.assertEqual(self.embed({"input": "a", "model": name}).json()["model"], "m")
        for name in (MODEL, "text-embedding-3-small", "M"):
            error = self.assert_openai_error(self.embed({"input": "a", "model": name}), 404)
            self.assertEqual(error["code"], "model_not_found")
            self.assertIn("'m'", error["message"])
        listed = self.server.request("GET", "/v1/models").json()
        self.assertEqual([model["id"] for model in listed["data"]], ["m"])
        self.assertEqual(self.server.request("GET", "/v1/models/m").json()["id"], "m")
        self.assert_openai_error(self.server.request("GET", "/v1/models/x"), 404)

    def test_long_lists_are_split_inside_or_refused_with_the_limit(self):  # B79, B101
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

    def test_errors_have_their_form(self):  # B71, B73, B89
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

    def test_similarity_is_the_cosine(self):
        body = {"inputs": {"source_sentence": "good morning", "sentences": ["good morning", "tax"]}}
        same, other = self.server.post("/similarity", body).json()
        self.assertAlmostEqual(same, 1.0, delta=1e-6)
        self.assertLess(other, 0.9)

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

    def test_expect_and_chunked(self):  # B81
        texts = [f"word {i}" for i in range(20)]
        payload = json.dumps({"input": texts, "unknown": "x" * 1_500_000}).encode()
        plain = self.server.post("/v1/embeddings", payload).json()["data"]
        for header in ("Expect: 100-continue", "Transfer-Encoding: chunked"):
            command = ["curl", "-sS", "-H", header, "-H", "Content-Type: application/json"]
            command += ["--data-binary", "@-", f"http://127.0.0.1:{self.server.port}/v1/embeddings"]
            sent = subprocess.run(command, input=payload, capture_output=True, check=True)
            self.assertEqual(json.loads(sent.stdout)["data"], plain)

    def test_expect_does_not_cost_a_second(self):
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

    def test_a_body_in_single_bytes(self):
        body = json.dumps(GOOD).encode()
        head = (
            b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
        )
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in head + body:
                sock.send(bytes([byte]))
            self.assertTrue(read_all(sock).startswith(b"HTTP/1.1 200 OK"))

    def test_head_has_no_body(self):  # B89
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


class Hostile(ServerTest):
    options = ("--read-timeout-s", "1", "--max-connections", "50", "--idle-timeout-s", "5")

    def post_head(self, length, extra=b""):
        return (
            b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n%s\r\n" % (length, extra)
        )

    def test_invalid_utf8(self):  # B83
        for bad in (b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\xbd", b"\xf5\x80\x80\x80", b"\xe2\x82"):
            for body in (b'{"input":"a%sb"}', b'{"input":"a","model":"%s"}'):
                answer = self.server.post("/v1/embeddings", body % bad)
                self.assert_openai_error(answer, 400)
                answer.body.decode("utf-8")
            for request in (
                b"GET /%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                b"GET /v1/models/%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                b"GET /health HTTP/1.1\r\nHost: x\r\nX-Request-Id: %s\r\nConnection: close\r\n\r\n",
            ):
                received = self.server.raw(request % bad)
                self.assertTrue(received.startswith(b"HTTP/1.1 "), received)
                received.decode("utf-8")

    def test_deep_json(self):
        body = '{"input":' + "[" * 10000 + "]" * 10000 + "}"
        self.assert_openai_error(self.server.post("/v1/embeddings", body), 400)

    def test_nul_bytes_and_huge_numbers_and_duplicate_keys(self):
        self.assertEqual(self.server.post("/v1/embeddings", {"input": "a\0b"}).status, 200)
        for body in (
            '{"input":"a","dimensions":1e400}',
            '{"input":"a","dimensions":' + "9" * 400 + "}",
            '{"input":[' + "9" * 30 + "]}",
            '{"input":"a","input":"b"}',
            '{"input":"a","dimensions":2,"dimensions":3}',
        ):
            self.assert_openai_error(self.server.post("/v1/embeddings", body), 400)

    def test_large_bodies(self):
        before = self.server.resident_bytes()
        received = self.server.raw(self.post_head(100 << 20) + b'{"input":"' + b"a" * 100000)
        self.assertTrue(received.startswith(b"HTTP/1.1 413 "), received[:80])
        chunk = b"%x\r\n%s\r\n" % (1 << 16, b"a" * (1 << 16))
        head = self.post_head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as sock:
            try:
                sock.sendall(head)
                for _ in range(1600):  # 100 MB
                    sock.sendall(chunk)
            except OSError:
                pass  # it need not take them all
            self.assertIn(b"413", read_all(sock)[:20] or b"413")
        self.assertLess(self.server.resident_bytes() - before, 64 << 20)

    def test_many_long_texts_are_refused_by_size(self):
        body = json.dumps({"input": ["x" * 100000] * 2048}).encode()
        self.assertEqual(self.server.raw(self.post_head(len(body)) + body[:1 << 20])[:12],
                         b"HTTP/1.1 413")

    def test_header_floods(self):
        flood = b"".join(b"X-%d: %s\r\n" % (i, b"y" * 100) for i in range(1000))
        received = self.server.raw(b"GET /health HTTP/1.1\r\nHost: x\r\n" + flood + b"\r\n")
        self.assertTrue(received.startswith(b"HTTP/1.1 431 "), received[:80])
        received = self.server.raw(b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertTrue(received.startswith(b"HTTP/1.1 4"), received[:80])

    def test_nonsense(self):
        for data in (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),  # TLS to a plain port
            b"\0\0\0\0\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"POST /v1/embeddings HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            b"POST /v1/embeddings HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
            b"POST /v1/embeddings HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"POST /v1/embeddings HTTP/1.1\r\nContent-Length: 3\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ):
            received = self.server.raw(data)
            self.assertRegex(received[:12], rb"^HTTP/1.1 (4\d\d|505)", data)

    def test_slow_loris_gets_a_408(self):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as sock:
            begin = time.monotonic()
            sock.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\n")
            received = b""
            sock.settimeout(0.2)
            while time.monotonic() - begin < 8:
                try:
                    part = sock.recv(4096)
                    if not part:
                        break
                    received += part
                    if b"408" in received:
                        break
                except TimeoutError:
                    sock.sendall(b"X: y\r\n")
            self.assertTrue(received.startswith(b"HTTP/1.1 408 "), received[:80])

    def test_a_half_closed_socket_is_told(self):
        body = json.dumps(GOOD).encode()
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as sock:
            sock.sendall(self.post_head(len(body)) + body)
            sock.shutdown(socket.SHUT_WR)
            self.assertRegex(read_all(sock)[:12], rb"^HTTP/1.1 (200|499)")

    def test_a_connection_flood_at_the_limit(self):
        flood = [
            socket.create_connection(("127.0.0.1", self.server.port), timeout=10) for _ in range(60)
        ]
        try:
            time.sleep(0.2)
            flood[-1].sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertTrue(read_all(flood[-1]).startswith(b"HTTP/1.1 503 "))
            flood[0].sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            self.assertTrue(read_all(flood[0]).startswith(b"HTTP/1.1 200 "))
        finally:
            for sock in flood:
                sock.close()
        time.sleep(0.2)

    def test_random_mutations_of_a_request(self):
        rng = random.Random(20240607)
        body = json.dumps(GOOD).encode()
        good = self.post_head(len(body), b"Connection: close\r\n") + body
        for _ in range(300):
            data = bytearray(good)
            for _ in range(rng.randrange(1, 6)):
                at = rng.randrange(len(data))
                choice = rng.randrange(3)
                if choice == 0:
                    data[at] = rng.randrange(256)
                elif choice == 1:
                    del data[at : at + rng.randrange(1, 20)]
                else:
                    data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 8)))
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as sock:
                sock.sendall(bytes(data))
                sock.shutdown(socket.SHUT_WR)
                received = read_all(sock)
            self.assertTrue(received == b"" or received.startswith(b"HTTP/1.1 "), received[:80])


class Keys(unittest.TestCase):
    def test_forms_of_the_header(self):  # B95
        with tempfile.TemporaryDirectory() as folder:
            keys = os.path.join(folder, "keys")
            with open(keys, "w", encoding="ascii") as file:
                file.write("k-1\n")
            server = RunningServer(PROGRAM, MODEL, "--api-keys", keys, "--access-log")
            try:
                self.check_forms(server)
                with open(keys, "w", encoding="ascii") as file:
                    file.write("k-2\nk-3\n")
                server.process.send_signal(signal.SIGHUP)
                self.await_key(server, "k-2", 200)
                self.await_key(server, "k-1", 401)
                with open(keys, "w", encoding="ascii") as file:
                    file.write("\n")  # a mistake: the keys stay
                server.process.send_signal(signal.SIGHUP)
                time.sleep(0.2)
                self.await_key(server, "k-3", 200)
            finally:
                self.assertEqual(server.close(), 0)
            self.assertFalse([line for line in server.log + server.output if "k-1" in line])
            self.assertEqual(json.loads(server.output[-1])["path"], "/v1/embeddings")

    def check_forms(self, server):
        for header, status in (
            ({"Authorization": "Bearer k-1"}, 200),
            ({"authorization": "bearer k-1"}, 200),
            ({"Authorization": "BEARER  k-1"}, 200),
            ({"Authorization": "Bearer K-1"}, 401),
            ({"Authorization": "Bearer k-1x"}, 401),
            ({"Authorization": "Bearer "}, 401),
            ({"Authorization": "k-1"}, 401),
            ({}, 401),
        ):
            answer = server.post("/v1/embeddings", GOOD, headers=header)
            self.assertEqual(answer.status, status, header)
            if status == 401:
                self.assertIn("error", answer.json())
        for path in ("/health", "/ready", "/metrics"):
            self.assertEqual(server.request("GET", path).status, 200)
        self.assertEqual(server.request("GET", "/info").status, 401)

    def await_key(self, server, key, status):
        for _ in range(100):
            header = {"Authorization": f"Bearer {key}"}
            answer = server.post("/v1/embeddings", GOOD, headers=header)
            if answer.status == status:
                return
            time.sleep(0.02)
        self.assertEqual(answer.status, status)

    def test_an_empty_key_file_is_refused(self):
        with tempfile.NamedTemporaryFile("w") as keys:
            command = [PROGRAM, "serve", "--model", MODEL, "--port", "0", "--api-keys", keys.name]
            ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
            self.assertEqual(ended.returncode, 1)
            self.assertIn(b"no key", ended.stderr)


class Life(unittest.TestCase):
    def test_health_tells_when_models_are_ready(self):  # B97
        server = RunningServer(PROGRAM, MODEL, wait=False)
        try:
            seen = []
            for _ in range(2000):
                health = server.request("GET", "/health").status
                answer = server.post("/v1/embeddings", GOOD).status
                seen.append((health, answer))
                if health == 200:
                    self.assertEqual(answer, 200)
                    break
                self.assertEqual(health, 503)
                self.assertIn(answer, (200, 503))
            self.assertEqual(seen[-1], (200, 200))
        finally:
            self.assertEqual(server.close(), 0)

    def test_a_model_that_fails_to_load_ends_the_process(self):  # B97
        with tempfile.TemporaryDirectory() as empty:
            command = [PROGRAM, "serve", "--model", empty, "--port", "0"]
            ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
            self.assertEqual(ended.returncode, 1)

    def test_a_port_in_use_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            command = [PROGRAM, "serve", "--model", MODEL, "--port", port]
            ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
            self.assertEqual(ended.returncode, 1)
            self.assertIn(port.encode(), ended.stderr)
            self.assertIn(b"Address already in use", ended.stderr)

    def test_terminate_under_load_answers_what_was_accepted(self):
        server = RunningServer(PROGRAM, MODEL)
        results = []
        stop = threading.Event()

        def client():
            while not stop.is_set():
                connection = server.connection(timeout=30)
                try:
                    connection.connect()
                except OSError:
                    return  # no longer listening
                try:
                    results.append(server.post("/v1/embeddings", GOOD, connection=connection).status)
                except OSError as error:
                    results.append(repr(error))
                finally:
                    connection.close()

        threads = [threading.Thread(target=client) for _ in range(16)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        server.terminate()
        status = server.process.wait(timeout=60)
        stop.set()
        for thread in threads:
            thread.join()
        server.close()
        self.assertEqual(status, 0, server.log)
        # Connections that the kernel had taken but the server had not may be reset.
        answered = [result for result in results if isinstance(result, int)]
        self.assertGreater(answered.count(200), 50)
        self.assertLessEqual(set(answered), {200, 503})
        self.assertLessEqual(len(results) - len(answered), 16)

    def test_unix_socket_and_tcp_together(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s")
            server = RunningServer(PROGRAM, MODEL, "--uds", path)
            try:
                with socket.socket(socket.AF_UNIX) as sock:
                    sock.connect(path)
                    sock.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    self.assertTrue(read_all(sock).startswith(b"HTTP/1.1 200 "))
                self.assertEqual(server.request("GET", "/health").status, 200)
            finally:
                self.assertEqual(server.close(), 0)
            self.assertFalse(os.path.exists(path))

    def test_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
            command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"]
            command += ["ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", cert]
            command += ["-days", "1", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost"]
            subprocess.run(command, check=True, capture_output=True)
            server = RunningServer(PROGRAM, MODEL, "--tls-cert", cert, "--tls-key", key, wait=False)
            try:
                context = ssl.create_default_context(cafile=cert)
                address = ("127.0.0.1", server.port)
                body = json.dumps(GOOD).encode()
                request = (
                    b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n"
                    b"Content-Type: application/json\r\nConnection: close\r\n\r\n%s"
                    % (len(body), body)
                )
                for _ in range(500):
                    with socket.create_connection(address, timeout=20) as raw:
                        with context.wrap_socket(raw, server_hostname="localhost") as sock:
                            sock.sendall(request)
                            received = read_all(sock)
                    if not received.startswith(b"HTTP/1.1 503"):
                        break
                    time.sleep(0.02)
                self.assertTrue(received.startswith(b"HTTP/1.1 200 "), received[:80])
            finally:
                self.assertEqual(server.close(), 0)

    def test_two_models(self):  # B91
        server = RunningServer(PROGRAM, MODEL, "--model", f"one={MODEL}", "--model", f"two={MODEL}")
        try:
            for name in ("one", "two"):
                answer = server.post("/v1/embeddings", {"input": "a", "model": name})
                self.assertEqual(answer.json()["model"], name)
            self.assertEqual(server.post("/v1/embeddings", {"input": "a"}).status, 400)
            typo = server.post("/v1/embeddings", {"input": "a", "model": "tow"})
            self.assertEqual(typo.status, 404)
            self.assertIn("'one', 'two'", typo.json()["error"]["message"])
        finally:
            self.assertEqual(server.close(), 0)


class Concurrency(unittest.TestCase):
    def test_many_clients_get_their_own_vectors(self):
        server = RunningServer(PROGRAM, MODEL)
        try:
            texts = [f"text number {i}" for i in range(32)]
            rows = server.post("/v1/embeddings", {"input": texts}).json()["data"]
            expected = [row["embedding"] for row in rows]

            def client(seed):
                rng = random.Random(seed)
                with contextlib.closing(server.connection()) as connection:
                    for _ in range(20):
                        i = rng.randrange(len(texts))
                        answer = server.post("/embed", {"inputs": texts[i]}, connection=connection)
                        if answer.json() != [expected[i]]:
                            return f"text {i} got another vector"
                return None

            with concurrent.futures.ThreadPoolExecutor(32) as pool:
                self.assertEqual([r for r in pool.map(client, range(32)) if r], [])
            # Some of them must have shared a batch.
            batches = server.metric("sprat_batch_size_count")
            self.assertLess(batches, 32 * 20)
        finally:
            self.assertEqual(server.close(), 0)

    def test_overload_is_an_expected_state(self):  # B99
        server = RunningServer(PROGRAM, MODEL, "--queue-requests", 16, "--max-batch", 8)
        try:

            def client(seed):
                rng = random.Random(seed)
                texts = ["word " * rng.randrange(1, 15)] * rng.randrange(1, 200)
                answer = server.post("/v1/embeddings", {"input": texts, "dimensions": 1})
                if answer.status == 429:
                    return (429, answer.json()["error"]["code"], answer.headers["Retry-After"])
                return (answer.status, len(answer.json()["data"]) == len(texts))

            with concurrent.futures.ThreadPoolExecutor(64) as pool:
                results = list(pool.map(client, range(128)))
            self.assertEqual(len(results), 128)
            self.assertLessEqual(set(results), {(200, True), (429, "overloaded", "1")})
            self.assertIn((429, "overloaded", "1"), results)
            self.assertEqual(server.post("/v1/embeddings", GOOD).status, 200)
            self.assertGreater(server.metric("sprat_rejected_total"), 0)
        finally:
            self.assertEqual(server.close(), 0)

    def test_a_list_longer_than_the_limit_does_not_hang(self):  # B101
        server = RunningServer(PROGRAM, MODEL, "--max-batch", 2, "--max-tokens", 8)
        try:
            self.assertEqual(len(server.post("/embed", {"inputs": ["a"] * 3}).json()), 3)
            self.assertEqual(len(server.post("/embed", {"inputs": "a"}).json()), 1)
            with concurrent.futures.ThreadPoolExecutor(5) as pool:
                lists = pool.map(lambda _: server.post("/embed", {"inputs": ["a"] * 7}), range(5))
                self.assertEqual([len(answer.json()) for answer in lists], [7] * 5)
            self.assertEqual(server.post("/embed", {"inputs": "a"}).status, 200)
        finally:
            self.assertEqual(server.close(), 0)

    def test_clients_that_leave_are_dropped(self):  # B103
        server = RunningServer(PROGRAM, MODEL)
        try:
            body = json.dumps({"input": ["long text " * 40] * 32}).encode()
            head = (
                b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body)
            )
            begin = time.monotonic()
            server.post("/v1/embeddings", body)
            alone = time.monotonic() - begin
            sockets = []
            for _ in range(200):
                sock = socket.create_connection(("127.0.0.1", server.port), timeout=10)
                sock.sendall(head + body)
                sockets.append(sock)
            time.sleep(0.05)
            for sock in sockets:
                sock.close()
            begin = time.monotonic()
            self.assertEqual(server.post("/v1/embeddings", {"input": "good"}).status, 200)
            took = time.monotonic() - begin
            self.assertLess(took, 20 * alone + 2)
            self.assertGreater(server.metric("sprat_cancelled_total"), 50)
        finally:
            self.assertEqual(server.close(), 0)


if __name__ == "__main__":
    PROGRAM, MODEL = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
