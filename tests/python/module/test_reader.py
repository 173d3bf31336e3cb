"""The reader against a real server and worker, and the files themselves."""
import os
import threading
import time

import numpy
import pyarrow
import pyarrow.parquet
import pytest

import rondo
from rondo import tensors
from conftest import PATIENCE_S, RECORDS, table


@pytest.fixture(scope="session")
def whole():
    return table(RECORDS)


def test_every_record_comes_once_and_in_order(data, job):
    with rondo.Reader(data.address, "numbers", job=job) as reader:
        assert reader.is_by_split and reader.job == job
        numbers = [batch["number"] for batch in reader]
        progress = reader.progress()
    assert numpy.concatenate(numbers).tolist() == list(range(RECORDS))
    assert progress.records == RECORDS and progress.duplicates == 0
    assert sum(progress.workers.values()) == RECORDS


def test_columns_rows_and_arrow_are_the_files(data, job, whole):
    batches = list(rondo.Reader(data.address, "numbers", job=job))
    arrow = pyarrow.Table.from_batches([batch.to_arrow() for batch in batches])
    assert arrow.to_pylist() == whole.to_pylist()
    batch = batches[0]
    count = len(batch)
    assert batch.columns == whole.column_names and "row" in batch and "absent" not in batch
    assert batch.schema["number"] == "Int64"
    assert batch["half"].dtype == numpy.float32
    assert batch["half"].tolist() == [number / 2 for number in range(count)]
    assert batch["is_even"].dtype == bool and batch["is_even"][:3].tolist() == [True, False, True]
    assert batch["name"].tolist() == [f"n{number}" for number in range(count)]
    assert batch["pair"].shape == (count, 2) and batch["pair"][7].tolist() == [7, -7]
    assert batch["inner"]["a"][5] == "a5" and batch["inner"]["b"][8] == 1
    assert not batch["number"].flags.writeable
    rows = [row for batch in batches for row in batch.rows()]
    wanted = whole.to_pylist()
    for row in rows:
        row["pair"], row["row"] = row["pair"].tolist(), row["row"].tolist()
    assert rows == wanted
    assert sum(count for batch in batches for _, _, count in batch.origins) == RECORDS


def test_nobody_writes_through_torch_what_was_read(data, job):
    pytest.importorskip("torch")
    read = next(rondo.Reader(data.address, "numbers", job=job)).to_ipc()
    before = tensors.tobytes(read)
    assert not read.writable
    read.torch().fill_(0)
    # NumPy by the DLPack of old, which cannot say that memory is only to be read.
    old = numpy.from_dlpack(Old(read))
    old.flags.writeable = True
    old.fill(0)
    assert tensors.tobytes(read) == before


