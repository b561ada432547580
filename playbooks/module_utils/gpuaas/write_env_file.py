"""runtime.write_env_file: an allocation's environment, in one file that all readers read alike.

Every value is one that a shell, systemd and readers of container env files take for the same text,
and sourcing it runs nothing.
"""

from __future__ import annotations

import re
from typing import Any

from .files import put_file, read_by
from .items import FILE
from .paths import Places, Refusal, Tree, owned

KEYS = {"id": str, "login": str, "uid": int, "gid": int, "files": [FILE]}

LINE = re.compile(r"#( [ !-\[\]-~]*)?|[A-Z][A-Z0-9_]*=[A-Za-z0-9._:,/@+-]*")
"""A comment has no backslash: systemd would take the next line for more of it."""


def run(tree: Tree, item: dict[str, Any]) -> None:
    places = Places(item["id"], item["login"], item["uid"])
    for file in item["files"]:
        *lines, rest = file["content"].split("\n")
        if rest:
            raise Refusal("item_invalid", "an env file whose last line has no end")
        for line in lines:
            if not LINE.fullmatch(line):
                raise Refusal("item_invalid", f"no line of an env file: {line!r}"[:200])
        path, owner = owned(file["path"], places.environments), read_by(item["gid"])
        put_file(tree, path, file["content"], file["mode"], owner)
