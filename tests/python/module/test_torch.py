"""Tensors and DataLoaders of a real torch, where there is one."""
import pytest

torch = pytest.importorskip("torch", reason="torch cannot be imported")

import rondo  # noqa: E402
from conftest import RECORDS  # noqa: E402
from rondo import tensors  # noqa: E402
from rondo.torch import IterableDataset  # noqa: E402
from test_tensors import NUMBERS  # noqa: E402


def chosen(row):
    return {name: row[name] for name in ("number", "half", "name")}


def numbers_of(loader):
    return [number for batch in loader for number in batch["number"].tolist()]


@pytest.mark.parametrize("name", NUMBERS)
def test_tensors_of_every_type_are_seen_where_they_lie(name):
    dtype = getattr(torch, name)
    tensor = torch.zeros((3, 4), dtype=torch.uint8).to(dtype) if dtype.itemsize > 1 else \
        torch.arange(12, dtype=torch.uint8).reshape(3, 4).view(dtype)
    info = tensors.describe(tensor)
    assert (info.pointer, info.nbytes) == (tensor.data_ptr(), tensor.numel() * tensor.element_size())
    assert (info.dtype, info.scalar_type, info.shape) == (name, NUMBERS[name], (3, 4))
    assert info.device == "cpu" and info.stream is None and info.writable
    assert tensors.tobytes(tensor) == tensor.view(torch.uint8).numpy().tobytes()
    ours = tensors.zeros([3, 4], name)
    theirs = ours.torch()
    assert theirs.dtype == dtype and theirs.shape == (3, 4) and theirs.data_ptr() == ours.pointer
    theirs.view(torch.uint8).fill_(1)
    assert set(tensors.tobytes(ours)) == {1}
    assert tensors.zeros([], name).torch().shape == () and tensors.zeros([0, 2], name).torch().shape == (0, 2)


@pytest.mark.parametrize("wrong, words", [
    (lambda: torch.zeros(6, 4)[:, :2], r"tensor: .*float32.*\[6, 2\].*strides \[4, 1\] is not contiguous"),
    (lambda: torch.zeros(6, 4).T, r"\[4, 6\].*not contiguous"),
    (lambda: torch.zeros(3).to_sparse(), "sparse_coo.*to_dense"),
    (lambda: torch.zeros(3, device="meta"), "'meta'|\"meta\""),
    (lambda: torch.zeros(3, dtype=torch.complex64).conj(), "resolve_conj"),
    (lambda: torch.zeros(3, dtype=torch.complex64).conj().imag, "resolve_neg|not contiguous"),
    (lambda: torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8), "quantized"),
    (lambda: torch.zeros((1,) * 9), "9 dimensions"),
])
def test_what_cannot_be_exchanged_is_named(wrong, words):
    with pytest.raises(rondo.InvalidArgument, match=words):
        tensors.describe(wrong())


