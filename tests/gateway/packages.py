# SPDX-License-Identifier: Apache-2.0
"""What a registry of npm, an index of Python packages and an archive of Debian packages say, with one package each: `greeting`.

That of npm has a scope, so that its clients ask for it with an encoded slash; the archive is a flat one, whose paths have "/./"."""
import base64
import hashlib
import io
import json
import os
import subprocess
import tarfile
import tempfile
import zipfile

VERSION = "1.0.0"


def tar_of(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o644
            tar.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


def npm(host):
    package = {"name": "@scope/greeting", "version": VERSION, "main": "index.js"}
    tar = tar_of({"package/package.json": json.dumps(package), "package/index.js": "module.exports = 'hello from npm'\n"})
    digest = "sha512-" + base64.b64encode(hashlib.sha512(tar).digest()).decode()
    dist = {"tarball": f"https://{host}/npm/greeting.tgz", "integrity": digest}
    entry = {"name": "@scope/greeting", "dist-tags": {"latest": VERSION}, "versions": {VERSION: {**package, "dist": dist}}}
    return {
        "/npm/@scope%2fgreeting": ("application/json", json.dumps(entry).encode()),
        "/npm/greeting.tgz": ("application/octet-stream", tar),
    }


def python_index():
    files = {
        "greeting.py": "TEXT = 'hello from pip'\n",
        f"greeting-{VERSION}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: greeting\nVersion: {VERSION}\n",
        f"greeting-{VERSION}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"greeting-{VERSION}.dist-info/RECORD"] = "".join(f"{name},,\n" for name in files)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    file = f"greeting-{VERSION}-py3-none-any.whl"
    page = f'<!DOCTYPE html><html><body><a href="/pip/{file}">{file}</a></body></html>'
    return {
        "/pip/greeting/": ("text/html", page.encode()),
        f"/pip/{file}": ("application/octet-stream", out.getvalue()),
    }


def archive():
    control = f"Package: greeting\nVersion: {VERSION}\nArchitecture: all\nMaintainer: x <x@example.com>\nDescription: says hello\n"
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(folder + "/tree/DEBIAN")
        os.makedirs(folder + "/tree/usr/share/greeting")
        os.chmod(folder + "/tree", 0o755)
        with open(folder + "/tree/DEBIAN/control", "w") as file:
            file.write(control)
        with open(folder + "/tree/usr/share/greeting/text", "w") as file:
            file.write("hello from apt\n")
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-b", folder + "/tree", folder + "/greeting.deb"], check=True, capture_output=True
        )
        with open(folder + "/greeting.deb", "rb") as file:
            package = file.read()
    entry = f"{control}Filename: ./greeting.deb\nSize: {len(package)}\nSHA256: {hashlib.sha256(package).hexdigest()}\n\n"
    return {
        "/apt/./Packages": ("text/plain", entry.encode()),
        "/apt/./greeting.deb": ("application/octet-stream", package),
    }


def everything(host):
    """{path: (content type, bytes)}, as served by `host`."""
    return {**npm(host), **python_index(), **archive()}
