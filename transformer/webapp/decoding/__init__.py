"""The parts of the decoding page."""
