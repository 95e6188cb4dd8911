"""The documentation site: what makes it of docs/, the repository and the docstrings. `make docs` builds it."""
