"""Templates: the text of every file on a host, rendered from templates already loaded.

Sandboxed, and strict: a value that is not there is no empty text but a refusal.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from jinja2 import StrictUndefined, Template, TemplateError, TemplateNotFound
from jinja2.sandbox import ImmutableSandboxedEnvironment

from reconciler.model.canonical import text_digest
from reconciler.model.problem import ProblemError, refuse

_ENVIRONMENT = ImmutableSandboxedEnvironment(
    undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True
)


class Renderer:
    """Compiles each template when it is first asked for; a text is compiled once a process."""

    def __init__(self, templates: Mapping[str, str]) -> None:
        self._texts = templates

    def render(self, name: str, values: Mapping[str, object]) -> str:
        """Render a template. Raises ProblemError `template_unsound`."""
        try:
            return self._template(name).render(values)
        except TemplateError as error:
            raise _unsound(name, error) from error
        except (TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise _unsound(name, error) from error

    def digests(self) -> Mapping[str, str]:
        return {name: text_digest(text) for name, text in self._texts.items()}

    def _template(self, name: str) -> Template:
        if name not in self._texts:
            raise TemplateNotFound(name)
        return _compiled(self._texts[name])


@lru_cache(maxsize=256)
def _compiled(text: str) -> Template:
    """A loop plans every few minutes, by the same templates."""
    return _ENVIRONMENT.from_string(text)


def _unsound(name: str, error: Exception) -> ProblemError:
    line = getattr(error, "lineno", None)
    place = f"templates/{name}" + (f":{line}" if line else "")
    return refuse(
        "template_unsound",
        f"{place}: {error or type(error).__name__}",
        "put the template right; nothing is written with a value missing",
    )
