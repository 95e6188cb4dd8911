"""The pictures of the site: `python -m tools.documentation.pictures` draws all of them into docs/images."""
