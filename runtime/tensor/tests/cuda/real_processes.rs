//! Memory that passes between two processes on a real GPU. The second is this test's own program, run again.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rondo_tensor::cuda::{Cuda, CudaError, CudaMemory, Named, Ordinal};

use super::{counted, pageable};

const GPU: Ordinal = Ordinal(0);
const STAGING: usize = 64 << 20;
/// Set where this program is run again.
const IS_PEER: &str = "RONDO_CUDA_PEER";
/// What the peer's words begin with; the test harness says other things between them.
const WORD: &str = "peer: ";

/// Another process that sees the GPU.
struct Peer {
    process: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "real_processes::the_other_process", "--nocapture"]);
        command.env(IS_PEER, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (to, from) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, to, from: BufReader::new(from).lines() }
    }

    /// Says a line, and gives the answer to it.
    fn ask(&mut self, line: &str) -> String {
        writeln!(self.to, "{line}").unwrap();
        self.to.flush().unwrap();
        loop {
            let said = self.from.next().expect("the other process answers").unwrap();
            // The harness may have begun the line.
            if let Some((_, word)) = said.split_once(WORD) {
                return word.to_owned();
            }
        }
    }

    /// What the other process finds in this memory.
    #[track_caller]
    fn assert_sees(&mut self, memory: &CudaMemory, seed: usize) {
        let name: String =
            memory.name().unwrap().to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(self.ask(&format!("{name} {seed}")), "as wanted");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = writeln!(self.to, "end");
        let _ = self.to.flush();
        drop(self.process.wait());
    }
}

/// The other process: copies from what it is told, both ways, and says whether that is as wanted.
#[test]
fn the_other_process() {
    if std::env::var(IS_PEER).is_err() {
        return;
    }
    let cuda = super::gpu::cuda("the other process", STAGING).unwrap();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let Some((name, seed)) = line.split_once(' ') else { return };
        let bytes: Vec<u8> = (0..name.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&name[at..at + 2], 16).unwrap())
            .collect();
        let named = Named::from_bytes(&bytes).unwrap();
        println!("{WORD}{}", found(&cuda, &named, seed.parse().unwrap()));
    }
}

fn found(cuda: &Cuda, named: &Named, seed: usize) -> String {
    let length = usize::try_from(named.length).unwrap();
    let wanted = counted(length, seed);
    let to = cuda.allocate(GPU, length).unwrap();
    match to.fill_from(named) {
        Err(error) => return format!("on the device: {error}"),
        Ok(()) if to.to_host().unwrap().to_vec() != wanted => {
            return "other bytes on the device".into();
        }
        Ok(()) => {}
    }
    match cuda.fetch(named) {
        Err(error) => format!("on the host: {error}"),
        Ok(region) if region.to_vec() != wanted => "other bytes on the host".into(),
        Ok(_) => "as wanted".into(),
    }
}

fn fill(memory: &CudaMemory, seed: usize) {
    memory.fill(pageable(&counted(memory.len(), seed))).unwrap();
    memory.wait().unwrap();
}

/// Bytes of the device that are free.
fn free(cuda: &Cuda) -> u64 {
    match cuda.allocate(GPU, 1 << 50) {
        Err(CudaError::OutOfMemory { free, .. }) => free,
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_process_copies_from_memory_by_its_name() {
    let Some(cuda) = super::gpu::cuda("memory of two processes", STAGING) else { return };
    let mut peer = Peer::start();
    let whole = cuda.allocate(GPU, 32 << 20).unwrap();
    for (offset, length) in [(0, 32 << 20), (0, 1), (12_345, 1_000_001), ((32 << 20) - 3, 3)] {
        let part = whole.part(offset, length).unwrap();
        for seed in 0..3 {
            // It is open there from the first time on, and what it sees is what is there now.
            fill(&part, seed);
            peer.assert_sees(&part, seed);
        }
    }
    // A length that the allocation has not, and a device that is not there.
    let named = Named { offset: (32 << 20) - 1, length: 2, ..whole.name().unwrap() };
    let hex = |named: &Named| -> String {
        named.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let said = peer.ask(&format!("{} 0", hex(&named)));
    assert!(said.contains("are not in an allocation"), "{said}");
    let mut named = whole.part(0, 8).unwrap().name().unwrap();
    named.device.0[3] ^= 1;
    let said = peer.ask(&format!("{} 0", hex(&named)));
    assert!(said.contains("does not see"), "{said}");
}

#[test]
fn memory_that_was_freed_is_not_taken_for_what_comes_after_it() {
    let Some(cuda) = super::gpu::cuda("memory of two processes", STAGING) else { return };
    let mut peer = Peer::start();
    // Sizes of small and of large allocations, many times each: the driver gives the same address again.
    for length in [100, 4 << 20, 64 << 20] {
        for seed in 0..20 {
            let memory = cuda.allocate(GPU, length).unwrap();
            fill(&memory, seed);
            peer.assert_sees(&memory, seed);
        }
    }
}

#[test]
fn memory_that_its_owner_has_freed_does_not_stay_for_the_others_sake() {
    let Some(cuda) = super::gpu::cuda("memory of two processes", STAGING) else { return };
    let mut peer = Peer::start();
    let small = cuda.allocate(GPU, 1000).unwrap();
    fill(&small, 1);
    peer.assert_sees(&small, 1);
    let before = free(&cuda);
    let length = 512 << 20;
    let large = cuda.allocate(GPU, length).unwrap();
    fill(&large.part(0, 1000).unwrap(), 2);
    peer.assert_sees(&large.part(0, 1000).unwrap(), 2);
    drop(large);
    // The other process has it open as long as it uses it, and closes it when it does not.
    let began = Instant::now();
    while free(&cuda) + (1 << 20) < before {
        assert!(began.elapsed() < Duration::from_secs(20), "it stays: {} of {before}", free(&cuda));
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("it was free after {:?}", began.elapsed());
}
