"""Templates: the text of every file on a host, rendered from templates already loaded.

Sandboxed, and strict: a value that is not there is no empty text but a refusal.
"""

from __future__ import annotations

from collections.abc import Mapping

from jinja2 import StrictUndefined, Template, TemplateError, TemplateNotFound
from jinja2.sandbox import ImmutableSandboxedEnvironment

from reconciler.model.canonical import text_digest
from reconciler.model.problem import ProblemError, refuse


class Renderer:
    """Compiles each template once, when it is first asked for."""

    def __init__(self, templates: Mapping[str, str]) -> None:
        self._texts = templates
        self._compiled: dict[str, Template] = {}
        self._environment = ImmutableSandboxedEnvironment(
            undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True
        )

    def render(self, name: str, values: Mapping[str, object]) -> str:
        """Render a template. Raises ProblemError `template_unsound`."""
        try:
            template = self._compiled.get(name) or self._compile(name)
            return template.render(values)
        except TemplateError as error:
            raise _unsound(name, error) from error
        except (TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise _unsound(name, error) from error

    def digests(self) -> Mapping[str, str]:
        return {name: text_digest(text) for name, text in self._texts.items()}

    def _compile(self, name: str) -> Template:
        if name not in self._texts:
            raise TemplateNotFound(name)
        compiled = self._environment.from_string(self._texts[name])
        self._compiled[name] = compiled
        return compiled


def _unsound(name: str, error: Exception) -> ProblemError:
    line = getattr(error, "lineno", None)
    place = f"templates/{name}" + (f":{line}" if line else "")
    return refuse(
        "template_unsound",
        f"{place}: {error or type(error).__name__}",
        "put the template right; nothing is written with a value missing",
    )
