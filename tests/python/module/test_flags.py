"""What StepMesh's CUDA builds have beside exchanging tensors, on a CPU."""
import importlib.util
import threading
import time

import numpy
import pytest

import fserver_lib
import rondo
from conftest import PATIENCE_S
from rondo.errors import Unimplemented


def zeros(kind):
    if importlib.util.find_spec(kind) is None:
        pytest.skip(f"{kind} is not there")
    if kind == "torch":
        import torch
        return lambda: torch.zeros(1, dtype=torch.int64)
    return lambda: numpy.zeros(1, numpy.int64)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_stream_and_a_thread_hand_each_other_sequence_numbers(kind):
    make = zeros(kind)
    signal, acknowledged, sequence = make(), make(), make()
    signal_there = fserver_lib.map_pinned_tensor(tensor=signal, device_index=0)
    acknowledged_there = fserver_lib.map_pinned_tensor(acknowledged, 0)
    done = []

    def cpu():
        for expected in range(1, 21):
            while int(signal[0]) < expected:
                time.sleep(1e-4)
            done.append(expected)
            acknowledged[0] = expected

    thread = threading.Thread(target=cpu)
    thread.start()
    for number in range(1, 21):
        fserver_lib.seq_add_one(seq=sequence)
        fserver_lib.write_flag(flag=signal_there, seq=sequence)
        fserver_lib.wait_flag(flag=acknowledged_there, seq=sequence)
        assert len(done) >= number
    thread.join(PATIENCE_S)
    assert done == list(range(1, 21)) and int(sequence[0]) == 20
    # Older programs have the number itself; a flag that is beyond it is enough.
    fserver_lib.write_flag(signal, 30)
    fserver_lib.wait_flag(signal, 29)


def test_a_flag_that_nobody_raises_is_waited_for():
    flag = numpy.zeros(1, numpy.int64)
    raiser = threading.Timer(0.2, lambda: flag.__setitem__(0, 5))
    began = time.monotonic()
    raiser.start()
    fserver_lib.wait_flag(flag, 5)
    assert 0.15 < time.monotonic() - began < PATIENCE_S


def test_flags_on_a_gpu_are_refused_by_name():
    class OnGpu:
        is_cuda, device = True, "cuda:0"

    with pytest.raises(Unimplemented, match="wait_flag: flag is on cuda:0"):
        fserver_lib.wait_flag(OnGpu(), 1)
    with pytest.raises(Unimplemented, match="write_flag: seq is on cuda:0"):
        fserver_lib.write_flag(numpy.zeros(1), OnGpu())
    with pytest.raises(RuntimeError, match="map_pinned_tensor: tensor is on cuda:0"):
        fserver_lib.map_pinned_tensor(OnGpu(), 0)

    class Pinned:
        is_cuda = False

        def is_pinned(self):
            return True

    with pytest.raises(Unimplemented, match=r"map_pinned_tensor: tensor is pinned for a GPU \(3\)"):
        fserver_lib.map_pinned_tensor(Pinned(), 3)


def test_a_notification_is_begun_before_it_is_used():
    notify = fserver_lib.SimpleNotify()
    with pytest.raises(rondo.FailedPrecondition, match=r"init\(\) comes before everything else"):
        notify.init()
    for call in (notify.block_now_stream, notify.wait_event_done, notify.get_future_batch_data,
                 notify.block_now_stream_and_get_batch, lambda: notify.stream_wait_event(0)):
        with pytest.raises(rondo.FailedPrecondition, match="init"):
            call()
