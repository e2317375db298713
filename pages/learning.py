"""/learning : how the model was trained, what became of it on the way, and what the paper measured."""

from transformer.webapp import frame
from transformer.webapp.lessons import learning
from transformer.webapp.lessons.section import next_page

view = frame.require()
learning.show(view)
next_page("learning")
