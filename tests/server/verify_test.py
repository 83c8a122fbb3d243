#!/usr/bin/env python3
"""sprat verify --url: against this server, and against servers that answer something else.

    verify_test.py PROGRAM MODEL TINY_MODEL [unittest arguments]
"""

import base64
import contextlib
import http.server
import json
import os
import struct
import subprocess
import tempfile
import threading
import unittest

from harness import Arguments, main
from running_server import RunningServer


@contextlib.contextmanager
def running(*options, model=None, **more):
    server = RunningServer(Arguments.program, model or Arguments.tiny, *options, **more)
    try:
        yield server
    finally:
        status = server.close()
        assert status == 0, status


@contextlib.contextmanager
def answering(answer):
    """A server whose /v1/embeddings answers with answer(request body): (status, body)."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.reply(404, {"error": "none"})

        def do_POST(self):
            length = int(self.headers["Content-Length"])
            self.reply(*answer(json.loads(self.rfile.read(length))))

        def reply(self, status, body):
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Verify(unittest.TestCase):
    def verify(self, url, *args, status=0, stdin=b"", environment=None):
        command = [Arguments.program, "verify", "--url", url, "-m", Arguments.tiny, *args]
        ended = subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False,
                               env={**os.environ, **(environment or {})})
        self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)
        return ended.stdout.decode(), ended.stderr.decode()

    def local(self, texts, *args):
        command = [Arguments.program, "embed", "-m", Arguments.tiny, "--input-format", "jsonl"]
        lines = "".join(json.dumps(text) + "\n" for text in texts).encode()
        out = subprocess.run([*command, *args], input=lines, capture_output=True, check=True).stdout
        return [json.loads(line)["embedding"] for line in out.splitlines()]

    def test_the_same_model_passes(self):
        with running() as server:
            url = f"http://127.0.0.1:{server.port}"
            for form in (url, url + "/", url + "/v1", url + "/v1/embeddings"):
                out, _ = self.verify(form)
                self.assertIn("PASS", out)
            result = json.loads(self.verify(url, "--json", "--served-model", "m")[0])
            self.assertTrue(result["pass"])
            self.assertEqual((result["texts"], result["max_difference"]), (19, 0))
            texts = "".join(f"text {i}\n" for i in range(150))  # three requests
            result = json.loads(self.verify(url, "--json", "-", stdin=texts.encode())[0])
            self.assertEqual((result["texts"], result["max_difference"]), (150, 0))
            out, _ = self.verify(url, "--dimensions", "8", "--prompt", "query: ")
            self.assertIn("PASS", out)
            _, errors = self.verify(url, "--served-model", "x", status=1)
            self.assertIn("HTTP 404: no such model is served; there are 'm'", errors)

    def test_another_model_does_not(self):
        with running(model=Arguments.model) as server:
            _, errors = self.verify(f"http://127.0.0.1:{server.port}", status=1)
            self.assertIn("vectors of 384 dimensions; this model makes 32", errors)

    def test_several_models_need_a_name(self):
        models = ("--model", f"a={Arguments.tiny}", "--model", f"b={Arguments.tiny}")
        with running(*models) as server:
            url = f"http://127.0.0.1:{server.port}"
            _, errors = self.verify(url, status=1)
            self.assertIn("--served-model: 'a', 'b'", errors)
            self.verify(url, "--served-model", "b")

    def test_keys_and_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key, keys = (os.path.join(folder, name) for name in ("cert", "key", "keys"))
            command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                       "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", cert,
                       "-days", "1", "-subj", "/CN=localhost", "-addext",
                       "subjectAltName=DNS:localhost"]
            subprocess.run(command, check=True, capture_output=True)
            with open(keys, "w", encoding="ascii") as file:
                file.write("# keys\n\n k-1 \n")
            tls = ("--tls-cert", cert, "--tls-key", key, "--api-keys", keys)
            with running(*tls, wait=False) as server:
                trusted = {"SSL_CERT_FILE": cert}
                url = f"https://localhost:{server.port}"
                while not [line for line in server.log if "serving 'm'" in line]:
                    self.assertIsNone(server.process.poll(), server.log)
                self.verify(url, "--api-key-file", keys, environment=trusted)
                _, errors = self.verify(url, status=1, environment=trusted)
                self.assertIn("HTTP 401", errors)
                _, errors = self.verify(url, "--api-key-file", keys, status=1)
                self.assertIn("certificate verify failed", errors)
                by_address = url.replace("localhost", "127.0.0.1")
                _, errors = self.verify(by_address, status=1, environment=trusted)
                self.assertIn("certificate verify failed", errors)  # it names localhost

    def test_other_vectors_fail(self):
        def answer(body, change):
            rows = [change(row) for row in self.local(body["input"])]
            return 200, {"data": [{"embedding": row} for row in rows]}

        with answering(lambda body: answer(body, lambda row: row)) as url:
            self.assertIn("PASS", self.verify(url)[0])  # numbers instead of base64
        with answering(lambda body: answer(body, lambda row: row[::-1])) as url:
            out, _ = self.verify(url, status=1)
            self.assertRegex(out, r"FAIL: the cosine of built-in text \d+ is")
        with answering(lambda body: answer(body, lambda row: [2 * x for x in row])) as url:
            self.assertIn("lengths do not: 0.5000 to 0.5000", self.verify(url, status=1)[0])

    def test_answers_that_are_none(self):
        good = base64.b64encode(struct.pack("<32f", *range(32))).decode()
        for status, body, message in (
            (500, {"error": {"message": "out of order"}}, "HTTP 500: out of order"),
            (429, {"error": "busy", "error_type": "overloaded"}, "HTTP 429: busy"),
            (502, b"<html>bad gateway", "HTTP 502: <html>bad gateway"),
            (200, b"nonsense", "not of OpenAI's form"),
            (200, {"data": []}, "0 vectors for 19 texts"),
            (200, {"data": [{"embedding": good}] * 18 + [{"x": 1}]}, "neither numbers nor base64"),
            (200, {"data": [{"embedding": "?"}] * 19}, "neither numbers nor base64"),
            (200, {"data": [{"embedding": good[:-3]}] * 19}, "neither numbers nor base64"),
            (200, {"data": [{"embedding": [1.0] * (31 + i % 2)} for i in range(19)]},
             "vectors of 31 and of 32 dimensions"),
        ):
            with answering(lambda _, answer=(status, body): answer) as url:
                _, errors = self.verify(url, status=1)
                self.assertIn(f"{url}: {message}" if status != 200 else message, errors)

    def test_wrong_usage(self):
        _, errors = self.verify("localhost:8080", status=1)
        self.assertIn("expected http:// or https://", errors)
        command = [Arguments.program, "verify", "v.npy", "--served-model", "m"]
        ended = subprocess.run(command, capture_output=True, check=False)
        self.assertEqual(ended.returncode, 2)
        self.assertIn(b"--url", ended.stderr)


if __name__ == "__main__":
    main()
