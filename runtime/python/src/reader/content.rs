//! Tensors that were read, as values of Python.

use arrow::datatypes::{DataType, Field, Fields};
use bytes::Bytes;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList};
use rondo::tensor::HostBuffer;
use rondo_core::element::{Dtype, Tensor, Values};
use rondo_core::exchange::ScalarType;
use rondo_core::status::{Code, Status};

use crate::error::raised;
use crate::tensor::HostTensor;

/// Tensors of a record or of a column, one after the other.
pub(super) type Tensors = std::vec::IntoIter<Tensor>;
/// What makes a value of a tensor; strings are text or not.
pub(super) type Convert = for<'py> fn(Python<'py>, &Tensor, bool) -> PyResult<Bound<'py, PyAny>>;

/// The value of a column that has these tensors.
pub(super) fn field<'py>(
    py: Python<'py>,
    field: &Field,
    tensors: &mut Tensors,
    convert: Convert,
) -> PyResult<Bound<'py, PyAny>> {
    match field.data_type() {
        DataType::Struct(members) => members_of(py, members, tensors, convert),
        kind => {
            let tensor = tensors.next();
            let tensor = tensor.ok_or_else(|| missing(py, field.name()))?;
            convert(py, &tensor, is_text(kind))
        }
    }
}

/// The members of a struct, whose tensors are in the order of their names.
fn members_of<'py>(
    py: Python<'py>,
    members: &Fields,
    tensors: &mut Tensors,
    convert: Convert,
) -> PyResult<Bound<'py, PyAny>> {
    let mut sorted: Vec<&Field> = members.iter().map(AsRef::as_ref).collect();
    sorted.sort_by_key(|field| field.name());
    let found = PyDict::new(py);
    for member in sorted {
        found.set_item(member.name(), field(py, member, tensors, convert)?)?;
    }
    Ok(found.into_any())
}

fn missing(py: Python<'_>, name: &str) -> PyErr {
    raised(py, &Status::new(Code::Internal, format!("the column {name:?} has no tensor")))
}

/// Whether strings of this type are text.
fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_text(item.data_type())
        }
        _ => false,
    }
}

/// A tensor as an array of NumPy, where its values lie; strings are objects.
pub(super) fn array<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    is_text: bool,
) -> PyResult<Bound<'py, PyAny>> {
    static OBJECTS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    match tensor.values() {
        Values::Fixed(_) => HostTensor::of_read(py, tensor)?.numpy_of(py),
        Values::Strings { .. } => {
            let strings = PyList::empty(py);
            for string in tensor.each_string() {
                strings.append(string_of(py, &string, is_text)?)?;
            }
            let shape: Vec<u64> = tensor.shape().sizes().to_vec();
            OBJECTS.import(py, "rondo._numpy", "objects")?.call1((strings, shape))
        }
        Values::Encoded(bytes) => Ok(PyBytes::new(py, bytes).into_any()),
    }
}

/// A tensor as a value: a number, text or bytes if it is one, else as [`array`].
pub(super) fn single<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    is_text: bool,
) -> PyResult<Bound<'py, PyAny>> {
    if !tensor.shape().sizes().is_empty() {
        return array(py, tensor, is_text);
    }
    match tensor.values() {
        Values::Strings { bytes, .. } => string_of(py, bytes, is_text),
        Values::Encoded(bytes) => Ok(PyBytes::new(py, bytes).into_any()),
        Values::Fixed(bytes) => number(py, tensor, bytes),
    }
}

fn string_of<'py>(py: Python<'py>, bytes: &Bytes, is_text: bool) -> PyResult<Bound<'py, PyAny>> {
    if is_text && let Ok(text) = std::str::from_utf8(bytes) {
        return text.into_bound_py_any(py);
    }
    Ok(PyBytes::new(py, bytes).into_any())
}

/// The one number of a tensor.
fn number<'py>(py: Python<'py>, tensor: &Tensor, bytes: &Bytes) -> PyResult<Bound<'py, PyAny>> {
    macro_rules! of {
        ($kind:ty) => {
            match <[u8; size_of::<$kind>()]>::try_from(bytes.as_ref()) {
                Ok(bytes) => return <$kind>::from_le_bytes(bytes).into_bound_py_any(py),
                Err(_) => {}
            }
        };
    }
    match tensor.dtype() {
        Dtype::Bool => return bytes.iter().any(|byte| *byte != 0).into_bound_py_any(py),
        Dtype::Int8 => of!(i8),
        Dtype::Int16 => of!(i16),
        Dtype::Int32 => of!(i32),
        Dtype::Int64 => of!(i64),
        Dtype::Uint8 => of!(u8),
        Dtype::Uint16 => of!(u16),
        Dtype::Uint32 => of!(u32),
        Dtype::Uint64 => of!(u64),
        Dtype::Float => of!(f32),
        Dtype::Double => of!(f64),
        _ => {}
    }
    // What Python has no number for is one of NumPy's.
    array(py, tensor, false)?.get_item(())
}

impl HostTensor {
    /// A tensor that was read, where its values lie if they are aligned there.
    pub(super) fn of_read(py: Python<'_>, tensor: &Tensor) -> PyResult<Self> {
        let buffer = HostBuffer::of(tensor).aligned_for(tensor.dtype());
        let shape =
            tensor.shape().sizes().iter().map(|size| i64::try_from(*size).unwrap_or(i64::MAX));
        let shape: Vec<i64> = shape.collect();
        Self::shared(buffer.bytes().clone(), scalar_type(tensor.dtype()), &shape)
            .map_err(|status| raised(py, &status))
    }
}

/// The type of values that lie in the same way.
const fn scalar_type(dtype: Dtype) -> ScalarType {
    match dtype {
        Dtype::Float => ScalarType::Float,
        Dtype::Double => ScalarType::Double,
        Dtype::Int32 | Dtype::Qint32 => ScalarType::Int,
        Dtype::Int16 | Dtype::Qint16 => ScalarType::Short,
        Dtype::Int8 | Dtype::Qint8 | Dtype::Int4 | Dtype::Int2 => ScalarType::Char,
        Dtype::Int64 => ScalarType::Long,
        Dtype::Bool => ScalarType::Bool,
        Dtype::Bfloat16 => ScalarType::BFloat16,
        Dtype::Half => ScalarType::Half,
        Dtype::Complex64 => ScalarType::ComplexFloat,
        Dtype::Complex128 => ScalarType::ComplexDouble,
        Dtype::Uint16 | Dtype::Quint16 => ScalarType::UInt16,
        Dtype::Uint32 => ScalarType::UInt32,
        Dtype::Uint64 => ScalarType::UInt64,
        Dtype::Float8E5m2 => ScalarType::Float8E5m2,
        Dtype::Float8E4m3fn => ScalarType::Float8E4m3fn,
        Dtype::Float8E4m3fnuz => ScalarType::Float8E4m3fnuz,
        Dtype::Float8E5m2fnuz => ScalarType::Float8E5m2fnuz,
        Dtype::Uint8
        | Dtype::Quint8
        | Dtype::Uint4
        | Dtype::Uint2
        | Dtype::Float4E2m1fn
        | Dtype::Float8E4m3b11fnuz
        | Dtype::String
        | Dtype::Resource
        | Dtype::Variant => ScalarType::Byte,
    }
}
