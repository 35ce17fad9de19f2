"""The working view of a conversation: what of it a model is sent."""
