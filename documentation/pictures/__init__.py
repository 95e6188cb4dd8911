"""The pictures of the site: `python -m documentation.pictures` draws all of them into docs/images."""
