"""What the calls of the REST API take: each field's type, declared once, in `fields.json`.

The declaration is made from the signatures and data classes of the official SDK by
`python -m databricks_bridge.local.request_fields`, and a test holds it equal to the SDK that is installed. Bodies are checked
against it where they come in (`check.py`), and the API's description takes the schemas of kept fields from it (`schema.py`).
The server itself does not import the SDK, which takes 75 MB.
"""
