"""Tensors of other libraries, by where they lie."""
import ctypes
import gc
import mmap
import struct
import weakref

import ml_dtypes
import numpy
import pytest

import rondo
from rondo import tensors

# torch's numbers of types, out of c10/core/ScalarType.h of release 2.11.
NUMBERS = {
    "uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "float32": 6, "float64": 7,
    "complex64": 9, "complex128": 10, "bool": 11, "bfloat16": 15, "float8_e5m2": 23, "float8_e4m3fn": 24,
    "float8_e5m2fnuz": 25, "float8_e4m3fnuz": 26, "uint16": 27, "uint32": 28, "uint64": 29,
    "float8_e8m0fnu": 44,
}


class Foreign:
    """A tensor of a library that is known for nothing but DLPack."""

    def __init__(self, array, is_old=False):
        self.array, self.is_old = array, is_old
        self.asked = []

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **asked):
        self.asked.append(asked)
        if self.is_old and asked:
            raise TypeError("unexpected keyword argument")
        return self.array.__dlpack__(**asked)


def array_of(name, shape=(3, 4)):
    dtype = getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else numpy.dtype(name)
    count = int(numpy.prod(shape))
    return numpy.arange(count).reshape(shape).astype(dtype)


class Newer:
    """A tensor by a DLPack that is not known yet: only its version can be relied on."""

    def __init__(self):
        # A page's end: whoever reads on behind the version faults.
        self.pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))
        self.place = start + mmap.PAGESIZE - 8
        self.pages[mmap.PAGESIZE - 8:mmap.PAGESIZE] = struct.pack("II", 2, 0)
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(ctypes.c_void_p(start + mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **asked):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(self.place, b"dltensor_versioned", None)


def test_a_newer_dlpack_is_refused_by_its_version():
    with pytest.raises(rondo.InvalidArgument, match="DLPack 2 is spoken, 1 is known"):
        tensors.describe(Newer())


@pytest.mark.parametrize("name", NUMBERS)
def test_arrays_of_every_type_are_seen_where_they_lie(name):
    array = array_of(name)
    info = tensors.describe(array)
    assert (info.pointer, info.nbytes) == (array.ctypes.data, array.nbytes)
    assert (info.dtype, info.scalar_type, info.shape) == (name, NUMBERS[name], (3, 4))
    assert info.device == "cpu" and info.stream is None and info.writable and info.owner is array
    assert tensors.tobytes(array) == array.tobytes()


@pytest.mark.parametrize("name", NUMBERS)
def test_our_memory_is_seen_where_it_lies(name):
    tensor = tensors.zeros([3, 4], name)
    array = tensor.numpy()
    assert array.ctypes.data == tensor.pointer and tensor.pointer % 64 == 0
    assert array.dtype.name == name and array.shape == (3, 4) == tensor.shape
    assert not array.view(numpy.uint8).any()
    array[...] = array_of(name)
    assert tensors.tobytes(tensor) == array_of(name).tobytes()
    info = tensors.describe(tensor, writable=True)
    assert (info.pointer, info.dtype) == (tensor.pointer, tensor.dtype)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (2, 3, 4), (1,) * 8])
def test_shapes_of_every_kind(shape):
    array = numpy.ones(shape, numpy.int32)
    for tensor in (array, Foreign(array), Foreign(array, is_old=True)):
        info = tensors.describe(tensor)
        assert info.shape == shape and info.nbytes == array.nbytes
        assert tensors.tobytes(tensor) == array.tobytes()
    ours = tensors.zeros(list(shape), "int32")
    assert numpy.from_dlpack(ours).shape == shape and ours.numpy().shape == shape


@pytest.mark.parametrize("name", [name for name in NUMBERS if not hasattr(ml_dtypes, name)])
def test_dlpack_both_ways(name):
    array = array_of(name)
    info = tensors.describe(Foreign(array))
    assert (info.pointer, info.dtype, info.writable) == (array.ctypes.data, name, True)
    ours = tensors.zeros([3, 4], name)
    theirs = numpy.from_dlpack(ours)
    assert theirs.ctypes.data == ours.pointer and theirs.dtype == array.dtype
    # What came before version 1 says nothing of writing, so nobody writes.
    assert not tensors.describe(Foreign(array, is_old=True)).writable


