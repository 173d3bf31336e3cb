//! Protobuf's wire format, read in place: fields are slices of the message, nothing is copied.

use super::error::GraphError;

/// Levels of nesting that protobuf's own readers allow.
pub(crate) const DEPTH_MAX: usize = 100;
const VARINT_BYTES_MAX: usize = 10;

/// A message in place: its bytes, where they lie in the outermost message, and that one's name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) bytes: &'a [u8],
    base: usize,
    root: &'static str,
}

/// A field's value, by wire type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    /// Length-delimited: a string, bytes, a packed list or a message.
    Chunk(Message<'a>),
    /// A group with both its tags. No TensorFlow message has one, so it is always unknown.
    Group(&'a [u8]),
}

/// A field in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) number: u64,
    pub(crate) value: Value<'a>,
    /// Where the tag starts in the message that holds the field.
    pub(crate) start: usize,
    /// Where the value ends in the message that holds the field.
    pub(crate) end: usize,
}

impl<'a> Message<'a> {
    /// The outermost message; errors call it by this name.
    pub(crate) const fn root(bytes: &'a [u8], root: &'static str) -> Self {
        Self { bytes, base: 0, root }
    }

    /// The fields in the order in which they were written.
    pub(crate) const fn fields(self) -> Fields<'a> {
        Fields { message: self, at: 0 }
    }

    /// The length-delimited fields of this number.
    pub(crate) fn chunks(
        self,
        number: u64,
    ) -> impl Iterator<Item = Result<Message<'a>, GraphError>> {
        self.fields().filter_map(move |field| match field {
            Ok(Field { number: found, value: Value::Chunk(chunk), .. }) => {
                (found == number).then_some(Ok(chunk))
            }
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
    }

    /// The last length-delimited field of this number: the one that counts if it is singular.
    pub(crate) fn last_chunk(self, number: u64) -> Result<Option<Message<'a>>, GraphError> {
        self.chunks(number).try_fold(None, |_, chunk| chunk.map(Some))
    }

    /// The integers of a packed list.
    pub(crate) const fn packed_varints(self) -> PackedVarints<'a> {
        PackedVarints(self.fields())
    }

    /// The error for a message that is one level too deep.
    pub(crate) const fn too_deep(self) -> GraphError {
        GraphError::TooDeep { message: self.root, offset: self.base, depth_max: DEPTH_MAX }
    }
}

/// An iterator over a message's fields. Ends after the first error.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    message: Message<'a>,
    at: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, GraphError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.message.bytes.len() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.at = self.message.bytes.len();
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<Field<'a>, GraphError> {
        let start = self.at;
        let (number, wire_type) = self.tag()?;
        let value = match wire_type {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(self.array(start)?),
            2 => {
                let length = self.varint()?;
                Value::Chunk(self.chunk(start, length)?)
            }
            3 => self.group(start, number)?,
            5 => Value::Fixed32(self.array(start)?),
            _ => return Err(self.bad_tag(start, number << 3 | wire_type)),
        };
        Ok(Field { number, value, start, end: self.at })
    }

    /// A tag: the field's number and its wire type.
    fn tag(&mut self) -> Result<(u64, u64), GraphError> {
        let start = self.at;
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || tag > u64::from(u32::MAX) {
            return Err(self.bad_tag(start, tag));
        }
        Ok((number, tag & 7))
    }

    fn varint(&mut self) -> Result<u64, GraphError> {
        let start = self.at;
        let mut value = 0_u64;
        for index in 0..VARINT_BYTES_MAX {
            let Some(&byte) = self.message.bytes.get(self.at) else {
                let needed = self.at.saturating_sub(start).saturating_add(1);
                return Err(self.truncated(start, needed as u64));
            };
            self.at = self.at.saturating_add(1);
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        let offset = self.message.base.saturating_add(start);
        Err(GraphError::BadVarint { message: self.message.root, offset })
    }

    fn chunk(&mut self, start: usize, length: u64) -> Result<Message<'a>, GraphError> {
        let from = self.at;
        let bytes = usize::try_from(length)
            .ok()
            .and_then(|length| from.checked_add(length))
            .and_then(|end| self.message.bytes.get(from..end))
            .ok_or_else(|| self.truncated(start, length))?;
        self.at = from.saturating_add(bytes.len());
        let base = self.message.base.saturating_add(from);
        Ok(Message { bytes, base, root: self.message.root })
    }

    fn array<const N: usize>(&mut self, start: usize) -> Result<[u8; N], GraphError> {
        let chunk = self.chunk(start, N as u64)?;
        chunk.bytes.try_into().map_err(|_| self.truncated(start, N as u64))
    }

    /// Skips to the end of a group whose opening tag has just been read.
    fn group(&mut self, start: usize, number: u64) -> Result<Value<'a>, GraphError> {
        let mut open = vec![number];
        while let Some(&innermost) = open.last() {
            let at = self.at;
            match self.tag()? {
                (_, 0) => drop(self.varint()?),
                (_, 1) => drop(self.array::<8>(at)?),
                (_, 2) => {
                    let length = self.varint()?;
                    self.chunk(at, length)?;
                }
                (_, 3) if open.len() >= DEPTH_MAX => return Err(self.message.too_deep()),
                (inner, 3) => open.push(inner),
                (ended, 4) if ended == innermost => drop(open.pop()),
                (_, 5) => drop(self.array::<4>(at)?),
                (other, wire_type) => return Err(self.bad_tag(at, other << 3 | wire_type)),
            }
        }
        Ok(Value::Group(self.message.bytes.get(start..self.at).unwrap_or_default()))
    }

    const fn truncated(&self, start: usize, needed: u64) -> GraphError {
        GraphError::Truncated {
            message: self.message.root,
            offset: self.message.base.saturating_add(start),
            needed,
            left: self.message.bytes.len().saturating_sub(self.at),
        }
    }

    const fn bad_tag(&self, start: usize, tag: u64) -> GraphError {
        let offset = self.message.base.saturating_add(start);
        GraphError::BadTag { message: self.message.root, offset, tag }
    }
}

/// An iterator over a packed list of integers. Ends after the first error.
#[derive(Clone, Debug)]
pub(crate) struct PackedVarints<'a>(Fields<'a>);

impl Iterator for PackedVarints<'_> {
    type Item = Result<u64, GraphError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.at >= self.0.message.bytes.len() {
            return None;
        }
        let value = self.0.varint();
        if value.is_err() {
            self.0.at = self.0.message.bytes.len();
        }
        Some(value)
    }
}

/// Appends a variable-length integer.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The tag and length that precede a length-delimited field.
pub(crate) fn chunk_header(number: u64, length: usize) -> Vec<u8> {
    let mut header = Vec::with_capacity(2 * VARINT_BYTES_MAX);
    put_varint(&mut header, number << 3 | 2);
    put_varint(&mut header, length as u64);
    header
}
