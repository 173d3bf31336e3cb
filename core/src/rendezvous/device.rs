//! Names of devices, as TensorFlow's workers write them: `/job:NAME/replica:N/task:N/device:TYPE:N`, any
//! component of which may be missing.

use core::fmt;

/// A part of a text, in bytes from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    from: u32,
    to: u32,
}

impl Span {
    fn new(from: usize, to: usize) -> Option<Self> {
        Some(Self { from: u32::try_from(from).ok()?, to: u32::try_from(to).ok()? })
    }

    pub(super) fn of(self, text: &str) -> &str {
        text.get(self.from as usize..self.to as usize).unwrap_or_default()
    }
}

/// The components of a name; those that are missing or `*` are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Components {
    job: Option<Span>,
    replica: Option<u32>,
    task: Option<u32>,
    kind: Option<Span>,
    id: Option<u32>,
}

/// A device's name. Some or all of its components may be missing.
#[derive(Clone, Copy)]
pub struct Device<'a> {
    text: &'a str,
    name: Span,
    components: Components,
}

impl<'a> Device<'a> {
    /// Reads a name; `None` if it is none. Nothing at all and `/` are names without components.
    pub fn parse(name: &'a str) -> Option<Self> {
        Self::within(name, 0, name.len())
    }

    /// Reads the name that stands in this part of a text.
    pub(super) fn within(text: &'a str, from: usize, to: usize) -> Option<Self> {
        let components = Reader { text: text.get(..to)?.as_bytes(), at: from }.components()?;
        Some(Self { text, name: Span::new(from, to)?, components })
    }

    /// The name whose components were read before.
    pub(super) const fn of(text: &'a str, name: Span, components: Components) -> Self {
        Self { text, name, components }
    }

    pub(super) const fn parts(&self) -> (Span, Components) {
        (self.name, self.components)
    }

    /// The name as it was written.
    pub fn name(&self) -> &'a str {
        self.name.of(self.text)
    }

    /// The job.
    pub fn job(&self) -> Option<&'a str> {
        self.components.job.map(|span| span.of(self.text))
    }

    /// The replica within the job.
    pub const fn replica(&self) -> Option<u32> {
        self.components.replica
    }

    /// The task within the replica.
    pub const fn task(&self) -> Option<u32> {
        self.components.task
    }

    /// The device's type, in the letters in which it was written: the short `/cpu:0` means `CPU`.
    pub fn kind(&self) -> Option<&'a str> {
        let kind = self.components.kind?.of(self.text);
        Some(match kind {
            "cpu" if self.is_short() => "CPU",
            "gpu" if self.is_short() => "GPU",
            kind => kind,
        })
    }

    /// Which of the devices of its type.
    pub const fn id(&self) -> Option<u32> {
        self.components.id
    }

    /// Whether nothing is said: then the device is one of this process.
    pub fn is_implicit(&self) -> bool {
        self.components == Components::default()
    }

    /// Whether job, replica and task are named in both names, and are the same.
    pub fn is_of_worker_of(&self, other: &Device<'_>) -> bool {
        self.job().is_some()
            && self.replica().is_some()
            && self.task().is_some()
            && (self.job(), self.replica(), self.task())
                == (other.job(), other.replica(), other.task())
    }

    /// The worker's name alone; `None` if job, replica or task are missing.
    pub fn worker(&self) -> Option<Worker<'a>> {
        Some(Worker { job: self.job()?, replica: self.replica()?, task: self.task()? })
    }

    /// The name of the device within its worker; `None` if type or number are missing.
    pub fn local(&self) -> Option<Local<'a>> {
        Some(Local { kind: self.kind()?, id: self.id()? })
    }

    /// Whether the type is written `/cpu:0`, without `device:`.
    fn is_short(&self) -> bool {
        let Some(kind) = self.components.kind else {
            return false;
        };
        let before = self.text.get(..kind.from as usize).unwrap_or_default();
        before.ends_with('/')
    }
}

impl fmt::Debug for Device<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Device({:?})", self.name())
    }
}

/// A worker's name: it prints as `/job:NAME/replica:N/task:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Worker<'a> {
    /// The job.
    pub job: &'a str,
    /// The replica within the job.
    pub replica: u32,
    /// The task within the replica.
    pub task: u32,
}

impl fmt::Display for Worker<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, replica, task } = self;
        write!(out, "/job:{job}/replica:{replica}/task:{task}")
    }
}

/// A device's name within its worker: it prints as `/device:TYPE:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Local<'a> {
    /// The device's type.
    pub kind: &'a str,
    /// Which of the devices of its type.
    pub id: u32,
}

impl fmt::Display for Local<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, id } = self;
        write!(out, "/device:{kind}:{id}")
    }
}

