"""Ways of reading through the service, each with real TensorFlow clients.

The workers run already, in processes of their own. Prints `PASS name` or `FAIL name: why` for each
check, and ends with status 0 when none failed.
"""
import argparse
import collections
import os
import tempfile
import threading
import time
import traceback

from quiet import DYNAMIC, OFF, service, tf

ELEMENTS = 300


class Bed:
    """The dispatcher's address and the number of workers behind it."""

    def __init__(self, dispatcher, workers):
        self.service = "grpc://" + dispatcher
        self.workers = workers

    def distribute(self, dataset, mode=DYNAMIC, **options):
        return dataset.apply(service.distribute(mode, self.service, **options))


def ints(dataset):
    return [int(element) for element in dataset.as_numpy_iterator()]


def assert_same(got, wanted, what):
    """Both hold the same elements, each as often."""
    got, wanted = collections.Counter(got), collections.Counter(wanted)
    extra, lost = got - wanted, wanted - got
    assert not extra and not lost, "%s: %d lost, such as %s; %d too many, such as %s" % (
        what, sum(lost.values()), sorted(lost)[:5], sum(extra.values()), sorted(extra)[:5])


def name(prefix):
    return "%s-%d-%d" % (prefix, os.getpid(), time.monotonic_ns())


def dynamic_sharding(bed):
    """Every element exactly once over all workers."""
    dataset = tf.data.Dataset.range(ELEMENTS).map(lambda x: x * 3)
    assert_same(ints(bed.distribute(dataset)), [3 * x for x in range(ELEMENTS)], "elements")


def no_sharding(bed):
    """Every worker yields the whole dataset."""
    dataset = tf.data.Dataset.range(ELEMENTS)
    assert_same(ints(bed.distribute(dataset, OFF)), list(range(ELEMENTS)) * bed.workers, "union")


def empty(bed):
    """A dataset without elements ends at once."""
    assert_same(ints(bed.distribute(tf.data.Dataset.range(0))), [], "elements")


def steps(bed):
    """Ranges may go down and stride."""
    dataset = tf.data.Dataset.range(100, -1, -7)
    assert_same(ints(bed.distribute(dataset)), list(range(100, -1, -7)), "elements")


def epochs(bed):
    """`repeat` after `distribute`: a fresh iteration per epoch, each complete."""
    dataset = bed.distribute(tf.data.Dataset.range(ELEMENTS)).repeat(3)
    assert_same(ints(dataset), list(range(ELEMENTS)) * 3, "three epochs")


def repeat_inside(bed):
    """`repeat` before `distribute`: later passes of one iteration."""
    dataset = bed.distribute(tf.data.Dataset.range(ELEMENTS).repeat(2))
    assert_same(ints(dataset), list(range(ELEMENTS)) * 2, "two passes")


def same_dataset_twice(bed):
    """Two iterators over one distributed dataset are two epochs."""
    dataset = bed.distribute(tf.data.Dataset.range(ELEMENTS))
    for epoch in range(2):
        assert_same(ints(dataset), range(ELEMENTS), "epoch %d" % epoch)


def files(bed):
    """Record files, one split a file."""
    folder, wanted = tempfile.mkdtemp(), []
    for index in range(9):
        with tf.io.TFRecordWriter(os.path.join(folder, "part-%d" % index)) as out:
            for record in range(index * 3):
                out.write(b"%d" % (1000 * index + record))
                wanted.append(1000 * index + record)
    listed = tf.data.Dataset.list_files(os.path.join(folder, "part-*"), shuffle=False)
    dataset = listed.interleave(tf.data.TFRecordDataset, cycle_length=2)
    dataset = dataset.map(lambda text: tf.strings.to_number(text, tf.int64))
    assert_same(ints(bed.distribute(dataset)), wanted, "records")


