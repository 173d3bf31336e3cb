"""Ways of reading datasets of Rondo's own from its own workers, each with real TensorFlow clients.

The datasets are registered already: `numbers` holds the integers from 0 on in a column `value`,
`pairs` the same in batches, `snappy` the same compressed, `endless` repeats them for ever. Prints
`PASS name` or `FAIL name: why` for each check, and ends with status 0 when none failed.
"""
import argparse
import os
import threading

from quiet import DYNAMIC, OFF, service, tf
from reading_modes import assert_same, name, passes

SPEC = {"value": tf.TensorSpec((), tf.int64)}


class Bed:
    """The dispatcher's address, the number of workers behind it, and how many integers there are."""

    def __init__(self, dispatcher, workers, elements):
        self.service = "grpc://" + dispatcher
        self.workers = workers
        self.elements = elements

    def read(self, dataset, mode=DYNAMIC, **options):
        return service.from_dataset_id(mode, self.service, dataset, **options)


def values(dataset):
    return [int(element["value"]) for element in dataset.as_numpy_iterator()]


def dynamic_sharding(bed):
    """Every record exactly once over all workers."""
    assert_same(values(bed.read("numbers")), range(bed.elements), "elements")


def with_a_spec(bed):
    """The same with a structure of the client's own."""
    assert_same(values(bed.read("numbers", element_spec=SPEC)), range(bed.elements), "elements")


def structure_is_told(bed):
    """Without one, the structure comes from the dispatcher."""
    assert bed.read("numbers").element_spec == SPEC, bed.read("numbers").element_spec


def no_sharding(bed):
    """Every worker yields the whole dataset, in order."""
    got = values(bed.read("numbers", OFF))
    assert_same(got, list(range(bed.elements)) * bed.workers, "union")


def compressed(bed):
    """Elements in snappy."""
    assert_same(values(bed.read("snappy")), range(bed.elements), "elements")
    assert_same(values(bed.read("snappy", OFF)), list(range(bed.elements)) * bed.workers, "union")


def batches(bed):
    """Batches over splits; what is left makes one that is not full."""
    got = [list(batch["value"]) for batch in bed.read("pairs").as_numpy_iterator()]
    assert_same(sum(got, []), range(bed.elements), "elements of batches")
    assert all(len(batch) <= 7 for batch in got), got
    short = [batch for batch in got if len(batch) < 7]
    assert len(short) <= bed.workers, short


def epochs(bed):
    """`repeat` behind it: a fresh iteration per epoch, each complete."""
    got = values(bed.read("numbers").repeat(3))
    assert_same(got, list(range(bed.elements)) * 3, "three epochs")


def shared_job(bed):
    """Two consumers of one named job: their union is every element once."""
    job = name("shared")
    readers = [iter(bed.read("numbers", job_name=job, max_outstanding_requests=1)) for _ in range(2)]
    got, live = [[], []], [True, True]
    while any(live):  # take turns, so that both really read
        for index, reader in enumerate(readers):
            try:
                if live[index]:
                    got[index].append(int(next(reader)["value"]))
            except StopIteration:
                live[index] = False
    assert_same(got[0] + got[1], range(bed.elements), "union of consumers")
    assert got[0] and got[1], "a consumer got nothing: %d, %d" % (len(got[0]), len(got[1]))


def coordinated(bed):
    """Round-robin reads: in every round the consumers get successive elements of one worker."""
    consumers, rounds, job = 2, 60, name("rounds")
    got, errors = [[] for _ in range(consumers)], []

    def read(index):
        try:
            dataset = bed.read(
                "endless", OFF, job_name=job, consumer_index=index, num_consumers=consumers)
            got[index] += values(dataset.take(rounds))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=read, args=(index,), daemon=True) for index in range(consumers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors
    assert [len(part) for part in got] == [rounds] * consumers, [len(part) for part in got]
    for number, (first, second) in enumerate(zip(*got)):
        assert second == (first + 1) % bed.elements, (number, first, second)


def cache(bed):
    """Each trainer that shares a cache gets what each worker yields from its beginning on."""
    job, wanted = name("cache"), 50
    for trainer in ("one", "two"):
        options = service.CrossTrainerCache(trainer_id=trainer)
        dataset = bed.read("endless", OFF, job_name=job, cross_trainer_cache=options)
        got = values(dataset.take(wanted))
        # How many come of which worker is chance.
        longest = len(set(got))
        assert_same(got, list(range(longest)) + list(range(wanted - longest)), trainer)


def finite_rounds_are_refused(bed):
    """Rounds need data without an end."""
    try:
        dataset = bed.read("numbers", OFF, job_name=name("finite"), consumer_index=0, num_consumers=1)
        values(dataset.take(3))
        raise AssertionError("rounds over finite data")
    except tf.errors.FailedPreconditionError as error:
        assert "infinite cardinality" in str(error), error


def graphs_are_refused(bed):
    """A graph of TensorFlow's is none of our workers' business, and they say so."""
    try:
        dataset = tf.data.Dataset.range(10).apply(service.distribute(DYNAMIC, bed.service))
        list(dataset.as_numpy_iterator())
        raise AssertionError("a graph was run")
    except tf.errors.FailedPreconditionError as error:
        assert "datasets of Rondo's own" in str(error), error


def damage_is_told(bed):
    """An error in a file reaches the client, naming the file and the place in it."""
    try:
        got = list(bed.read("damaged").as_numpy_iterator())
        raise AssertionError("damaged data was read as %d elements" % len(got))
    except tf.errors.DataLossError as error:
        assert "damaged.tfrecord" in str(error) and "byte" in str(error), error


CHECKS = [
    dynamic_sharding, with_a_spec, structure_is_told, no_sharding, compressed, batches, epochs,
    shared_job, coordinated, cache, finite_rounds_are_refused, graphs_are_refused, damage_is_told,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dispatcher", required=True, help="host:port")
    parser.add_argument("--workers", type=int, required=True, help="how many run")
    parser.add_argument("--elements", type=int, required=True, help="how many integers there are")
    parser.add_argument("--only", default="", help="names of checks, with commas")
    parser.add_argument("--timeout", type=float, default=90, help="seconds per check")
    opts = parser.parse_args()
    bed = Bed(opts.dispatcher, opts.workers, opts.elements)
    chosen = [check for check in CHECKS if not opts.only or check.__name__ in opts.only.split(",")]
    results = [passes(check, bed, opts.timeout) for check in chosen]
    print("%d passed, %d failed" % (results.count(True), results.count(False)), flush=True)
    os._exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
