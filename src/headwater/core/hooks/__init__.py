"""Hooks: what a user's code may see and say around model requests, tool calls and events.

The pure machine takes no notice of hooks but for `check_text`; the driver asks the others, and what they say comes
back as signals.
"""
