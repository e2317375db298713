"""/masks : encoder and decoder put together, the causal mask and padding masks on and off, and cross-attention."""

from transformer.webapp import frame
from transformer.webapp.lessons import masks

view = frame.require()
masks.show(view)
