//! TFRecord files, made from the description of the format and not by the code that reads them.

/// A file of these records: each behind its length and the length's checksum, and followed by its own.
pub fn file(records: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        let length = (record.len() as u64).to_le_bytes();
        bytes.extend_from_slice(&length);
        bytes.extend_from_slice(&masked(&length));
        bytes.extend_from_slice(record);
        bytes.extend_from_slice(&masked(record));
    }
    bytes
}

/// The checksum of TFRecord files: CRC-32C, turned and shifted.
fn masked(bytes: &[u8]) -> [u8; 4] {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    (!crc).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_tensorflow() {
        // What `tf.io.TFRecordWriter` wrote for b"a".
        let length = [1, 0, 0, 0, 0, 0, 0, 0, 0x01, 0x75, 0xde, 0x41];
        let content = [b'a', 0x78, 0x6e, 0xe4, 0x28];
        assert_eq!(file(&[b"a"]), [&length[..], &content[..]].concat());
    }
}
