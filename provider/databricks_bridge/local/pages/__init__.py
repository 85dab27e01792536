"""The pages that a person sees of a local workspace: rendered here, with nothing to build and nothing loaded from elsewhere.

`site.router(workspace)` is all of them. A page is a function from what was asked to a `Page`; only `access` speaks HTTP,
and it lets nobody in who has not signed in.
"""