def test_a_slice_is_seen_at_its_place():
    array = numpy.arange(24, dtype=numpy.int16).reshape(6, 4)[2:4]
    for tensor in (array, Foreign(array)):
        assert tensors.tobytes(tensor) == array.tobytes()
        assert tensors.describe(tensor).pointer == array.ctypes.data


def test_what_has_gaps_is_named():
    whole = numpy.zeros((6, 4), numpy.float32)
    columns, rows = (whole[:, :2], "[6, 2]"), (whole[::2], "[3, 4]")
    for gaps, shape in [columns, rows, (whole.T, "[4, 6]"), (whole[::-1], "[6, 4]")]:
        for tensor in (gaps, Foreign(gaps)):
            with pytest.raises(rondo.InvalidArgument) as caught:
                tensors.describe_all([whole, tensor], name="push_tensors")
            text = str(caught.value)
            assert text.startswith("push_tensors[1]: ") and "float32" in text and shape in text, text
            assert "not contiguous" in text and isinstance(caught.value, ValueError)
    # Sizes of one are nowhere but here, whatever their strides are.
    assert tensors.describe(whole[:1, :].T[:, :1]).shape == (4, 1)


def test_what_is_read_only_is_not_received_into():
    array = numpy.zeros(3)
    array.flags.writeable = False
    assert not tensors.describe(array).writable
    with pytest.raises(rondo.InvalidArgument, match=r"pull_tensors\[0\]: .*float64.*\[3\].*read-only"):
        tensors.describe_all([array], name="pull_tensors", writable=True)


@pytest.mark.parametrize("wrong, words", [
    ("text", "str is no tensor"),
    (3, "int is no tensor"),
    ([1, 2], "list is no tensor"),
    (numpy.zeros(2, ">f4"), "byte order"),
    (numpy.array(["a"]), "<U1"),
    (numpy.zeros(2, "datetime64[s]"), "datetime64"),
    (numpy.zeros(2, [("a", "i4"), ("b", "f4")]), "no tensor has"),
    (numpy.zeros((1,) * 9), "9 dimensions"),
])
def test_what_is_no_tensor_is_named(wrong, words):
    with pytest.raises(rondo.InvalidArgument, match=words):
        tensors.describe(wrong)
    with pytest.raises(rondo.InvalidArgument, match="tensors: .* no list of tensors"):
        tensors.describe_all(7)


def test_a_capsule_of_another_device_is_named():
    tensor = Foreign(numpy.zeros(1))
    tensor.__class__ = type("Elsewhere", (Foreign,), {"__dlpack_device__": lambda self: (8, 0)})
    with pytest.raises(rondo.InvalidArgument, match="device 8"):
        tensors.describe(tensor)


def test_memory_lives_as_long_as_somebody_sees_it():
    class Array(numpy.ndarray):
        pass

    array = numpy.zeros(1000).view(Array)
    gone = weakref.ref(array)
    info = tensors.describe(Foreign(array))
    del array
    gc.collect()
    assert gone() is not None
    del info
    gc.collect()
    assert gone() is None
    for see in (lambda ours: ours.numpy(), numpy.from_dlpack):
        ours = tensors.zeros([1 << 20], "uint8")
        seen = see(ours)
        seen[:] = 7
        del ours
        gc.collect()
        # Whoever gets the memory now would overwrite it.
        others = [tensors.zeros([1 << 20], "uint8").numpy() for _ in range(4)]
        assert (seen == 7).all() and not any(other.any() for other in others)
    # Capsules that nobody takes are given back.
    for _ in range(100):
        tensors.zeros([1 << 20], "uint8").__dlpack__(max_version=(1, 0))
        tensors.zeros([1 << 20], "uint8").__dlpack__()


def test_zeros_are_checked():
    with pytest.raises(rondo.InvalidArgument, match="float31"):
        tensors.zeros([1], "float31")
    with pytest.raises(rondo.InvalidArgument, match="negative"):
        tensors.zeros([2, -1])
    with pytest.raises(rondo.RondoError, match="bytes"):
        tensors.zeros([1 << 62, 4])
    with pytest.raises(rondo.RondoError, match=str(1 << 60)):
        tensors.zeros([1 << 60], "uint8")
    with pytest.raises(BufferError):
        tensors.zeros([1]).__dlpack__(dl_device=(2, 0))
