//! TFRecord: a length (8 bytes), its checksum (4), that many bytes, and their checksum (4); all
//! little endian. Checksums are CRC-32C, rotated right by 15 bits, plus a constant.

use super::Cut;

/// What is added to a rotated checksum.
const MASK: u32 = 0xA282_EAD8;
/// The length and its checksum.
const HEADER_BYTES: usize = 12;
/// The checksum behind the bytes.
const FOOTER_BYTES: usize = 4;

fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(MASK)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

pub(super) fn cut(bytes: &[u8], is_at_end: bool, is_checked: bool) -> Cut {
    if bytes.is_empty() && is_at_end {
        return Cut::End;
    }
    let needed = |wanted: usize, what: &str| {
        if !is_at_end {
            return Cut::More { wanted };
        }
        let what = format!("the file ends within {what}: {} of {wanted} bytes", bytes.len());
        Cut::Corrupt { at: 0, what, next: None }
    };
    let length = bytes.first_chunk::<8>();
    let (Some(length), Some(wanted)) = (length, number(bytes, 8)) else {
        return needed(HEADER_BYTES, "a record's length");
    };
    let found = checksum(length);
    if found != wanted {
        let what = format!("a record's length has the checksum {found:08x}, not {wanted:08x}");
        return Cut::Corrupt { at: 0, what, next: None };
    }
    let length = usize::try_from(u64::from_le_bytes(*length)).ok();
    let whole = length.and_then(|it| it.checked_add(HEADER_BYTES)?.checked_add(FOOTER_BYTES));
    let (Some(length), Some(whole)) = (length, whole) else {
        let what = "a record has more bytes than can be counted".to_owned();
        return Cut::Corrupt { at: 0, what, next: None };
    };
    let content = HEADER_BYTES..HEADER_BYTES + length;
    let (Some(data), Some(wanted)) = (bytes.get(content.clone()), number(bytes, content.end))
    else {
        return needed(whole, "a record");
    };
    if is_checked {
        let found = checksum(data);
        if found != wanted {
            let what = format!("a record's content has the checksum {found:08x}, not {wanted:08x}");
            return Cut::Corrupt { at: HEADER_BYTES, what, next: Some(whole) };
        }
    }
    Cut::Record { length: whole, content }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with content `abc`, as TensorFlow writes it.
    const ABC: [u8; 19] =
        [0x03, 0, 0, 0, 0, 0, 0, 0, 0x63, 0x1e, 0x37, 0x31, b'a', b'b', b'c', 0, 0, 0, 0];

    fn framed(content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u64).to_le_bytes();
        let mut all = length.to_vec();
        all.extend(checksum(&length).to_le_bytes());
        all.extend(content);
        all.extend(checksum(content).to_le_bytes());
        all
    }

    #[test]
    fn checksums_are_masked_crc32c() {
        // CRC-32C of `123456789` is 0xe3069283 in every catalogue.
        let rotated = 0xe306_9283_u32.rotate_right(15).wrapping_add(MASK);
        assert_eq!(checksum(b"123456789"), rotated);
        assert_eq!(framed(b"abc").len(), ABC.len());
    }

    #[test]
    fn every_cut_and_every_broken_byte_is_noticed() {
        let good = framed(b"some content");
        let whole = Cut::Record { length: good.len(), content: 12..24 };
        assert_eq!(cut(&good, true, true), whole);
        for length in 1..good.len() {
            let found = cut(&good[..length], true, true);
            assert!(matches!(found, Cut::Corrupt { next: None, .. }), "{length}: {found:?}");
            assert!(matches!(cut(&good[..length], false, true), Cut::More { .. }), "{length}");
        }
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 1;
            let found = cut(&bad, true, true);
            let next = (place >= 12).then_some(good.len());
            let is_right = matches!(&found, Cut::Corrupt { next: it, .. } if *it == next);
            assert!(is_right, "byte {place}: {found:?}");
        }
    }
}
