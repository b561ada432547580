"""Puts the code that runs on hosts where the tests can import it, as the package `gpuaas`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "playbooks" / "module_utils"))
