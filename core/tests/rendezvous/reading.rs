//! Keys from any bytes, beside a naive reading of them.

use rondo_core::rendezvous::{Device, FrameAndIter, Key};
use rondo_core::status::Code;

/// Reads a text that may be a key. Whether it is one.
pub(crate) fn read(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let parts: Vec<&str> = text.split(';').collect();
    let key = match Key::parse(&text) {
        Ok(key) => key,
        Err(refused) => {
            assert_eq!(refused.code, Code::InvalidArgument);
            assert!(refused.message.starts_with("Invalid  rendezvous key: "), "{refused}");
            assert!(refused.message.len() < 1024, "{refused}");
            assert!(!is_one(&parts) || text.len() > 8192, "{text:?} is a key: {refused}");
            return false;
        }
    };
    assert!(is_one(&parts), "{text:?} is no key");
    assert_eq!(key.text(), text);
    assert_eq!(key.to_string(), text);
    assert_eq!((key.source().name(), key.destination().name()), (parts[0], parts[2]));
    assert_eq!((key.edge(), key.incarnation()), (parts[3], number(parts[1], 16).unwrap()));
    assert_eq!(Key::parse(key.text()), Ok(key.clone()));
    for device in [key.source(), key.destination()] {
        same_device(&device);
    }
    if let Some(at) = frame_and_iter(parts[4])
        && parts[1] == format!("{:016x}", key.incarnation())
    {
        let written = Key::create(parts[0], key.incarnation(), parts[2], parts[3], at);
        assert_eq!(written, Ok(key));
    }
    true
}

/// Names that are made of a device's name say the same of it.
fn same_device(device: &Device<'_>) {
    assert_eq!(Device::parse(device.name()).map(|it| it.kind()), Some(device.kind()));
    if let Some(worker) = device.worker() {
        let name = worker.to_string();
        let again = Device::parse(&name).unwrap();
        assert!(again.worker() == Some(worker) && again.is_of_worker_of(device), "{device:?}");
    }
    if let Some(local) = device.local() {
        let name = local.to_string();
        assert_eq!(Device::parse(&name).unwrap().local(), Some(local), "{device:?}");
    }
    let parts = (device.job(), device.replica(), device.task(), device.kind(), device.id());
    assert_eq!(device.is_implicit(), parts == (None, None, None, None, None), "{device:?}");
}

fn is_one(parts: &[&str]) -> bool {
    let [source, incarnation, destination, edge, last] = parts else {
        return false;
    };
    is_device(source)
        && is_device(destination)
        && incarnation.len() <= 16
        && number(incarnation, 16).is_some()
        && !edge.is_empty()
        && !last.is_empty()
}

/// A number of digits only: no sign.
fn number(digits: &str, radix: u32) -> Option<u64> {
    let is_digits = digits.chars().all(|digit| digit.is_digit(radix));
    u64::from_str_radix(digits, radix).ok().filter(|_| is_digits)
}

fn frame_and_iter(last: &str) -> Option<FrameAndIter> {
    let (frame, iter) = last.split_once(':')?;
    let at = FrameAndIter { frame_id: frame.parse().ok()?, iter_id: iter.parse().ok()? };
    (last == format!("{}:{}", at.frame_id, at.iter_id)).then_some(at)
}

/// Components between slashes, of which each begins with one.
fn is_device(name: &str) -> bool {
    if name.is_empty() || name == "/" {
        return true;
    }
    name.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_component))
}

fn is_component(component: &str) -> bool {
    let Some((what, value)) = component.split_once(':') else {
        return false;
    };
    let is_number = |text: &str| {
        text == "*" || number(text, 10).is_some_and(|it| it <= i32::MAX.unsigned_abs().into())
    };
    let is_word = |text: &str| {
        let mut letters = text.chars();
        text == "*"
            || letters.next().is_some_and(|first| first.is_ascii_alphabetic())
                && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    match what {
        "job" => is_word(value),
        "replica" | "task" | "cpu" | "CPU" | "gpu" | "GPU" => is_number(value),
        "device" => match value.split_once(':') {
            Some((kind, id)) => is_word(kind) && is_number(id),
            None => is_word(value),
        },
        _ => false,
    }
}