/// Reads one component after the other.
struct Reader<'a> {
    /// Up to the end of the name. What is read of it is ASCII.
    text: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn components(mut self) -> Option<Components> {
        let mut components = Components::default();
        if self.rest() == b"/" {
            return Some(components);
        }
        while self.at < self.text.len() {
            self.component(&mut components)?;
        }
        Some(components)
    }

    /// Reads what stands next. What is named twice is what was named last.
    fn component(&mut self, components: &mut Components) -> Option<()> {
        if self.take("/job:") {
            components.job = self.star_or(Self::word)?;
        } else if self.take("/replica:") {
            components.replica = self.star_or(Self::number)?;
        } else if self.take("/task:") {
            components.task = self.star_or(Self::number)?;
        } else if self.take("/device:") {
            components.kind = self.star_or(Self::word)?;
            components.id = if self.take(":") { self.star_or(Self::number)? } else { None };
        } else {
            components.kind = Some(self.short()?);
            components.id = self.star_or(Self::number)?;
        }
        Some(())
    }

    /// The type of `/cpu:0`.
    fn short(&mut self) -> Option<Span> {
        let kinds = ["/cpu:", "/CPU:", "/gpu:", "/GPU:"];
        let is_next = |kind: &&str| self.rest().starts_with(kind.as_bytes());
        let prefix = kinds.into_iter().find(is_next)?;
        let kind = Span::new(self.at.checked_add(1)?, self.at.checked_add(prefix.len())? - 1);
        self.take(prefix);
        kind
    }

    fn take(&mut self, prefix: &str) -> bool {
        let is_there = self.rest().starts_with(prefix.as_bytes());
        if is_there {
            self.at = self.at.saturating_add(prefix.len());
        }
        is_there
    }

    /// What is read, or `None` for `*`.
    #[expect(clippy::option_option, reason = "the outer one is: this is no name")]
    fn star_or<V>(&mut self, read: impl FnOnce(&mut Self) -> Option<V>) -> Option<Option<V>> {
        if self.take("*") { Some(None) } else { read(self).map(Some) }
    }

    /// A letter, then letters, digits and underscores.
    fn word(&mut self) -> Option<Span> {
        let rest = self.rest();
        rest.first().filter(|first| first.is_ascii_alphabetic())?;
        let is_in = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        self.span(rest.iter().take_while(|byte| is_in(byte)).count())
    }

    fn number(&mut self) -> Option<u32> {
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit());
        let (mut value, mut count) = (0_u32, 0_usize);
        for digit in digits {
            let digit = u32::from(digit.saturating_sub(b'0'));
            value = value.checked_mul(10)?.checked_add(digit)?;
            count = count.saturating_add(1);
        }
        self.at = self.at.checked_add(count)?;
        Some(value).filter(|value| count > 0 && *value <= i32::MAX.unsigned_abs())
    }

    fn span(&mut self, length: usize) -> Option<Span> {
        let from = self.at;
        self.at = self.at.checked_add(length)?;
        Span::new(from, self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn components_in_any_order_or_missing() {
        let all = Device::parse("/job:mnist/replica:1/task:2/device:GPU:3").unwrap();
        let worker = all.worker().unwrap();
        assert_eq!((worker.job, worker.replica, worker.task), ("mnist", 1, 2));
        assert_eq!(worker.to_string(), "/job:mnist/replica:1/task:2");
        assert_eq!(all.local().unwrap().to_string(), "/device:GPU:3");
        let odd = Device::parse("/cpu:3/task:2/job:mnist/replica:1").unwrap();
        assert!(odd.is_of_worker_of(&all) && all.is_of_worker_of(&odd));
        assert_eq!(odd.local().unwrap().to_string(), "/device:CPU:3");
        for nothing in ["", "/", "/job:*", "/device:*:*", "/task:*/replica:*"] {
            assert!(Device::parse(nothing).unwrap().is_implicit(), "{nothing}");
        }
        let some = Device::parse("/job:a/device:XLA_CPU").unwrap();
        assert!(!some.is_implicit() && some.worker().is_none() && some.local().is_none());
        assert!(!some.is_of_worker_of(&some), "replica and task are not named");
        assert_eq!(Device::parse("/device:cpu:0").unwrap().kind(), Some("cpu"));
    }

    #[test]
    fn task_1_is_not_task_10() {
        let one = Device::parse("/job:w/replica:0/task:1/device:CPU:0").unwrap();
        let ten = Device::parse("/job:w/replica:0/task:10/device:CPU:0").unwrap();
        assert!(!one.is_of_worker_of(&ten));
    }

    #[test]
    fn what_is_no_name() {
        for bad in [
            "cpu:0",
            "/job:",
            "/job:1",
            "/job:_a",
            "/job:a/",
            "/task:",
            "/task:-1",
            "/task:x",
            "/cpu",
            "/cpu:",
            "/CPU:x",
            "/tpu:0",
            "/device:",
            "/device:0",
            "/device:CPU:",
            "/job:a /task:0",
            "/task:2147483648",
            "//",
            "foo",
            "/job:a;",
            "/Cpu:0",
            "/job:ä",
        ] {
            assert!(Device::parse(bad).is_none(), "{bad}");
        }
    }
}
