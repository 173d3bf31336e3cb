//! Writes what journals and snapshots are grown from: those of the histories in
//! `corpus/dispatcher_model`, below `grown`. Run in `fuzz`: `cargo run --example seeds`.

#![allow(dead_code, reason = "the modules are those of the tests, which use more of them")]

#[path = "../../core/tests/behaviour/asking.rs"]
mod asking;
#[path = "../../core/tests/behaviour/both.rs"]
mod both;
#[path = "../../core/tests/behaviour/dice.rs"]
mod dice;
#[path = "../../core/tests/inputs/drawing.rs"]
mod drawing;
#[path = "../../core/tests/behaviour/driver.rs"]
mod driver;
#[path = "../../core/tests/behaviour/happening.rs"]
mod happening;
#[path = "../../runtime/tests/corpora/journal_pieces.rs"]
mod journal_pieces;
#[path = "../../core/tests/behaviour/live.rs"]
mod live;
#[path = "../../core/tests/behaviour/model/mod.rs"]
mod model;
#[path = "../../core/tests/behaviour/world.rs"]
mod world;

use std::fs;
use std::io;
use std::path::Path;

use journal_pieces::{Journal, Piece};
use rondo_core::control::{Record, Recovery};
use rondo_core::ids::Lsn;
use rondo_proto::frame::{encode_part, encode_records};

/// Records in one frame, and of one journal: longer ones are only slow.
const GROUP_MAX: usize = 3;
const RECORDS_MAX: usize = 60;
/// As `snapshot_decode` has it: parts follow.
const PARTS: u8 = 4;
const DAMAGED: [u8; 4] = [3, 5, 40, 0];

fn main() -> io::Result<()> {
    for entry in fs::read_dir("corpus/dispatcher_model")? {
        let entry = entry?;
        let history = fs::read(entry.path())?;
        let mut records = live::live_by(&history).journal;
        records.truncate(RECORDS_MAX);
        let name = entry.file_name();
        write("journal_replay", &name, &journal(&records))?;
        let parts = parts(&records)?;
        write("snapshot_decode", &name, &[&[PARTS], &parts[..]].concat())?;
        let damaged = format!("{}_damaged", name.display());
        write("snapshot_decode", damaged.as_ref(), &[&DAMAGED, &parts[..]].concat())?;
    }
    let line = br#"{"format":1,"snapshot":41,"journal_first":42}"#;
    write("snapshot_decode", "manifest".as_ref(), &[b"\x01", &line[..]].concat())
}

fn write(target: &str, name: &std::ffi::OsStr, bytes: &[u8]) -> io::Result<()> {
    let folder = Path::new("grown").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), bytes)
}

/// A journal of two segments.
fn journal(records: &[Record]) -> Vec<u8> {
    let frame = |group: &[Record]| Piece::Frame {
        skip: 0,
        more: 0,
        behind: 1,
        payload: encode_records(group),
    };
    let mut pieces: Vec<Piece> = records.chunks(GROUP_MAX).map(frame).collect();
    pieces.insert(pieces.len() / 2, Piece::Segment { skip: 0 });
    Journal { acknowledged: 0, pieces }.bytes()
}

/// The parts of a snapshot, each behind its length.
fn parts(records: &[Record]) -> io::Result<Vec<u8>> {
    let mut recovery = Recovery::new();
    for (lsn, record) in (1..).zip(records) {
        recovery.apply(Lsn::new(lsn), record).map_err(io::Error::other)?;
    }
    let mut bytes = Vec::new();
    for part in recovery.parts().iter().map(encode_part) {
        let length = u16::try_from(part.len()).map_err(io::Error::other)?;
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&part);
    }
    Ok(bytes)
}
