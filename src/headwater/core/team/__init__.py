"""The pure half of teams: what a protocol sees and says, the machine that does it, and the protocols."""
