//! What the GPUs of the double do.

use std::collections::{BTreeMap, VecDeque};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rondo_tensor::cuda::{Copy, EventHandle, StreamHandle};

/// Addresses of devices are from here on: no host has such.
const DEVICE_ADDRESSES: u64 = 1 << 60;
/// Room between allocations.
const GAP: u64 = 1 << 32;
/// Who asks so often whether an event is done has waited for it.
const ASKED_MAX: u32 = 8;

/// What has been done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Copies from the host.
    pub(crate) up: usize,
    /// Copies to the host.
    pub(crate) down: usize,
    /// Copies between places of devices.
    pub(crate) across: usize,
    /// Pinned blocks that were made.
    pub(crate) pins: usize,
    /// Allocations of other processes that were opened.
    pub(crate) opens: usize,
}

/// An allocation that another process has opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapping {
    pub(super) base: u64,
    pub(super) process: u32,
    pub(super) device: usize,
}

#[derive(Debug)]
struct Allocation {
    bytes: Vec<u8>,
    device: usize,
    process: u32,
}

#[derive(Debug, Default)]
struct Stream {
    /// What has not happened.
    waiting: VecDeque<Work>,
    /// How much was ever put on it, and how much of that has happened.
    put: u64,
    happened: u64,
}

/// What a kernel has read, once it has run.
pub(crate) type Seen = Arc<Mutex<Option<Vec<u8>>>>;

#[derive(Clone, Debug)]
enum Work {
    Copy(Copy, u32),
    Write(u64, Vec<u8>),
    Read((u64, usize), Seen),
    /// Until so much of another stream has happened.
    Hold(StreamHandle, u64),
    /// Until a test says so.
    Gate(Arc<AtomicBool>),
}

#[derive(Debug)]
pub(super) struct Machine {
    /// Bytes that each device has, and of which are used.
    devices: Vec<(usize, usize)>,
    allocations: BTreeMap<u64, Allocation>,
    mappings: BTreeMap<u64, Mapping>,
    pinned: BTreeMap<usize, Vec<u8>>,
    streams: BTreeMap<StreamHandle, Stream>,
    events: BTreeMap<EventHandle, Option<(StreamHandle, u64)>>,
    /// How often it was asked of events whether they are done.
    asked: BTreeMap<EventHandle, u32>,
    next: u64,
    processes: u32,
    pub(super) counts: Counts,
    pub(super) violations: Vec<String>,
}

impl Machine {
    pub(super) fn new(devices: u8, bytes: usize) -> Self {
        Self {
            devices: vec![(bytes, 0); devices.into()],
            allocations: BTreeMap::new(),
            mappings: BTreeMap::new(),
            pinned: BTreeMap::new(),
            streams: BTreeMap::from([(StreamHandle::DEFAULT, Stream::default())]),
            events: BTreeMap::new(),
            asked: BTreeMap::new(),
            next: 1,
            processes: 0,
            counts: Counts::default(),
            violations: Vec::new(),
        }
    }

    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn next_process(&mut self) -> u32 {
        self.processes += 1;
        self.processes
    }

    fn violated(&mut self, what: String) {
        self.violations.push(what);
    }

    /// Allocations and pinned blocks that somebody has.
    pub(super) fn left(&self) -> (usize, usize) {
        (self.allocations.len(), self.pinned.len())
    }

    pub(super) fn allocate(&mut self, device: usize, process: u32, bytes: usize) -> Option<u64> {
        let (all, used) = &mut self.devices[device];
        if *used + bytes > *all {
            return None;
        }
        *used += bytes;
        let pointer = DEVICE_ADDRESSES + self.next() * GAP;
        self.allocations.insert(pointer, Allocation { bytes: vec![0; bytes], device, process });
        Some(pointer)
    }

    pub(super) fn room(&self, device: usize) -> (u64, u64) {
        let (all, used) = self.devices[device];
        ((all - used) as u64, all as u64)
    }

