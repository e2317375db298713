"""Pure numpy: what can be read off a record. No drawing, no model."""
