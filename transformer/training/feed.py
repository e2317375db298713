"""The batches of an epoch, made ahead in a background thread while the model computes."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from transformer.text.batching import Batch, Example, collate, make_batches
from transformer.training.distributed import ALONE, World

AHEAD = 4
"""Updates whose batches are ready before they are needed."""


@dataclass(frozen=True, eq=False)
class Portion:
    """What one process does in one update."""

    batches: list[Batch]
    """Micro-batches; as many on every process."""
    fillers: int
    """How many of the last ones are there only so that all processes have as many; they count for nothing."""
    target_tokens: int
    """Real target pieces of the whole update, on all processes."""


class Feed:
    """Cuts every epoch into updates, and each update into equal portions for the processes.

    One list of batches is made for all processes, the same on every one, from the seed and the epoch. An update takes
    the next ``accumulate`` x processes of them, of which a process takes every so-many-th: what an update sees depends
    on that product alone. The last update of an epoch may have fewer.
    """

    def __init__(
        self,
        examples: Callable[[int], Sequence[Example]],
        batch_tokens: int,
        seed: int,
        accumulate: int = 1,
        world: World = ALONE,
        multiple: int = 1,
        pinned: bool = False,
    ) -> None:
        """``examples`` gives those of an epoch; ``multiple`` and ``pinned`` are for ``collate`` and a GPU."""
        self.examples = examples
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.accumulate = accumulate
        self.world = world
        self.multiple = multiple
        self.pinned = pinned
        self._plans: dict[int, tuple[Sequence[Example], list[list[list[int]]]]] = {}
        self._lock = threading.Lock()

    def updates_in(self, epoch: int) -> int:
        """How many updates the epoch has."""
        return len(self._planned(epoch)[1])

    def plan(self, epoch: int) -> None:
        """Begin to make ready an epoch that comes later, in the background."""

        def work() -> None:
            with contextlib.suppress(Exception):  # it is planned once more when it is needed, and raised there
                self._planned(epoch)

        threading.Thread(target=work, name="plan", daemon=True).start()

    def portions(self, epoch: int, start: int = 0) -> Generator[Portion, None, None]:
        """This process's portions of the updates of an epoch, from update ``start`` on.

        Closing the iterator ends the thread behind it.
        """
        ready: queue.Queue[Portion | BaseException | None] = queue.Queue(AHEAD)
        closed = threading.Event()

        def put(item: Portion | BaseException | None) -> bool:
            while not closed.is_set():
                try:
                    ready.put(item, timeout=0.2)
                    return True
                except queue.Full:
                    continue
            return False

        def work() -> None:
            try:
                examples, updates = self._planned(epoch)
                for update in updates[start:]:
                    if not put(self._portion(examples, update)):
                        return
                put(None)
            except BaseException as error:  # it is raised where the portions are read
                put(error)

        thread = threading.Thread(target=work, name="feed", daemon=True)
        thread.start()
        try:
            while (item := ready.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            closed.set()
            thread.join()

    def _planned(self, epoch: int) -> tuple[Sequence[Example], list[list[list[int]]]]:
        with self._lock:
            if epoch not in self._plans:
                examples = self.examples(epoch)
                batches = make_batches(examples, self.batch_tokens, self.seed, epoch)
                size = self.accumulate * self.world.size
                updates = [batches[first : first + size] for first in range(0, len(batches), size)]
                self._plans = {key: plan for key, plan in self._plans.items() if key == epoch - 1}
                self._plans[epoch] = (examples, updates)
            return self._plans[epoch]

    def _portion(self, examples: Sequence[Example], update: Sequence[list[int]]) -> Portion:
        rank, size = self.world.rank, self.world.size
        mine = list(update[rank::size])
        fillers = -(-len(update) // size) - len(mine)
        chosen = mine + [update[0]] * fillers
        return Portion(
            [collate(examples, indices, self.multiple, self.pinned) for indices in chosen],
            fillers,
            sum(len(examples[index][1]) + 1 for batch in update for index in batch),
        )
