# SPDX-License-Identifier: MIT
"""Arrays that say to be on a CUDA device. Their memory is NumPy's, which the driver of tests/cuda/ptx takes for a device's."""
import ctypes as c
import threading

import numpy as np

CUDA, ROCM = 2, 10
_CODES = {"f": 2, "i": 0, "u": 1, "b": 6}


class Device(c.Structure):
    _fields_ = [("type", c.c_int32), ("id", c.c_int32)]


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device", Device), ("rank", c.c_int32), ("code", c.c_uint8), ("bits", c.c_uint8),
                ("lanes", c.c_uint16), ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)),
                ("byte_offset", c.c_uint64)]


class Managed(c.Structure):
    pass


Deleter = c.CFUNCTYPE(None, c.POINTER(Managed))
Managed._fields_ = [("version", c.c_uint32 * 2), ("owner", c.c_void_p), ("deleter", Deleter), ("flags", c.c_uint64),
                    ("tensor", Tensor)]
_exported = {}  # the structures that others hold, by address


@Deleter
def _delete(managed):
    del _exported[c.addressof(managed.contents)]


def export(array, device):
    """A DLManagedTensorVersioned of a NumPy array, as one on `device`."""
    rank = array.ndim
    shape = (c.c_int64 * rank)(*array.shape)
    strides = (c.c_int64 * rank)(*(s // array.itemsize for s in array.strides))
    tensor = Tensor(array.ctypes.data, Device(*device), rank, _CODES[array.dtype.kind], 8 * array.itemsize, 1, shape, strides,
                    0)
    managed = Managed((c.c_uint32 * 2)(1, 0), None, _delete, 0, tensor)
    _exported[c.addressof(managed)] = (managed, array, shape, strides)
    return managed


def held():
    """The number of structures that a call still holds."""
    return len(_exported)


_capsule = c.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = c.py_object, [c.c_void_p, c.c_char_p, c.c_void_p]


class OnDevice:
    """An array with DLPack alone, as CuPy has it. `asked`: the streams that it was asked to serve."""

    def __init__(self, array, device=0, kind=CUDA):
        self.array, self.device, self.asked = array, (kind, device), []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None):
        self.asked.append(stream)
        return _capsule(c.addressof(export(self.array, self.device)), b"dltensor_versioned", None)


class _Current(threading.local):
    stream = 0


class _Streams(type):
    """`stream`: the current one of the library in a thread."""
    current = _Current()

    @property
    def stream(cls):
        return cls.current.stream

    @stream.setter
    def stream(cls, number):
        cls.current.stream = number


class WithTable(metaclass=_Streams):
    """An array whose type has DLPack's table of functions, as torch's."""

    def __init__(self, array, device=0):
        self.array, self.device = array, (CUDA, device)


def _allocate(prototype, out, error, set_error):
    wanted = prototype.contents
    kind = next(k for k, code in _CODES.items() if code == wanted.code)
    array = np.full([wanted.shape[n] for n in range(wanted.rank)], 7, f"{kind}{wanted.bits // 8}")
    out[0] = c.pointer(export(array, (wanted.device.type, wanted.device.id)))
    return 0


def _from_object(array, out):
    out[0] = c.pointer(export(array.array, array.device))
    return 0


def _to_object(managed, out):
    _, array, shape, strides = _exported[c.addressof(managed.contents)]
    tensor = managed.contents.tensor
    view = np.lib.stride_tricks.as_strided(array, [tensor.shape[n] for n in range(tensor.rank)],
                                           [tensor.strides[n] * array.itemsize for n in range(tensor.rank)])
    made = WithTable(view, tensor.device.id)
    c.pythonapi.Py_IncRef(c.py_object(made))
    out[0] = id(made)
    _delete(managed)
    return 0


def _current_stream(kind, number, out):
    out[0] = WithTable.stream or None
    return 0


class Table(c.Structure):
    _fields_ = [("version", c.c_uint32 * 2), ("previous", c.c_void_p),
                ("allocate", c.CFUNCTYPE(c.c_int, c.POINTER(Tensor), c.POINTER(c.POINTER(Managed)), c.c_void_p, c.c_void_p)),
                ("from_object", c.PYFUNCTYPE(c.c_int, c.py_object, c.POINTER(c.POINTER(Managed)))),
                ("to_object", c.PYFUNCTYPE(c.c_int, c.POINTER(Managed), c.POINTER(c.c_void_p))),
                ("view_of_object", c.c_void_p),
                ("current_stream", c.CFUNCTYPE(c.c_int, c.c_int32, c.c_int32, c.POINTER(c.c_void_p)))]


_kinds = dict(Table._fields_)
_table = Table((c.c_uint32 * 2)(1, 3), None, _kinds["allocate"](_allocate), _kinds["from_object"](_from_object),
               _kinds["to_object"](_to_object), None, _kinds["current_stream"](_current_stream))
_name = b"dlpack_exchange_api"  # whose memory the capsule keeps no hold of
WithTable.__dlpack_c_exchange_api__ = _capsule(c.addressof(_table), _name, None)


class Counts(c.Structure):
    """tests/cuda/ptx/driver_counts.h"""
    _fields_ = [(name, c.c_long) for name in ("launches", "copies", "waits", "allocations", "barriers", "refused")]
    _fields_ += [("last_stream", c.c_void_p)]


def driver_counts():
    """The counts of the driver that interprets kernels; None where the driver is another."""
    library = c.CDLL("libcuda.so.1")
    if not hasattr(library, "attune_driver_counts"):
        return None
    library.attune_driver_counts.restype = c.POINTER(Counts)
    return library.attune_driver_counts().contents