    /// The driver waits for all that is on streams before it frees; who relies on that waits too long, so
    /// it is noted.
    pub(super) fn free(&mut self, pointer: u64) {
        if self.is_used(|touched| touched.is_some_and(|(base, _)| base == pointer)) {
            self.violated(format!("memory at {pointer:#x} is freed with work under way"));
        }
        match self.allocations.remove(&pointer) {
            Some(it) => self.devices[it.device].1 -= it.bytes.len(),
            None => self.violated(format!("{pointer:#x} is freed, but is not allocated")),
        }
    }

    /// Whether what has not happened touches such an allocation.
    fn is_used(&self, is_it: impl Fn(Option<(u64, usize)>) -> bool) -> bool {
        let waiting = self.streams.values().flat_map(|stream| &stream.waiting);
        waiting.into_iter().any(|work| match work {
            Work::Copy(Copy::ToDevice { to, .. }, _) => is_it(self.resolve(*to)),
            Work::Copy(Copy::ToHost { from, .. }, _) => is_it(self.resolve(*from)),
            Work::Copy(Copy::Within { to, from, .. }, _) => {
                is_it(self.resolve(*to)) || is_it(self.resolve(*from))
            }
            Work::Write(to, _) | Work::Read((to, _), _) => is_it(self.resolve(*to)),
            Work::Hold(..) | Work::Gate(_) => false,
        })
    }

    pub(super) fn pin(&mut self, bytes: usize) -> NonNull<u8> {
        let mut block = vec![0_u8; bytes];
        let start = NonNull::new(block.as_mut_ptr()).unwrap();
        self.pinned.insert(start.as_ptr().expose_provenance(), block);
        self.counts.pins += 1;
        start
    }

    pub(super) fn unpin(&mut self, start: NonNull<u8>) {
        let start = start.as_ptr().addr();
        let waiting = self.streams.values().flat_map(|stream| &stream.waiting);
        let is_used = waiting.into_iter().any(|work| match work {
            Work::Copy(Copy::ToDevice { from, .. }, _) => self.block_of(*from, 1) == Some(start),
            Work::Copy(Copy::ToHost { to, .. }, _) => self.block_of(*to, 1) == Some(start),
            _ => false,
        });
        if is_used {
            self.violated("pinned memory is given back with a copy under way".into());
        }
        if self.pinned.remove(&start).is_none() {
            self.violated("memory is unpinned that is not pinned".into());
        }
    }

    /// The pinned block that has all these bytes.
    fn block_of(&self, start: usize, length: usize) -> Option<usize> {
        let (from, block) = self.pinned.range(..=start).next_back()?;
        (start + length <= from + block.len()).then_some(*from)
    }

    pub(super) fn new_stream(&mut self) -> StreamHandle {
        // SAFETY: the double looks its streams up by number, and refuses those that are not there.
        let stream = unsafe { StreamHandle::from_raw(self.next()) };
        self.streams.insert(stream, Stream::default());
        stream
    }

    pub(super) fn new_event(&mut self) -> EventHandle {
        let event = EventHandle(self.next());
        self.events.insert(event, None);
        event
    }

    pub(super) fn end_event(&mut self, event: EventHandle) {
        self.asked.remove(&event);
        if self.events.remove(&event).is_none() {
            self.violated(format!("{event:?} ends twice"));
        }
    }

    pub(super) fn record(&mut self, event: EventHandle, stream: StreamHandle) {
        let put = self.stream(stream).put;
        self.events.insert(event, Some((stream, put)));
    }

    fn stream(&mut self, stream: StreamHandle) -> &mut Stream {
        self.streams.get_mut(&stream).expect("a stream that was begun")
    }

    fn at(&mut self, event: EventHandle) -> Option<(StreamHandle, u64)> {
        let at = self.events.get(&event).copied();
        if at.is_none() {
            self.violated(format!("{event:?} is used after its end"));
        }
        at.flatten()
    }

    /// Whether an event is done. Asked often enough, the device does what it waits for.
    pub(super) fn is_done(&mut self, event: EventHandle) -> bool {
        let Some((stream, put)) = self.at(event) else { return true };
        let asked = self.asked.entry(event).or_default();
        *asked += 1;
        if *asked >= ASKED_MAX {
            self.run(stream, put);
        }
        self.stream(stream).happened >= put
    }