def zipped(bed):
    """Two sources, split each on its own: no side sees an element twice."""
    left = tf.data.Dataset.range(ELEMENTS)
    right = tf.data.Dataset.from_tensor_slices(list(range(1000, 1000 + ELEMENTS)))
    dataset = bed.distribute(tf.data.Dataset.zip((left, right)))
    pairs = [(int(a), int(b)) for a, b in dataset.as_numpy_iterator()]
    for side in (0, 1):
        seen = [pair[side] for pair in pairs]
        assert len(seen) == len(set(seen)), "side %d saw an element twice" % side
    # A worker that gets the last split of one side and none of the other drops it.
    assert len(pairs) >= ELEMENTS - 2 * bed.workers, "only %d pairs" % len(pairs)


def concatenated(bed):
    """Sources one behind the other."""
    behind = tf.data.Dataset.from_tensor_slices(tf.range(1000, 1100, dtype=tf.int64))
    dataset = tf.data.Dataset.range(ELEMENTS).concatenate(behind)
    wanted = list(range(ELEMENTS)) + list(range(1000, 1100))
    assert_same(ints(bed.distribute(dataset)), wanted, "elements")


def structures(bed):
    """Elements with structure, of strings and floats, compressed on the way."""
    rows = {"id": list(range(50)), "text": ["row %d" % row for row in range(50)]}
    dataset = bed.distribute(tf.data.Dataset.from_tensor_slices(rows), compression="AUTO")
    got = {int(row["id"]): row["text"].decode() for row in dataset.as_numpy_iterator()}
    assert got == {row: "row %d" % row for row in range(50)}, got


def shared_job(bed):
    """Two consumers of one named job: their union is every element once."""
    job = name("shared")
    base = tf.data.Dataset.range(ELEMENTS)
    readers = [iter(bed.distribute(base, job_name=job, max_outstanding_requests=1))
               for _ in range(2)]
    got, live = [[], []], [True, True]
    while any(live):  # take turns, so that both really read
        for index, reader in enumerate(readers):
            try:
                if live[index]:
                    got[index].append(int(next(reader)))
            except StopIteration:
                live[index] = False
    assert_same(got[0] + got[1], range(ELEMENTS), "union of consumers")
    assert got[0] and got[1], "a consumer got nothing: %d, %d" % (len(got[0]), len(got[1]))


def late_consumer(bed):
    """A consumer that joins a finished shared job sees an empty epoch."""
    job = name("late")
    base = tf.data.Dataset.range(ELEMENTS)
    assert_same(ints(bed.distribute(base, job_name=job)), range(ELEMENTS), "first consumer")
    assert_same(ints(bed.distribute(base, job_name=job)), [], "late consumer")


def job_mismatch(bed):
    """The same job name with another policy is refused, and the first goes on."""
    job = name("mismatch")
    base = tf.data.Dataset.range(ELEMENTS)
    first = iter(bed.distribute(base, job_name=job))
    got = [int(next(first))]
    try:
        ints(bed.distribute(base, OFF, job_name=job))
        raise AssertionError("the second job was accepted")
    except tf.errors.InvalidArgumentError as error:
        assert "found an existing job with different parameters" in str(error), error
    got += [int(element) for element in first]
    assert_same(got, range(ELEMENTS), "first consumer")


def named_dataset(bed):
    """Registered under a name of one's own, read by name, structure from the dispatcher."""
    dataset_id = name("dataset")
    dataset = tf.data.Dataset.range(ELEMENTS).map(lambda x: {"value": x})
    service.register_dataset(bed.service, dataset, dataset_id=dataset_id)
    service.register_dataset(bed.service, dataset, dataset_id=dataset_id)
    back = service.from_dataset_id(DYNAMIC, bed.service, dataset_id)
    assert back.element_spec == dataset.element_spec, back.element_spec
    got = [int(row["value"]) for row in back.as_numpy_iterator()]
    assert_same(got, range(ELEMENTS), "elements")
    try:
        service.register_dataset(bed.service, dataset.map(lambda row: (row, row)), dataset_id=dataset_id)
        raise AssertionError("another structure was accepted under a taken id")
    except tf.errors.InvalidArgumentError as error:
        assert "same structure" in str(error), error


