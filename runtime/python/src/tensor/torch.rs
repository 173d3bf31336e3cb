//! Tensors of torch, by the methods that each of its releases has: nothing is linked to libtorch.

use pyo3::prelude::*;
use rondo_core::exchange::ScalarType;

use super::error::Place;
use super::formats;
use super::view::{Described, Device, Said, imported};

/// What torch says of a tensor of its own; `None` for anything else.
///
/// # Errors
/// When its bytes alone do not say what it means, or nobody but torch can read them.
pub(super) fn said(tensor: &Bound<'_, PyAny>, place: Place<'_>) -> PyResult<Option<Said>> {
    let py = tensor.py();
    let Some(torch) = imported(py, "torch")? else {
        return Ok(None);
    };
    // A program that has imported half of torch has no tensor yet.
    let Ok(class) = torch.getattr("Tensor") else {
        return Ok(None);
    };
    if !tensor.is_instance(&class)? {
        return Ok(None);
    }
    let dtype = dtype_of(tensor, place)?;
    let shape: Vec<i64> = tensor.getattr("shape")?.extract()?;
    let described = Described(dtype, &shape);
    let layout = tensor.getattr("layout")?.str()?.to_string();
    if layout != "torch.strided" {
        let what = format!("{described} has the layout {layout}: give what to_dense() makes of it");
        return Err(place.refused(py, what));
    }
    if tensor.getattr("is_quantized")?.is_truthy()? {
        let what = format!("{described} is quantized, its bytes alone do not say what they mean");
        return Err(place.refused(py, what));
    }
    for (is, resolve) in [("is_conj", "resolve_conj"), ("is_neg", "resolve_neg")] {
        if tensor.call_method0(is)?.is_truthy()? {
            let what = format!(
                "{described} is a lazy view of other values: give what {resolve}() makes of it"
            );
            return Err(place.refused(py, what));
        }
    }
    let (device, stream) = device_of(&torch, tensor, place)?;
    let strides: Vec<i64> = tensor.call_method0("stride")?.extract()?;
    Ok(Some(Said {
        pointer: tensor.call_method0("data_ptr")?.extract()?,
        dtype,
        shape,
        strides: Some(strides),
        device,
        stream,
        is_writable: true,
        owner: tensor.clone().unbind(),
    }))
}

fn dtype_of(tensor: &Bound<'_, PyAny>, place: Place<'_>) -> PyResult<ScalarType> {
    let name = tensor.getattr("dtype")?.str()?.to_string();
    let known = formats::of_name(name.strip_prefix("torch.").unwrap_or(&name));
    known.ok_or_else(|| {
        place.refused(tensor.py(), format!("tensors of the dtype {name} cannot be exchanged"))
    })
}

/// Where a tensor lies, and the stream on which the caller works there.
fn device_of(
    torch: &Bound<'_, PyAny>,
    tensor: &Bound<'_, PyAny>,
    place: Place<'_>,
) -> PyResult<(Device, Option<u64>)> {
    let device = tensor.getattr("device")?;
    match device.getattr("type")?.extract::<String>()?.as_str() {
        "cpu" => Ok((Device::Cpu, None)),
        "cuda" => {
            let number = device.getattr("index")?.extract()?;
            let stream = torch.getattr("cuda")?.call_method1("current_stream", (&device,))?;
            Ok((Device::Cuda(number), Some(stream.getattr("cuda_stream")?.extract()?)))
        }
        other => {
            let what = format!("a tensor on the device {other:?}: cpu and cuda are exchanged");
            Err(place.refused(tensor.py(), what))
        }
    }
}
