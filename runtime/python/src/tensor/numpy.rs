//! Arrays of NumPy and whatever describes itself as they do (`__array_interface__`).

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rondo_core::exchange::ScalarType;

use super::error::Place;
use super::formats;
use super::view::{Device, Said};

/// What an array says of itself; `None` for what does not describe itself so.
///
/// # Errors
/// When its values are of a type that no tensor has.
pub(super) fn said(array: &Bound<'_, PyAny>, place: Place<'_>) -> PyResult<Option<Said>> {
    let Ok(interface) = array.getattr("__array_interface__") else {
        return Ok(None);
    };
    let Ok(interface) = interface.cast_into::<PyDict>() else {
        return Ok(None);
    };
    let Some(data) = interface.get_item("data")?.filter(|data| !data.is_none()) else {
        return Ok(None);
    };
    let (pointer, is_read_only): (usize, bool) = data.extract()?;
    let dtype = dtype_of(array, &interface, place)?;
    let item = i64::try_from(dtype.item_bytes()).unwrap_or(1);
    let strides = interface.get_item("strides")?.filter(|strides| !strides.is_none());
    let strides = strides.map(|strides| strides.extract::<Vec<i64>>()).transpose()?;
    // In bytes; what is no multiple of an item's lies where no contiguous value does.
    let in_items = |stride: &i64| if stride % item == 0 { stride / item } else { i64::MIN };
    Ok(Some(Said {
        pointer,
        dtype,
        shape: wanted(&interface, "shape")?.extract()?,
        strides: strides.map(|strides| strides.iter().map(in_items).collect()),
        device: Device::Cpu,
        stream: None,
        is_writable: !is_read_only,
        owner: array.clone().unbind(),
    }))
}

fn dtype_of(
    array: &Bound<'_, PyAny>,
    interface: &Bound<'_, PyDict>,
    place: Place<'_>,
) -> PyResult<ScalarType> {
    let typestr: String = wanted(interface, "typestr")?.extract()?;
    if let Some(dtype) = formats::of_typestr(&typestr) {
        return Ok(dtype);
    }
    // Types of the package ml_dtypes are nameless bytes here.
    let name = array.getattr("dtype").and_then(|dtype| dtype.getattr("name"));
    let name = name.and_then(|name| name.extract::<String>()).unwrap_or_default();
    if let (false, Some(dtype)) = (typestr.starts_with('>'), formats::of_name(&name)) {
        return Ok(dtype);
    }
    let what = match typestr.starts_with('>') {
        true => "the other byte order: give what astype makes of it".to_owned(),
        false => format!("the dtype {name} ({typestr}), which no tensor has"),
    };
    Err(place.refused(array.py(), format!("an array of {what}")))
}

fn wanted<'py>(interface: &Bound<'py, PyDict>, key: &str) -> PyResult<Bound<'py, PyAny>> {
    let found = interface.get_item(key)?;
    found.ok_or_else(|| {
        pyo3::exceptions::PyKeyError::new_err(format!("__array_interface__ without {key}"))
    })
}
