"""The OpenAPI description of what a local workspace serves: written by hand for each operation, checked against its routes.

Its examples name what is in this very workspace, so each of them works when it is sent as it stands.
"""
