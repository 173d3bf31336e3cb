//! Decompression, a little at a time: whatever the bytes are, one step makes no more of them than
//! fits memory.

use std::io::Write;

use bytes::BytesMut;
use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::pipeline::Compression;

/// Compressed bytes in one step. DEFLATE makes at most 1032 times as many of them.
const STEP_BYTES: usize = 4 << 10;

/// Decompressed bytes in one step of the formats that can stop anywhere.
const OUTPUT_BYTES: usize = 256 << 10;

/// What is decompressed, as far as it has come.
pub(super) enum Decompressor {
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Zlib { state: Box<Decompress>, is_complete: bool },
    Zstd { decoder: Box<Decoder<'static>>, is_complete: bool },
}

impl Decompressor {
    /// `None` if there is nothing to decompress.
    pub(super) fn of(compression: Compression) -> std::io::Result<Option<Self>> {
        Ok(match compression {
            Compression::None | Compression::ByName => None,
            Compression::Gzip => Some(Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new())))),
            Compression::Zlib => {
                Some(Self::Zlib { state: Box::new(Decompress::new(true)), is_complete: false })
            }
            Compression::Zstd => {
                Some(Self::Zstd { decoder: Box::new(Decoder::new()?), is_complete: true })
            }
        })
    }

    /// Decompresses some of the input; none of it says that there is no more. How much of it was
    /// taken.
    pub(super) fn step(&mut self, input: &[u8], out: &mut BytesMut) -> Result<usize, String> {
        if input.is_empty() {
            return self.end(out).map(|()| 0);
        }
        let part = input.get(..STEP_BYTES.min(input.len())).unwrap_or(input);
        match self {
            Self::Gzip(decoder) => {
                decoder.write_all(part).map_err(|error| broken("gzip", &error))?;
                out.extend_from_slice(decoder.get_ref());
                decoder.get_mut().clear();
                Ok(part.len())
            }
            Self::Zlib { is_complete: true, .. } => Err("bytes stand behind the end".to_owned()),
            Self::Zlib { state, is_complete } => {
                let mut room = Vec::with_capacity(OUTPUT_BYTES);
                let before = state.total_in();
                let status = state.decompress_vec(part, &mut room, FlushDecompress::None);
                let status = status.map_err(|error| broken("zlib", &error))?;
                *is_complete = status == Status::StreamEnd;
                out.extend_from_slice(&room);
                Ok(usize::try_from(state.total_in().saturating_sub(before)).unwrap_or(part.len()))
            }
            Self::Zstd { decoder, is_complete } => {
                let mut room = vec![0; OUTPUT_BYTES];
                let mut input = InBuffer::around(part);
                let mut output = OutBuffer::around(room.as_mut_slice());
                let hint = decoder.run(&mut input, &mut output);
                let hint = hint.map_err(|error| broken("zstd", &error))?;
                *is_complete = hint == 0;
                let (taken, made) = (input.pos(), output.pos());
                out.extend_from_slice(room.get(..made).unwrap_or_default());
                Ok(taken)
            }
        }
    }

    fn end(&mut self, out: &mut BytesMut) -> Result<(), String> {
        let cut = || "the compressed data end before they are complete".to_owned();
        match self {
            Self::Gzip(decoder) => {
                decoder.try_finish().map_err(|_| cut())?;
                out.extend_from_slice(decoder.get_ref());
                decoder.get_mut().clear();
                Ok(())
            }
            Self::Zlib { is_complete, .. } | Self::Zstd { is_complete, .. } => {
                if *is_complete {
                    Ok(())
                } else {
                    Err(cut())
                }
            }
        }
    }
}

fn broken(format: &str, error: &dyn std::fmt::Display) -> String {
    format!("it is no {format}: {error}")
}

#[cfg(test)]
mod tests {
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    fn plain() -> Vec<u8> {
        (0..100_000_u32).flat_map(|number| (number / 7).to_le_bytes()).collect()
    }

    fn packed(compression: Compression) -> Vec<u8> {
        let level = flate2::Compression::fast();
        match compression {
            Compression::Gzip => {
                let halves = plain();
                let (one, other) = halves.split_at(halves.len() / 2);
                let member = |bytes: &[u8]| {
                    let mut encoder = GzEncoder::new(Vec::new(), level);
                    encoder.write_all(bytes).unwrap();
                    encoder.finish().unwrap()
                };
                [member(one), member(other)].concat()
            }
            Compression::Zlib => {
                let mut encoder = ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(&plain()).unwrap();
                encoder.finish().unwrap()
            }
            _ => zstd::encode_all(plain().as_slice(), 1).unwrap(),
        }
    }

    fn unpacked(compression: Compression, mut input: &[u8]) -> Result<Vec<u8>, String> {
        let mut decompressor = Decompressor::of(compression).unwrap().unwrap();
        let mut out = BytesMut::new();
        while !input.is_empty() {
            let taken = decompressor.step(input, &mut out)?;
            input = &input[taken..];
        }
        decompressor.step(&[], &mut out)?;
        Ok(out.to_vec())
    }

    const ALL: [Compression; 3] = [Compression::Gzip, Compression::Zlib, Compression::Zstd];

    #[test]
    fn what_was_compressed_comes_back() {
        for compression in ALL {
            assert_eq!(unpacked(compression, &packed(compression)).unwrap(), plain());
        }
    }

    #[test]
    fn what_is_cut_or_broken_is_noticed() {
        for compression in ALL {
            let good = packed(compression);
            for length in [1, 10, good.len() / 2, good.len() - 1] {
                let refused = unpacked(compression, &good[..length]);
                assert!(refused.is_err(), "{compression:?} cut to {length} bytes");
            }
            let mut bad = good.clone();
            bad[0] ^= 0x55;
            let refused = unpacked(compression, &bad).unwrap_err();
            assert!(refused.contains("it is no "), "{compression:?}: {refused}");
        }
    }
}