    /// Does what an event waits for. Whether it is done: a gate may be in the way.
    pub(super) fn wait(&mut self, event: EventHandle) -> bool {
        let Some((stream, put)) = self.at(event) else { return true };
        self.run(stream, put);
        self.stream(stream).happened >= put
    }

    pub(super) fn hold(&mut self, stream: StreamHandle, event: EventHandle) {
        if let Some((other, put)) = self.at(event) {
            self.enqueue(stream, Work::Hold(other, put));
        }
    }

    fn enqueue(&mut self, stream: StreamHandle, work: Work) {
        let stream = self.stream(stream);
        stream.put += 1;
        stream.waiting.push_back(work);
    }

    pub(super) fn enqueue_write(&mut self, stream: StreamHandle, to: u64, bytes: Vec<u8>) {
        self.enqueue(stream, Work::Write(to, bytes));
    }

    pub(super) fn enqueue_gate(&mut self, stream: StreamHandle, gate: Arc<AtomicBool>) {
        self.enqueue(stream, Work::Gate(gate));
    }

    pub(super) fn enqueue_read(&mut self, stream: StreamHandle, what: (u64, usize), seen: Seen) {
        self.enqueue(stream, Work::Read(what, seen));
    }

    pub(super) fn enqueue_copy(&mut self, stream: StreamHandle, copy: Copy, process: u32) {
        let count = match copy {
            Copy::ToDevice { .. } => &mut self.counts.up,
            Copy::ToHost { .. } => &mut self.counts.down,
            Copy::Within { .. } => &mut self.counts.across,
        };
        *count += 1;
        self.check(copy, process, "is asked for");
        self.enqueue(stream, Work::Copy(copy, process));
    }

    pub(super) fn finish(&mut self, stream: StreamHandle) {
        let put = self.stream(stream).put;
        self.run(stream, put);
    }

    pub(super) fn finish_all(&mut self) {
        let all: Vec<StreamHandle> = self.streams.keys().rev().copied().collect();
        all.into_iter().for_each(|stream| self.finish(stream));
    }

    /// Has so much of a stream happen, and what that waits for.
    fn run(&mut self, stream: StreamHandle, until: u64) {
        while self.stream(stream).happened < until {
            let Some(work) = self.stream(stream).waiting.front().cloned() else { return };
            match work {
                Work::Hold(other, put) => {
                    self.run(other, put);
                    if self.stream(other).happened < put {
                        return;
                    }
                }
                Work::Gate(gate) if !gate.load(Ordering::SeqCst) => return,
                Work::Gate(_) => {}
                Work::Write(to, bytes) => self.write(to, &bytes),
                Work::Read((from, length), seen) => {
                    *seen.lock().unwrap() = Some(self.read(from, length));
                }
                Work::Copy(copy, process) => self.copy(copy, process),
            }
            let stream = self.stream(stream);
            stream.waiting.pop_front();
            stream.happened += 1;
        }
    }

    /// Whether a copy may be made; what it breaks is noted.
    fn check(&mut self, copy: Copy, process: u32, when: &str) -> bool {
        let (host, device, length) = match copy {
            Copy::ToDevice { to, from, length } => (Some(from), vec![to], length),
            Copy::ToHost { to, from, length } => (Some(to), vec![from], length),
            Copy::Within { to, from, length } => (None, vec![to, from], length),
        };
        let before = self.violations.len();
        if host.is_some_and(|host| self.block_of(host, length).is_none()) {
            self.violated(format!("{copy:?} {when}: the host's memory is not pinned"));
        }
        for pointer in device {
            match self.resolve(pointer) {
                Some((base, offset)) => {
                    let allocation = &self.allocations[&base];
                    let is_mapped = self.mapping_of(pointer).is_some();
                    let (bytes, owner) = (allocation.bytes.len(), allocation.process);
                    if offset + length > bytes {
                        self.violated(format!("{copy:?} {when}: beyond an allocation"));
                    } else if owner != process && !is_mapped {
                        self.violated(format!("{copy:?} {when}: memory of another process"));
                    }
                }
                None => self.violated(format!("{copy:?} {when}: memory that is not allocated")),
            }
        }
        self.violations.len() == before
    }

