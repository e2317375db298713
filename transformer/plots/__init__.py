"""Pure figure builders: data in, ``go.Figure`` out. ``theme`` alone sets colours."""
