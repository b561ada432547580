"""Views turn what operations return into lines or Markdown; they decide nothing."""
