"""Every port that the engine and its notebooks listen on: loopback alone, and nothing for who does not know the secret."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from .lab import Lab, until

pytestmark = pytest.mark.spark

GADGET = "nobody.sent.Gadget"
STREAM = """
import time
seen = []
query = (spark.readStream.format("rate").option("rowsPerSecond", 5).load().writeStream
    .foreachBatch(lambda batch, number: print("batch", number))
    .option("checkpointLocation", "/Volumes/main/landing/ports/_checkpoint").start())
from pyspark.sql.functions import udf
print("sum", spark.range(3).select(udf(lambda x: x + 1, "long")("id")).collect()[2][0])
query.awaitTermination()
"""


def listening(pid: int) -> list[tuple[str, int]]:
    """Address and port of each TCP socket that this process listens on."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            sockets.add(target[8:-1])
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                address, _, port = fields[1].partition(":")
                found.append((_address(address), int(port, 16)))
    return found


def _address(hexadecimal: str) -> str:
    raw = b"".join(struct.pack("<I", int(hexadecimal[at : at + 8], 16)) for at in range(0, len(hexadecimal), 8))
    address = socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)
    return address.removeprefix("::ffff:")


def answer(port: int, sent: bytes) -> bytes:
    """What a listener says to these bytes until it hangs up or says nothing for a second."""
    heard = b""
    with socket.create_connection(("127.0.0.1", port), timeout=1) as peer:
        try:
            peer.sendall(sent)
            while more := peer.recv(65536):
                heard += more
        except (TimeoutError, ConnectionError):
            pass
    return heard


def java_object_for_spark() -> bytes:
    """A request of Spark's own protocol to an endpoint, with a Java object of an unknown class in it."""
    name = GADGET.encode()
    described = b"\x73\x72" + struct.pack(">H", len(name)) + name + struct.pack(">q", 1) + b"\x02\x00\x00\x78\x70"
    endpoint = b"endpoint-verifier"
    to = b"\x01" + struct.pack(">H", 9) + b"127.0.0.1" + struct.pack(">i", 1)
    body = b"\x00" + to + struct.pack(">H", len(endpoint)) + endpoint + b"\xac\xed\x00\x05" + described
    head = b"\x03" + struct.pack(">qi", 7, len(body))
    return struct.pack(">q", 8 + len(head) + len(body)) + head + body


def descendants(pid: int) -> set[int]:
    children = Path(f"/proc/{pid}/task").glob("*/children")
    found = {int(child) for file in children for child in file.read_text().split()}
    return found.union(*(descendants(child) for child in found)) if found else found


def test_no_port_of_the_engine_serves_who_does_not_know_its_secret(lab: Lab) -> None:
    lab.volume("main.landing.ports")
    run = lab.begin(STREAM)
    until(lambda: "batch 1" in lab.last_log and "sum 3" in lab.last_log, 90)
    try:
        pids = {pid for top in lab.engine.pids for pid in (top, *descendants(top))}
        jvm = lab.engine.pids[1]
        ports = {pid: listening(pid) for pid in pids}
        # The JVM: two of Spark's own and a gateway for the controller and for the notebook. The notebook: for callbacks.
        assert len(ports[jvm]) >= 4
        assert sum(map(len, ports.values())) > len(ports[jvm])
        for pid, opened in ports.items():
            for address, port in opened:
                assert address in ("127.0.0.1", "::1"), f"pid {pid} listens on {address}:{port}"
                assert GADGET.encode() not in answer(port, java_object_for_spark()), port
                # Py4J's words: import a class; call the object of a notebook's function; collect it.
                for words in (b"r\nu\njava.lang.Runtime\nrj\ne\n", b"c\np0\ncall\ne\n", b"m\nd\np0\ne\n"):
                    assert not answer(port, words).startswith((b"!y", b"y")), (port, words)
    finally:
        run.cancel()
        until(lambda: lab.call(lab.engine.active_streams()) == 0)


def test_no_command_line_shows_a_secret(lab: Lab) -> None:
    source = """
import os, pathlib
secrets = [os.environ[name] for name in ("PYSPARK_GATEWAY_SECRET", "DATABRICKS_TOKEN")]
shown = [path for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")
    if any(secret in path.read_bytes().decode(errors="replace") for secret in secrets)]
options = sc._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
dbutils.notebook.exit(repr((shown, [text for text in list(options) if "jmxremote" in text or "jdwp" in text],
    sc.uiWebUrl)))
"""
    assert lab.value(source) == "([], [], None)"


def test_what_notebooks_and_statements_write_is_for_their_user_alone(lab: Lab) -> None:
    source = """
import os, pathlib
print("printed")
spark.range(3).write.saveAsTable("main.default.private")
pathlib.Path("/Volumes/main/landing/private").joinpath("f.txt").write_text("x")
pathlib.Path("beside.txt").write_text("x")
os.umask(seen := os.umask(0))
dbutils.notebook.exit(oct(seen))
"""
    lab.volume("main.landing.private")
    assert lab.value(source) == "0o77"
    made = [path for folder in ("engine", "metastores", "runs") for path in (lab.home / folder).rglob("*")]
    # Spark's copies of Delta's jars keep the modes of the cache.
    written = [path for path in made if path.is_file() and path.suffix != ".jar"]
    assert any(path.suffix == ".parquet" for path in written)
    assert any(path.name == "output.log" for path in written)
    assert [path for path in written if path.stat().st_mode & 0o077] == []
