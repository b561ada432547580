"""The smallest bundle: a wheel of one module, made here byte for byte alike each time.

Tests that need a bundle use it: it is staged in seconds, from a folder, on any host.
"""

from __future__ import annotations

import base64
import hashlib
import tempfile
import zipfile
from pathlib import Path
from typing import Any

VERSIONS = ("1.0", "2.0")
MODULE = '''"""Greets."""

VERSION = "{version}"


def main() -> None:
    print("hello", VERSION)
'''
METADATA = "Metadata-Version: 2.1\nName: gpuaas-hello\nVersion: {version}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: gpuaas\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
SCRIPTS = "[console_scripts]\ngpuaas-hello = gpuaas_hello:main\n"


def make(folder: Path, version: str = "1.0") -> Path:
    """The wheel in `folder`, as a mirror holds it."""
    info = f"gpuaas_hello-{version}.dist-info"
    files = {
        "gpuaas_hello.py": MODULE.format(version=version),
        f"{info}/METADATA": METADATA.format(version=version),
        f"{info}/WHEEL": WHEEL,
        f"{info}/entry_points.txt": SCRIPTS,
    }
    record = "".join(f"{name},{_hash(text)},{len(text)}\n" for name, text in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"gpuaas_hello-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(zipfile.ZipInfo(name), text)
    return path


def lock(version: str = "1.0") -> str:
    """The requirements, with the hash of exactly that wheel."""
    return f"gpuaas-hello=={version} --hash=sha256:{wheel_digest(version)}\n"


def wheel_digest(version: str) -> str:
    """SHA-256 in hex."""
    with tempfile.TemporaryDirectory() as folder:
        return hashlib.sha256(make(Path(folder), version).read_bytes()).hexdigest()


def lock_digest(version: str = "1.0") -> str:
    return digest(lock(version))


def digest(text: str) -> str:
    """Of a lock, as documents state it."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def document(folder: Path, *versions: str, python: str = "3.11", **changes: Any) -> dict[str, Any]:
    """A bundle of these versions, whose locks and wheels are written below `folder`."""
    for version in versions:
        make(folder / "mirror", version)
        path = folder / f"locks/hello-{version}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(lock(version), encoding="utf-8")
    spec = {
        "displayName": "Hello",
        "supportLevel": "supported",
        "versions": [{**_version(version, python), **changes} for version in versions],
    }
    return {
        "apiVersion": "gpuaas/v1",
        "kind": "Bundle",
        "metadata": {"name": "hello"},
        "spec": spec,
    }


def _version(version: str, python: str) -> dict[str, Any]:
    return {
        "version": version,
        "compatible": {"gpuVendor": "none"},
        "install": {
            "method": "venv",
            "python": python,
            "lock": f"locks/hello-{version}.txt",
            "lockDigest": lock_digest(version),
            "index": "mirror",
        },
        "verify": {"imports": ["gpuaas_hello"]},
    }
