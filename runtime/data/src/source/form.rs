//! Refuses a file of another form than its source reads, and names the form that its first bytes show.

use bytes::Bytes;

use crate::error::DataError;
use crate::stores::StoredFile;

/// First bytes that tell a form.
const BEGINNINGS: [(&[u8], &str); 6] = [
    (b"PAR1", "it begins as a Parquet file"),
    (b"ARROW1", "it begins as an Arrow IPC file"),
    (&[0xFF, 0xFF, 0xFF, 0xFF], "it begins as an Arrow IPC stream"),
    (&[0x1F, 0x8B], "it begins as a gzip file"),
    (&[0x28, 0xB5, 0x2F, 0xFD], "it begins as a zstd file"),
    (b"PK\x03\x04", "it begins as a zip file"),
];
/// So many bytes tell a form, or are shown.
const LOOKED_AT: u64 = 16;

/// Refuses a file that does not begin as it should.
///
/// # Errors
/// [`DataError::OtherForm`], and why the file cannot be read.
pub(super) async fn check_beginning(
    file: &StoredFile,
    wanted: &'static str,
    magic: &[u8],
) -> Result<(), DataError> {
    let head = file.range(0..file.size.min(LOOKED_AT)).await?;
    match head.starts_with(magic) {
        true => Ok(()),
        false => {
            Err(DataError::OtherForm { file: file.location.clone(), wanted, found: look_of(&head) })
        }
    }
}

fn look_of(head: &Bytes) -> String {
    if head.is_empty() {
        return "it is empty".to_owned();
    }
    if let Some((_, look)) = BEGINNINGS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return (*look).to_owned();
    }
    match std::str::from_utf8(head) {
        Ok(text) if !text.contains('\0') => format!("it begins as text: {text:?}"),
        _ => format!("it begins with the bytes {}", hex(head)),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
