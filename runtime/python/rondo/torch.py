"""A dataset of Rondo's for torch's DataLoader. Importing this imports torch.

    from rondo.torch import IterableDataset

    dataset = IterableDataset("10.0.0.7:5050", "quakes", job="train")
    for step, batch in enumerate(torch.utils.data.DataLoader(dataset, batch_size=32)):
        ...
        if step % 1000 == 0:
            data = dataset.state_dict(f"step-{step}")
            torch.save({"model": model.state_dict(), "data": data}, path)

The reader reads ahead by itself, on threads that Python's lock does not hold up: a DataLoader needs no
workers (`num_workers=0`) for that. With workers each opens a reader of the same job: they share the data,
and every record comes to exactly one of them; but then what is on the way in the DataLoader's queues
counts as consumed, so no position is exact, and `state_dict` refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.utils.data

from rondo import _rondo
from rondo.errors import FailedPrecondition, InvalidArgument, RondoError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["IterableDataset"]

_VERSION = 1


class IterableDataset(torch.utils.data.IterableDataset):  # type: ignore
    """The records of a dataset, each a dict; with `batches`, what is delivered at once, a dict of tensors.

    `transform` is called with each. `settings` are those of `rondo.Reader`, without those that say how
    records are acknowledged. The job needs a name for `state_dict`.
    """

    def __init__(
        self,
        dispatcher: str,
        dataset: str,
        *,
        job: str | None = None,
        batches: bool = False,
        transform: Callable[[dict[str, Any]], Any] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        for name in ("acknowledge_by_hand", "resume"):
            if name in settings:
                raise InvalidArgument(f"{name} is the dataset's own matter: use its state_dict")
        self.dispatcher = dispatcher
        self.dataset = dataset
        self.job = job
        self.batches = batches
        self.transform = transform
        self.settings = settings
        self._reading: _Reading | None = None

    def __iter__(self) -> Iterator[Any]:
        reading = _Reading(self)
        self._reading = reading
        return reading.all()

    def __getstate__(self) -> dict[str, Any]:
        # A process that is started with it reads by itself.
        return dict(self.__dict__, _reading=None)

    def state_dict(self, name: str | None = None) -> dict[str, Any]:
        """Saves a position of the job: exactly what this dataset has yielded is behind it.

        Call it before the iteration ends, or after all was read: what an iteration that is broken off has
        yielded last does not count as consumed.

        The name is the job's with the number of records, unless one is given; it stays until
        `rondo.delete_position` or the same name again. Of a job with several readers all save under one name:
        the last has everything.
        """
        if self.job is None:
            raise FailedPrecondition("a job without a name has no position: give job=")
        if torch.utils.data.get_worker_info() is not None:
            raise FailedPrecondition(
                "a worker of a DataLoader knows not what the trainer has consumed: use num_workers=0, "
                "the reader reads ahead by itself"
            )
        reading = self._reading
        if reading is None:
            raise FailedPrecondition(
                "nothing was read in this process; with num_workers > 0 the workers read, and no position "
                "is exact"
            )
        name = name if name is not None else f"{self.job}-{reading.consumed}"
        reading.checkpoint(self, name, self.job)
        return {"version": _VERSION, "position": name, "job": self.job, "dataset": self.dataset}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes the job back to a saved position: the next iteration begins there.

        What readers of the job read now ends, so of several processes one does this, before the others begin.
        """
        if state.get("version") != _VERSION:
            raise InvalidArgument(f"the state has version {state.get('version')!r}: {_VERSION} is known")
        if state["dataset"] != self.dataset:
            raise InvalidArgument(
                f"the state is of the dataset {state['dataset']!r}, this is {self.dataset!r}"
            )
        if self.job is None:
            raise FailedPrecondition("a job without a name has no position: give job=")
        self._reading = None
        _rondo.restore_position(self.dispatcher, state["position"], self.job)


