"""The parts of the page /beam."""
