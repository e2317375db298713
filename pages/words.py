"""/words : how text becomes vectors, and how a vector learns where it stands."""

from transformer.webapp import frame
from transformer.webapp.lessons import words

view = frame.require()
words.show(view)
