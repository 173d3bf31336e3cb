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
    /// taken. What comes before something broken is decompressed, too.
    pub(super) fn step(&mut self, input: &[u8], out: &mut BytesMut) -> Result<usize, String> {
        if input.is_empty() {
            return self.end(out).map(|()| 0);
        }
        let part = input.get(..STEP_BYTES.min(input.len())).unwrap_or(input);
        match self {
            Self::Gzip(decoder) => {
                let written = decoder.write_all(part);
                if written.is_err() {
                    // It gives what it has kept back, and the same error.
                    let _ = decoder.try_finish();
                }
                out.extend_from_slice(decoder.get_ref());
                decoder.get_mut().clear();
                written.map(|()| part.len()).map_err(|error| broken("gzip", &error))
            }
            Self::Zlib { is_complete: true, .. } => Err("bytes stand behind the end".to_owned()),
            Self::Zlib { state, is_complete } => inflate(state, is_complete, part, out),
            Self::Zstd { decoder, is_complete } => expand(decoder, is_complete, part, out),
        }
    }

    /// Decompresses what the decoder still holds when there is no more input.
    fn end(&mut self, out: &mut BytesMut) -> Result<(), String> {
        let is_complete = match self {
            Self::Gzip(decoder) => {
                let finished = decoder.try_finish();
                out.extend_from_slice(decoder.get_ref());
                decoder.get_mut().clear();
                finished.is_ok()
            }
            Self::Zlib { state, is_complete } => {
                drain(is_complete, out, |is_complete, out| inflate(state, is_complete, &[], out))?
            }
            Self::Zstd { decoder, is_complete } => {
                drain(is_complete, out, |is_complete, out| expand(decoder, is_complete, &[], out))?
            }
        };
        match (is_complete, self) {
            (true, _) => Ok(()),
            (false, Self::Gzip(_)) => {
                Err("the compressed data end before they are complete, or are not what their \
                     checksum and length say"
                    .to_owned())
            }
            (false, _) => Err("the compressed data end before they are complete".to_owned()),
        }
    }
}

/// Repeats a step without input until it gives nothing more. Whether the data are complete then.
fn drain(
    is_complete: &mut bool,
    out: &mut BytesMut,
    mut step: impl FnMut(&mut bool, &mut BytesMut) -> Result<usize, String>,
) -> Result<bool, String> {
    let mut before = None;
    while !*is_complete && before != Some(out.len()) {
        before = Some(out.len());
        step(is_complete, out)?;
    }
    Ok(*is_complete)
}

/// A step of zlib. All of the input may be taken while some of the output is still to come.
fn inflate(
    state: &mut Decompress,
    is_complete: &mut bool,
    input: &[u8],
    out: &mut BytesMut,
) -> Result<usize, String> {
    let mut room = Vec::with_capacity(OUTPUT_BYTES);
    let before = state.total_in();
    let status = state.decompress_vec(input, &mut room, FlushDecompress::None);
    out.extend_from_slice(&room);
    *is_complete = status.map_err(|error| broken("zlib", &error))? == Status::StreamEnd;
    Ok(usize::try_from(state.total_in().saturating_sub(before)).unwrap_or(input.len()))
}

/// A step of zstd. All of the input may be taken while some of the output is still to come.
fn expand(
    decoder: &mut Decoder<'_>,
    is_complete: &mut bool,
    input: &[u8],
    out: &mut BytesMut,
) -> Result<usize, String> {
    let mut room = vec![0; OUTPUT_BYTES];
    let mut input = InBuffer::around(input);
    let mut output = OutBuffer::around(room.as_mut_slice());
    let hint = decoder.run(&mut input, &mut output);
    let (taken, made) = (input.pos(), output.pos());
    out.extend_from_slice(room.get(..made).unwrap_or_default());
    *is_complete = hint.map_err(|error| broken("zstd", &error))? == 0;
    Ok(taken)
}