class Old:
    """A tensor that speaks DLPack as before its version 1."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, stream=None, **asked):
        return self.tensor.__dlpack__()


def test_arrays_lie_where_they_were_read(data, job):
    batch = next(rondo.Reader(data.address, "numbers", job=job))
    one, other = batch["number"], batch["number"]
    assert one.ctypes.data == other.ctypes.data
    del batch
    assert one[:3].tolist() == [0, 1, 2]


def test_what_has_no_array_is_named(data, job):
    batch = next(rondo.Reader(data.address, "numbers", job=job))
    with pytest.raises(KeyError, match="no column 'absent'|no column \"absent\""):
        batch["absent"]
    with pytest.raises(rondo.RondoError, match="row"):
        batch["row"]


def test_batches_are_made_across_splits(data, job):
    sizes = [len(batch) for batch in rondo.Reader(data.address, "batches", job=job)]
    assert sizes == [32] * (RECORDS // 32) + [RECORDS % 32]


def test_a_job_goes_on_exactly_behind_its_position(data, job):
    reader = rondo.Reader(data.address, "batches", job=job)
    first = [next(reader)["number"].tolist() for _ in range(10)]
    reader.checkpoint(job)
    for _ in range(5):
        next(reader)
    reader.close()
    rest = rondo.Reader(data.address, "batches", job=job, resume=job)
    numbers = [number for batch in first for number in batch]
    numbers += [number for batch in rest for number in batch["number"].tolist()]
    assert numbers == list(range(RECORDS))
    rondo.delete_position(data.address, job)
    with pytest.raises(rondo.NotFound, match=job):
        rondo.restore_position(data.address, job, job)


def test_a_part_of_a_batch_is_acknowledged(data, job):
    reader = rondo.Reader(data.address, "batches", job=job, acknowledge_by_hand=True)
    reader.acknowledge(next(reader))
    reader.acknowledge(next(reader), 5)
    reader.flush()
    reader.checkpoint(job)
    reader.close()
    again = next(rondo.Reader(data.address, "batches", job=job, resume=job))
    assert again["number"][0] == 37


def raises(reader):
    with reader:
        for _ in reader:
            raise RuntimeError("the trainer's own")


def is_interrupted(reader):
    with reader:
        for _ in reader:
            raise KeyboardInterrupt


def closes(reader):
    for _ in reader:
        break
    reader.close()


def is_forgotten(reader):
    for _ in reader:
        break


@pytest.mark.parametrize("fails", [raises, is_interrupted, closes, is_forgotten])
def test_a_batch_is_read_again_unless_the_next_one_was_asked_for(data, job, fails):
    """RONDO_RUNS=10000 for more runs."""
    for _ in range(int(os.environ.get("RONDO_RUNS", "50"))):
        reader = rondo.Reader(data.address, "batches", job=job)
        try:
            fails(reader)
        except (RuntimeError, KeyboardInterrupt):
            pass
        del reader
    rest = rondo.Reader(data.address, "batches", job=job)
    numbers = [number for batch in rest for number in batch["number"].tolist()]
    assert sorted(numbers) == list(range(RECORDS))


def test_what_was_acknowledged_before_closing_is_not_read_again(data, job):
    with rondo.Reader(data.address, "batches", job=job) as reader:
        reader.acknowledge(next(reader))
    assert next(rondo.Reader(data.address, "batches", job=job))["number"][0] == 32


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_reader_of_a_job_that_was_read_is_told_so(data, job):
    assert sum(len(batch) for batch in rondo.Reader(data.address, "numbers", job=job)) == RECORDS
    with rondo.Reader(data.address, "numbers", job=job) as again:
        with pytest.raises(RuntimeWarning, match=f"others have read this pass of the job .{job}"):
            next(again)
    # It is a warning: a program goes on with an empty pass.
    with pytest.warns(RuntimeWarning, match="this reader got nothing"):
        assert list(rondo.Reader(data.address, "numbers", job=job)) == []
    second = rondo.Reader(data.address, "numbers", job=job, repetition=1)
    assert sum(len(batch) for batch in second) == RECORDS
    # Who leaves before the end may have got nothing, too.
    third = rondo.Reader(data.address, "numbers", job=job, repetition=2)
    third.cancel()
    assert list(third) == []


def test_two_readers_share_a_job(data, job):
    one, other = (rondo.Reader(data.address, "numbers", job=job, group=(index, 2)) for index in range(2))
    read = [[], []]

    def take(index, reader):
        for batch in reader:
            read[index] += batch["number"].tolist()

    threads = [threading.Thread(target=take, args=it) for it in enumerate((one, other))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert read[0] and read[1] and sorted(read[0] + read[1]) == list(range(RECORDS))


def test_elements_have_the_datasets_structure(data, job):
    reader = rondo.Reader(data.address, "batches", job=job, mode="element", sharding="OFF")
    assert not reader.is_by_split
    element = next(reader)
    assert len(element) == 5
    value = element.value
    assert sorted(value) == ["half", "is_even", "name", "number", "pair"]
    assert value["number"].tolist() == list(range(32)) and value["pair"].shape == (32, 2)
    assert value["name"][3] == b"n3"
    assert [array.shape[0] for array in element.tensors] == [32] * 5


def test_settings_are_checked(data):
    for settings, words in [
        ({"jobs": "x"}, 'no setting "jobs"'),
        ({"sharding": "sideways"}, "DYNAMIC"),
        ({"mode": "both"}, "auto, split or element"),
        ({"group": (2, 2)}, "reader 2 of 2"),
        ({"resume": "p"}, "give the job's name"),
        ({"consumer": (0, 2)}, "sharding OFF"),
    ]:
        with pytest.raises(rondo.InvalidArgument, match=words):
            rondo.Reader(data.address, "numbers", **settings)
    with pytest.raises(rondo.NotFound, match="absent"):
        rondo.Reader(data.address, "absent")


def test_a_reader_is_cancelled_and_says_why_it_waits(servers, tmp_path):
    server = servers()
    pyarrow.parquet.write_table(table(10), tmp_path / "few.parquet")
    server.register("few", f'source: {{ parquet: {{ files: ["{tmp_path}/few.parquet"] }} }}\n')
    reader = rondo.Reader(server.address, "few", job="train")
    taken = []
    thread = threading.Thread(target=lambda: taken.extend(reader))
    thread.start()
    deadline = time.monotonic() + PATIENCE_S
    while "no worker has a task of it" not in (reader.progress().stall or ""):
        assert time.monotonic() < deadline, reader.progress()
        time.sleep(0.01)
    reader.cancel()
    thread.join(PATIENCE_S)
    assert not thread.is_alive() and taken == []
    reader.close()


def test_a_reader_outlives_the_servers_death(servers, tmp_path):
    server = servers()
    pyarrow.parquet.write_table(table(RECORDS), tmp_path / "many.parquet", row_group_size=100)
    source = f'source: {{ parquet: {{ files: ["{tmp_path}/many.parquet"] }} }}'
    server.register("many", source + "\nsplit_records: 100\n")
    worker = server.worker()
    reader = rondo.Reader(server.address, "many", job="train", batch_records=50, buffer=(4096, 2))
    numbers = next(reader)["number"].tolist()
    server.kill()
    threading.Timer(0.3, server.start).start()
    for batch in reader:
        numbers += batch["number"].tolist()
    assert numbers == list(range(RECORDS))
    worker.kill()


def test_close_says_whether_the_dispatcher_knows_what_was_consumed(servers, tmp_path):
    server = servers()
    pyarrow.parquet.write_table(table(RECORDS), tmp_path / "many.parquet", row_group_size=100)
    source = f'source: {{ parquet: {{ files: ["{tmp_path}/many.parquet"] }} }}'
    server.register("many", source + "\nsplit_records: 100\n")
    worker = server.worker()
    with rondo.Reader(server.address, "many", job="heard") as heard:
        heard.acknowledge(next(heard))
    unheard = rondo.Reader(server.address, "many", job="unheard", acknowledge_interval=60)
    failing = rondo.Reader(server.address, "many", job="failing")
    consumed, lost = next(unheard), next(failing)
    server.kill()
    # The server is gone, so that nobody can have been told of these.
    unheard.acknowledge(consumed)
    failing.acknowledge(lost)
    with pytest.raises(rondo.Unavailable, match="was not told what was consumed last"):
        unheard.close()
    with pytest.raises(KeyError, match="the block's own"), failing:
        raise KeyError("the block's own")
    unheard.close()
    worker.kill()


def test_ctrl_c_ends_what_waits(servers, tmp_path, interrupted):
    server = servers()
    pyarrow.parquet.write_table(table(10), tmp_path / "few.parquet")
    server.register("few", f'source: {{ parquet: {{ files: ["{tmp_path}/few.parquet"] }} }}\n')
    said = interrupted(f"""
        import rondo

        reader = rondo.Reader("{server.address}", "few", job="train")
        print("waiting", flush=True)
        try:
            next(reader)
        except KeyboardInterrupt:
            print("interrupted:", reader.progress().stall, flush=True)
        """)
    assert "interrupted: no worker has a task of it: none has registered, or all are lost" in said