def test_parameters_slices_and_empty_ones_are_taken():
    parameter = torch.nn.Parameter(torch.ones(4))
    assert tensors.describe(parameter).pointer == parameter.data_ptr()
    part = torch.arange(12)[4:8]
    assert tensors.tobytes(part) == part.numpy().tobytes()
    assert tensors.describe(torch.zeros(0, 3)).nbytes == 0
    assert tensors.describe(torch.tensor(2.5)).shape == ()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_tensors_on_a_gpu_are_seen_with_their_stream():
    tensor = torch.ones(5, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        info = tensors.describe(tensor)
    assert (info.pointer, info.device, info.stream) == (tensor.data_ptr(), "cuda:0", stream.cuda_stream)
    with pytest.raises(rondo.InvalidArgument, match="cuda:0"):
        tensors.tobytes(tensor)


def test_a_data_loader_has_every_record_once(data, job):
    dataset = IterableDataset(data.address, "numbers", job=job, transform=chosen)
    loader = torch.utils.data.DataLoader(dataset, batch_size=64)
    batches = list(loader)
    assert numbers_of(batches) == list(range(RECORDS))
    assert batches[0]["half"].dtype == torch.float64 and batches[0]["name"][3] == "n3"


def test_workers_of_a_data_loader_share_the_records(data, job):
    dataset = IterableDataset(data.address, "numbers", job=job, transform=chosen)
    loader = torch.utils.data.DataLoader(dataset, batch_size=50, num_workers=2)
    assert sorted(numbers_of(loader)) == list(range(RECORDS))
    with pytest.raises(rondo.FailedPrecondition, match="num_workers"):
        dataset.state_dict()


def test_a_trainer_goes_on_exactly_where_it_saved(data, job):
    def trainer():
        dataset = IterableDataset(data.address, "numbers", job=job, transform=chosen)
        return dataset, torch.utils.data.DataLoader(dataset, batch_size=7)

    dataset, loader = trainer()
    batches = iter(loader)
    seen = numbers_of(next(batches) for _ in range(100))
    state = dataset.state_dict()
    assert state["position"] == f"{job}-700"
    # What the trainer does after its checkpoint is lost with it.
    numbers_of(next(batches) for _ in range(50))
    del batches
    dataset, loader = trainer()
    dataset.load_state_dict(state)
    seen += numbers_of(loader)
    assert seen == list(range(RECORDS))
    assert dataset.state_dict("at the end")["position"] == "at the end"


def test_batches_are_tensors(data, job):
    dataset = IterableDataset(data.address, "batches", job=job, batches=True)
    batches = iter(dataset)
    batch = next(batches)
    assert batch["number"].tolist() == list(range(32)) and batch["pair"].shape == (32, 2)
    assert batch["half"].dtype == torch.float32 and batch["name"][5] == "n5"
    batch["number"].zero_()
    state = dataset.state_dict(job)
    batches.close()
    dataset.load_state_dict(state)
    assert next(iter(dataset))["number"][0] == 32


@pytest.mark.parametrize("batches", [False, True])
def test_an_iteration_that_is_broken_off_consumes_nothing_of_what_it_yielded_last(data, job, batches):
    dataset = IterableDataset(data.address, "batches", job=job, batches=batches)
    rows = iter(dataset)
    next(rows)
    rows.close()
    with pytest.raises(rondo.FailedPrecondition, match="broken off.*before the iteration ends"):
        dataset.state_dict("late")
    again = next(iter(dataset))["number"]
    assert (again[0] if batches else again) == 0


def test_who_breaks_off_hears_that_the_server_does_not_know_what_was_read(short_lived_data, job):
    rows = iter(IterableDataset(short_lived_data.address, "numbers", job=job, transform=chosen))
    next(rows)
    short_lived_data.kill()
    with pytest.raises(rondo.RondoError):
        rows.close()


def test_an_error_of_the_data_comes_before_one_of_closing(short_lived_data, job):
    def broken(row):
        short_lived_data.kill()
        raise ValueError(f"no such number: {row['number']}")

    with pytest.raises(ValueError, match="no such number: 0"):
        next(iter(IterableDataset(short_lived_data.address, "numbers", job=job, transform=broken)))


def test_states_are_checked(data, job):
    dataset = IterableDataset(data.address, "numbers")
    with pytest.raises(rondo.FailedPrecondition, match="name"):
        dataset.state_dict()
    named = IterableDataset(data.address, "numbers", job=job)
    with pytest.raises(rondo.FailedPrecondition, match="nothing was read"):
        named.state_dict()
    with pytest.raises(rondo.InvalidArgument, match="version"):
        named.load_state_dict({})
    with pytest.raises(rondo.InvalidArgument, match="other"):
        named.load_state_dict({"version": 1, "dataset": "other", "position": "p", "job": job})
    with pytest.raises(rondo.InvalidArgument, match="resume"):
        IterableDataset(data.address, "numbers", resume="p")
