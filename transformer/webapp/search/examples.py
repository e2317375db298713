"""Sentences on which greedy search goes wrong, by model.

They are our own, and were found by ``python -m benchmarks.greedy MODEL --sentences 150``: for each, a beam of 5 finds a
translation that the model itself finds more probable than the one greedy search ends with. What the page says about
them is computed anew each time.
"""

from __future__ import annotations

FLAWED: dict[str, tuple[str, ...]] = {
    "en-fr": (
        "Several people are talking to each other at the bus stop.",
        "An old man with a white beard is playing the guitar in the middle of a field.",
        "Two women are riding bicycles while a dog is watching.",
        "A group of children are riding bicycles under a bridge at night.",
        "A man is carrying a large box while a dog is watching.",
    ),
    "en-de-multi30k": (
        "The woman in the black coat is talking on the phone at the bus stop.",
        "Two women are taking a picture under a bridge at night.",
        "A man is climbing a rock in the middle of a field.",
        "Several people are looking by the sea.",
        "A group of children are taking a picture with the mountains in the background.",
    ),
}
"""The first is shown first."""
