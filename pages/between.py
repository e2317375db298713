"""/between : what happens between two attentions, and behind the last: feed-forward, residual stream, normalisation,
softmax."""

from transformer.webapp import frame
from transformer.webapp.lessons import between

view = frame.require()
between.show(view)
