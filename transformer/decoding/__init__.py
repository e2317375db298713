"""Decoding: greedy and beam search over one step function, sampling, and the record of a search.

``step`` turns a model into a step function, ``rules`` says which pieces may be written, ``options`` holds the dials and
says what length costs, ``coverage`` what an overlooked source piece costs, ``candidates`` how pieces are ordered,
``search`` is the one implementation, ``beam`` its two doors (plain and traced), ``trace`` the record, ``sampling``
draws instead of searching, and ``batch`` translates many sentences. Nothing is imported here, so that the record's
dataclasses can be used without torch.
"""
