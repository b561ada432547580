"""allocation.provide: the folders and files of an allocation stand as asked."""

from __future__ import annotations

from typing import Any

from .files import put_file, put_folder
from .items import FILE, FOLDER
from .paths import Places, Tree, owned

KEYS = {"id": str, "login": str, "directories": [FOLDER], "files": [FILE]}


def run(tree: Tree, item: dict[str, Any]) -> None:
    places = Places(item["id"], item["login"])
    for folder in item["directories"]:
        put_folder(tree, owned(folder["path"], places.folders), folder["mode"])
    for file in item["files"]:
        put_file(tree, owned(file["path"], places.files), file["content"], file["mode"])
