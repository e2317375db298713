"""Decoding: greedy and beam search over one step function, and the record of a search.

``step`` turns a model into a step function, ``rules`` says which pieces may be written and what length costs,
``options`` holds the dials, ``search`` is the one implementation, ``beam`` its two doors (plain and traced), ``trace``
the record, and ``batch`` translates many sentences. Nothing is imported here, so that the record's dataclasses can be
used without torch.
"""
