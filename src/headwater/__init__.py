"""headwater: a runtime for agents whose output is a stream."""
