"""/writing : how a translation is written, piece by piece, and how one is chosen among many."""

from transformer.webapp import frame
from transformer.webapp.lessons import writing

view = frame.require()
writing.show(view)
