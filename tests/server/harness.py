"""What the tests of the server share: their arguments, and a server that several tests use."""

import base64
import struct
import sys
import unittest

from running_server import RunningServer

GOOD = {"model": "m", "input": "good morning"}


def decoded(text):
    data = base64.b64decode(text, validate=True)
    return list(struct.unpack(f"<{len(data) // 4}f", data))


class Arguments:
    program = ""
    model = ""  # a directory of all-MiniLM-L6-v2
    tiny = ""  # a tiny model, where only the server matters


def main():
    """PROGRAM MODEL TINY_MODEL [unittest arguments]"""
    Arguments.program, Arguments.model, Arguments.tiny = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)


class ServerTest(unittest.TestCase):
    """Tests that share one server. After each one it still answers as at the start."""

    options = ()
    model = "model"

    @classmethod
    def setUpClass(cls):
        cls.server = RunningServer(
            Arguments.program, getattr(Arguments, cls.model), *cls.options
        )
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
