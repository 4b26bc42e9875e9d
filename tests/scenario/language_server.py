"""A client of the YAML language server, by which editors complete and check scenarios."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

COMMAND = "yaml-language-server"

SETTINGS = {
    "yaml": {"validate": True, "hover": True, "completion": True, "schemaStore": {"enable": False}}
}


class LanguageServer:
    """A running server, and what it says of the documents that it has been given.

    Args:
        process: the server, with pipes.
    """

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._to, self._from, self._number = process.stdin, process.stdout, 0
        self._diagnostics = dict[str, list[str]]()
        can = {"textDocument": {"hover": {"contentFormat": ["markdown"]}}}
        self._ask("initialize", processId=None, rootUri=None, capabilities=can)
        self._note("initialized")
        self._note("workspace/didChangeConfiguration", settings=SETTINGS)

    def open(self, file: Path, text: str) -> list[str]:
        """Give the server a document; return what it finds wrong, each with its line from 1."""
        item = {"uri": file.as_uri(), "languageId": "yaml", "version": 1, "text": text}
        self._note("textDocument/didOpen", textDocument=item)
        while file.as_uri() not in self._diagnostics:
            self._handle(self._read())
        return self._diagnostics.pop(file.as_uri())

    def complete(self, file: Path, line: int, column: int) -> dict[str, str]:
        """Return what can stand at a place of an open document, each with its description."""
        place = {"line": line, "character": column}
        reply = self._ask(
            "textDocument/completion", textDocument={"uri": file.as_uri()}, position=place
        )
        items = reply if isinstance(reply, list) else reply["items"]
        return {item["label"]: _text(item.get("documentation")) for item in items}

    def hover(self, file: Path, line: int, column: int) -> str:
        """Return what an editor shows of a place of an open document."""
        place = {"line": line, "character": column}
        reply = self._ask("textDocument/hover", textDocument={"uri": file.as_uri()}, position=place)
        return _text(reply["contents"])

    def _ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while True:
            message = self._read()
            if message.get("id") == self._number and "method" not in message:
                return message["result"]
            self._handle(message)

    def _note(self, method: str, **params: Any) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: Mapping[str, Any]) -> None:
        content = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._to.write(b"Content-Length: %d\r\n\r\n" % len(content) + content)
        self._to.flush()

    def _read(self) -> dict[str, Any]:
        length = 0
        while line := self._from.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        assert length, "the server has ended"
        message: dict[str, Any] = json.loads(self._from.read(length))
        return message

    def _handle(self, message: Mapping[str, Any]) -> None:
        """Take diagnostics, and answer what the server asks of an editor: nothing is configured."""
        if message.get("method") == "textDocument/publishDiagnostics":
            params = message["params"]
            self._diagnostics[params["uri"]] = [
                f"{each['range']['start']['line'] + 1}: {each['message']}"
                for each in params["diagnostics"]
            ]
        elif "id" in message and "method" in message:
            self._send({"id": message["id"], "result": None})


def _text(written: Any) -> str:
    return written["value"] if isinstance(written, dict) else written or ""


@contextmanager
def language_server() -> Iterator[LanguageServer]:
    """Run a server within the block; the test is skipped where there is none."""
    command = shutil.which(COMMAND)
    if command is None:
        pytest.skip(f"there is no {COMMAND} on the path: npm install -g {COMMAND}")
    with subprocess.Popen(
        [command, "--stdio"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield LanguageServer(process)
        finally:
            process.kill()
