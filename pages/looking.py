"""/looking : why attention, what queries, keys and values are, why scores are scaled, why there are several heads."""

from transformer.webapp import frame
from transformer.webapp.lessons import looking

view = frame.require()
looking.show(view)