def unknown_dataset(bed):
    """An unknown dataset is an error, not a hang."""
    try:
        spec = tf.TensorSpec((), tf.int64)
        ints(service.from_dataset_id(OFF, bed.service, "no such dataset", element_spec=spec))
        raise AssertionError("an unknown dataset was read")
    except tf.errors.NotFoundError:
        pass


def refuse_to_split(bed, dataset, text):
    try:
        ints(bed.distribute(dataset))
        raise AssertionError("it was split")
    except tf.errors.UnimplementedError as error:
        assert text in str(error), error


def snapshot_is_not_split(bed):
    """A snapshot under dynamic sharding is refused with the reason."""
    dataset = tf.data.Dataset.range(10).snapshot(tempfile.mkdtemp())
    refuse_to_split(bed, dataset, "Splitting is not implemented for snapshot datasets")


def service_is_not_split(bed):
    """So is what already comes through the service; TensorFlow's own dispatcher, asked to split
    what it serves itself, waits for itself for ever."""
    dataset = bed.distribute(tf.data.Dataset.range(10))
    refuse_to_split(bed, dataset, "Cannot create split providers for dataset of type DataServiceDataset")


def coordinated(bed):
    """Round-robin reads: in every round all consumers get elements of one group."""
    consumers, rounds, job = 2, 60, name("rounds")
    base = tf.data.Dataset.range(10**6).flat_map(
        lambda group: tf.data.Dataset.range(group * consumers, (group + 1) * consumers)).repeat()
    got, errors = [[] for _ in range(consumers)], []

    def read(index):
        try:
            dataset = bed.distribute(
                base, OFF, job_name=job, consumer_index=index, num_consumers=consumers)
            got[index] += ints(dataset.take(rounds))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=read, args=(index,), daemon=True) for index in range(consumers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors
    assert [len(part) for part in got] == [rounds] * consumers, [len(part) for part in got]
    for number, row in enumerate(zip(*got)):
        right = [value % consumers for value in row] == list(range(consumers))
        assert right and len({value // consumers for value in row}) == 1, (number, row)


CHECKS = [
    dynamic_sharding, no_sharding, empty, steps, epochs, repeat_inside, same_dataset_twice, files,
    zipped, concatenated, structures, shared_job, late_consumer, job_mismatch, named_dataset,
    unknown_dataset, snapshot_is_not_split, service_is_not_split, coordinated,
]


def passes(check, bed, timeout):
    """Runs one check in a thread, so that a hang is a failure too; tells the result."""
    result = {}

    def body():
        try:
            check(bed)
        except BaseException:
            result["why"] = traceback.format_exc()
        result["ended"] = True

    began = time.monotonic()
    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(timeout)
    if "ended" not in result:
        result["why"] = "no end within %.0f s" % timeout
    seconds = time.monotonic() - began
    if "why" in result:
        print("FAIL %s (%.1f s): %s" % (check.__name__, seconds, result["why"]), flush=True)
    else:
        print("PASS %s (%.1f s)" % (check.__name__, seconds), flush=True)
    return "why" not in result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dispatcher", required=True, help="host:port")
    parser.add_argument("--workers", type=int, required=True, help="how many run")
    parser.add_argument("--only", default="", help="names of checks, with commas")
    parser.add_argument("--timeout", type=float, default=90, help="seconds per check")
    opts = parser.parse_args()
    bed = Bed(opts.dispatcher, opts.workers)
    chosen = [check for check in CHECKS if not opts.only or check.__name__ in opts.only.split(",")]
    results = [passes(check, bed, opts.timeout) for check in chosen]
    print("%d passed, %d failed" % (results.count(True), results.count(False)), flush=True)
    os._exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