fn broken(format: &str, error: &dyn std::fmt::Display) -> String {
    format!("it is no {format}: {error}")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    fn plain() -> Vec<u8> {
        (0..100_000_u32).flat_map(|number| (number / 7).to_le_bytes()).collect()
    }

    fn packed(compression: Compression) -> Vec<u8> {
        compressed(compression, &plain())
    }

    fn compressed(compression: Compression, content: &[u8]) -> Vec<u8> {
        let level = flate2::Compression::fast();
        match compression {
            Compression::Gzip => {
                let (one, other) = content.split_at(content.len() / 2);
                let member = |bytes: &[u8]| {
                    let mut encoder = GzEncoder::new(Vec::new(), level);
                    encoder.write_all(bytes).unwrap();
                    encoder.finish().unwrap()
                };
                [member(one), member(other)].concat()
            }
            Compression::Zlib => {
                let mut encoder = ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap()
            }
            _ => zstd::encode_all(content, 1).unwrap(),
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

    /// At the end of the input, some of the content may still be to come.
    #[test]
    fn what_shrinks_much_comes_back_to_its_last_byte() {
        let mut state = 1_u64;
        let mut odd = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let beginning: Vec<u8> = (0..4096).map(|_| odd()).collect();
        for beginning in [beginning.as_slice(), &[]] {
            for length in (250_000..320_000).step_by(5000) {
                let content = [beginning, &vec![b'a'; length]].concat();
                for compression in ALL {
                    let input = compressed(compression, &content);
                    let found = unpacked(compression, &input);
                    assert!(found.as_ref() == Ok(&content), "{compression:?} {length}");
                    let cut = unpacked(compression, &input[..input.len() - 1]);
                    assert!(cut.is_err(), "{compression:?} {length}");
                }
            }
        }
    }

    /// All that a decompressor gives before it says what is wrong.
    fn before_the_break(compression: Compression, input: &[u8]) -> Vec<u8> {
        let mut decompressor = Decompressor::of(compression).unwrap().unwrap();
        let (mut out, mut rest) = (BytesMut::new(), input);
        while let Ok(taken) = decompressor.step(rest, &mut out) {
            rest = &rest[taken..];
        }
        out.to_vec()
    }

    #[test]
    fn what_stands_before_a_broken_block_comes_out() {
        let text = b"1\n2\n3\n";
        let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut zlib = ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        for encoder in [&mut gzip as &mut dyn Write, &mut zlib] {
            encoder.write_all(text).unwrap();
            encoder.flush().unwrap();
        }
        // There is no such type of block.
        let broken = |flushed: &[u8]| [flushed, &[7; 64]].concat();
        let (gzip, zlib) = (broken(gzip.get_ref()), broken(zlib.get_ref()));
        assert_eq!(before_the_break(Compression::Gzip, &gzip), text);
        assert_eq!(before_the_break(Compression::Zlib, &zlib), text);
    }

    #[test]
    fn zstd_that_is_cut_behind_a_block_gives_all_of_it() {
        let content = vec![b'a'; 1 << 20];
        let input = zstd::encode_all(content.as_slice(), 1).unwrap();
        for cut in 1..input.len() {
            let mut wanted = Vec::new();
            let mut reader = zstd::stream::read::Decoder::new(&input[..cut]).unwrap();
            reader.read_to_end(&mut wanted).unwrap_err();
            let found = before_the_break(Compression::Zstd, &input[..cut]);
            assert_eq!(found.len(), wanted.len(), "cut at {cut}");
        }
    }

    #[test]
    fn a_wrong_checksum_is_not_told_as_a_cut_alone() {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::none());
        encoder.write_all(b"111\n222\n").unwrap();
        let mut bytes = encoder.finish().unwrap();
        let at = bytes.windows(3).position(|it| it == b"222").unwrap();
        bytes[at] = b'9';
        let error = unpacked(Compression::Gzip, &bytes).unwrap_err();
        assert!(error.contains("checksum"), "{error}");
    }

    #[test]
    fn what_stands_behind_the_end_is_noticed() {
        for compression in ALL {
            let more = [packed(compression), b"and more".to_vec()].concat();
            assert!(unpacked(compression, &more).is_err(), "{compression:?}");
        }
        let twice = [packed(Compression::Zlib), packed(Compression::Zlib)].concat();
        let refused = unpacked(Compression::Zlib, &twice).unwrap_err();
        assert!(refused.contains("behind the end"), "{refused}");
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