class _Reading:
    """One iteration: how far what was yielded goes."""

    def __init__(self, dataset: IterableDataset) -> None:
        self.reader = _opened(dataset)
        self.consumed = 0
        self._batches = dataset.batches
        self._transform = dataset.transform
        self._is_closed = False
        # What was delivered last, how many records of it were yielded, and how many acknowledged.
        self._delivery: _rondo.Records | None = None
        self._yielded = 0
        self._acknowledged = 0

    def all(self) -> Iterator[Any]:
        has_failed = False
        try:
            for delivery in self.reader:
                yield from self._whole(delivery) if self._batches else self._single(delivery)
        except Exception:
            has_failed = True
            raise
        finally:
            # An iteration that is broken off has not consumed what it yielded last.
            self._close(has_failed)

    def _close(self, has_failed: bool) -> None:
        """Closes the reader. An error of the data comes before one of the closing."""
        try:
            self.reader.close()
        except RondoError:
            if not has_failed:
                raise
        else:
            self._is_closed = True

    def checkpoint(self, dataset: IterableDataset, name: str, job: str) -> None:
        # The dispatcher knows all that was yielded.
        if self._is_closed:
            self._check_that_all_is_acknowledged()
            _rondo.save_position(dataset.dispatcher, name, job)
            return
        self._acknowledge()
        self.reader.checkpoint(name)

    def _check_that_all_is_acknowledged(self) -> None:
        missing = self._yielded - self._acknowledged if self._delivery is not None else 0
        if missing > 0:
            raise FailedPrecondition(
                f"the iteration was broken off and its reader is closed: {missing} records that it yielded "
                "last are read again, so no position is exact; call state_dict before the iteration ends"
            )

    def _whole(self, delivery: _rondo.Records | _rondo.Element) -> Iterator[Any]:
        count = 1 if isinstance(delivery, _rondo.Element) else len(delivery)
        self._began(delivery, count)
        yield self._transformed(_tensors(_value(delivery)))
        self._acknowledge()

    def _single(self, delivery: _rondo.Records | _rondo.Element) -> Iterator[Any]:
        if isinstance(delivery, _rondo.Element):
            yield from self._whole(delivery)
            return
        self._began(delivery, 0)
        for row in delivery.rows():
            self._yielded += 1
            self.consumed += 1
            yield self._transformed(row)
        self._acknowledge()

    def _began(self, delivery: _rondo.Records | _rondo.Element, yielded: int) -> None:
        self._delivery = delivery if isinstance(delivery, _rondo.Records) else None
        self._yielded = yielded
        self._acknowledged = 0
        self.consumed += yielded

    def _acknowledge(self) -> None:
        if self._delivery is not None:
            self.reader.acknowledge(self._delivery, self._yielded)
            self._acknowledged = self._yielded

    def _transformed(self, value: Any) -> Any:
        return value if self._transform is None else self._transform(value)


def _opened(dataset: IterableDataset) -> _rondo.Reader:
    """A reader of the dataset; in a worker of a DataLoader, of the worker's share of it.

    A DataLoader takes from its workers in turn. Would they share what there is as it comes, one could hold
    what another waits for, and nobody would ask it for more. So splits are dealt out to them by place.
    """
    settings = dict(dataset.settings, job=dataset.job, acknowledge_by_hand=True)
    worker = torch.utils.data.get_worker_info()
    if worker is not None:
        index, size = settings.get("group") or (0, 1)
        group = (index * worker.num_workers + worker.id, size * worker.num_workers)
        try:
            return _rondo.Reader(dataset.dispatcher, dataset.dataset, **dict(settings, group=group))
        except InvalidArgument:
            if settings.get("group"):
                raise
            # It cannot be read by split: elements are nobody's before they are read.
    return _rondo.Reader(dataset.dispatcher, dataset.dataset, **settings)


def _value(delivery: _rondo.Records | _rondo.Element) -> Any:
    return delivery.value if isinstance(delivery, _rondo.Element) else delivery.numpy()


def _tensors(value: Any) -> Any:
    """The same with tensors instead of arrays of numbers, in memory of their own: torch may write to them."""
    if isinstance(value, dict):
        return {name: _tensors(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_tensors(member) for member in value]
    if getattr(value, "dtype", None) is not None and value.dtype != object:
        return torch.from_numpy(value.copy())
    return value.tolist() if hasattr(value, "tolist") else value