    fn copy(&mut self, copy: Copy, process: u32) {
        if !self.check(copy, process, "happens") {
            return;
        }
        match copy {
            Copy::ToDevice { to, from, length } => {
                let start: *const u8 = std::ptr::with_exposed_provenance(from);
                // SAFETY: it is in a pinned block, which is as long.
                let bytes = unsafe { std::slice::from_raw_parts(start, length) }.to_vec();
                self.write(to, &bytes);
            }
            Copy::ToHost { to, from, length } => {
                let bytes = self.read(from, length);
                let start: *mut u8 = std::ptr::with_exposed_provenance_mut(to);
                // SAFETY: as above.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, length) };
            }
            Copy::Within { to, from, length } => {
                let bytes = self.read(from, length);
                self.write(to, &bytes);
            }
        }
    }

    fn mapping_of(&self, pointer: u64) -> Option<(u64, Mapping)> {
        let (start, mapping) = self.mappings.range(..=pointer).next_back()?;
        let bytes = self.allocations.get(&mapping.base)?.bytes.len() as u64;
        (pointer - start <= bytes).then_some((*start, *mapping))
    }

    /// The allocation that an address is in, and where in it.
    fn resolve(&self, pointer: u64) -> Option<(u64, usize)> {
        if let Some((start, mapping)) = self.mapping_of(pointer) {
            return Some((mapping.base, (pointer - start) as usize));
        }
        let (base, allocation) = self.allocations.range(..=pointer).next_back()?;
        let offset = (pointer - base) as usize;
        (offset <= allocation.bytes.len()).then_some((*base, offset))
    }

    pub(super) fn read(&mut self, from: u64, length: usize) -> Vec<u8> {
        match self.resolve(from) {
            Some((base, offset)) => self.allocations[&base].bytes[offset..offset + length].to_vec(),
            None => {
                self.violated(format!("{from:#x} is read, but is not allocated"));
                vec![0; length]
            }
        }
    }

    fn write(&mut self, to: u64, bytes: &[u8]) {
        match self.resolve(to) {
            Some((base, offset)) => {
                let allocation = self.allocations.get_mut(&base).unwrap();
                allocation.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            None => self.violated(format!("{to:#x} is written, but is not allocated")),
        }
    }

    /// The allocation that an address is in: where it begins, and its bytes.
    pub(super) fn allocation_of(&self, pointer: u64) -> Option<(u64, u64)> {
        let (base, _) = self.resolve(pointer)?;
        Some((base, self.allocations[&base].bytes.len() as u64))
    }

    /// As the driver does, refuses a process its own memory, and a device that it is not on.
    pub(super) fn open(&mut self, mapping: Mapping) -> Option<(u64, u64)> {
        let allocation = self.allocations.get(&mapping.base)?;
        let is_other = allocation.process != mapping.process;
        let bytes = allocation.bytes.len() as u64;
        if !is_other || allocation.device != mapping.device {
            return None;
        }
        let pointer = DEVICE_ADDRESSES + self.next() * GAP;
        self.mappings.insert(pointer, mapping);
        self.counts.opens += 1;
        Some((pointer, bytes))
    }

    /// Whether a kernel runs that a test has not ended.
    pub(super) fn has_gates(&self) -> bool {
        let mut waiting = self.streams.values().flat_map(|stream| &stream.waiting);
        waiting.any(|work| matches!(work, Work::Gate(gate) if !gate.load(Ordering::SeqCst)))
    }

    pub(super) fn opened(&self) -> usize {
        self.mappings.len()
    }

    pub(super) fn close(&mut self, pointer: u64) {
        if self.mappings.remove(&pointer).is_none() {
            self.violated(format!("{pointer:#x} is closed, but is not open"));
        }
    }
}
