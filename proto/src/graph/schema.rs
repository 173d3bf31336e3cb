//! The fields of `tensorflow.StructuredValue` and of all messages in it, as far as comparing two
//! of them needs: which are messages, which repeat, how wide a number is.

/// How a field's value is compared.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A 64-bit integer.
    Int,
    /// A 32-bit integer or an enum: what is above bit 31 on the wire does not count.
    Int32,
    Bool,
    Float,
    Double,
    /// A string or bytes.
    Chunk,
    Message(&'static Schema),
    /// A map from strings to messages.
    Map(&'static Schema),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) number: u64,
    pub(super) kind: Kind,
    pub(super) repeated: bool,
}

#[derive(Debug)]
pub(super) struct Schema {
    pub(super) fields: &'static [Shape],
    /// All fields exclude each other: the last one written counts.
    pub(super) one_of: bool,
}

impl Schema {
    pub(super) fn field(&self, number: u64) -> Option<Shape> {
        self.fields.iter().find(|field| field.number == number).copied()
    }
}

const fn one(number: u64, kind: Kind) -> Shape {
    Shape { number, kind, repeated: false }
}

const fn many(number: u64, kind: Kind) -> Shape {
    Shape { number, kind, repeated: true }
}

const fn message(fields: &'static [Shape]) -> Schema {
    Schema { fields, one_of: false }
}

/// `StructuredValue`.
pub(super) static STRUCTURED_VALUE: Schema = Schema {
    one_of: true,
    fields: &[
        one(1, Kind::Message(&NONE_VALUE)),
        one(11, Kind::Double),
        one(12, Kind::Int),
        one(13, Kind::Chunk),
        one(14, Kind::Bool),
        one(31, Kind::Message(&TENSOR_SHAPE)),
        one(32, Kind::Int32),
        one(33, Kind::Message(&TENSOR_SPEC)),
        one(34, Kind::Message(&TYPE_SPEC)),
        one(35, Kind::Message(&BOUNDED_TENSOR_SPEC)),
        one(51, Kind::Message(&VALUES)),
        one(52, Kind::Message(&VALUES)),
        one(53, Kind::Message(&DICT_VALUE)),
        one(54, Kind::Message(&NAMED_TUPLE_VALUE)),
        one(55, Kind::Message(&TENSOR)),
        one(56, Kind::Message(&TENSOR)),
    ],
};

static NONE_VALUE: Schema = message(&[]);

/// `ListValue` and `TupleValue`.
static VALUES: Schema = message(&[many(1, Kind::Message(&STRUCTURED_VALUE))]);

static DICT_VALUE: Schema = message(&[many(1, Kind::Map(&STRUCTURED_VALUE))]);

static NAMED_TUPLE_VALUE: Schema =
    message(&[one(1, Kind::Chunk), many(2, Kind::Message(&PAIR_VALUE))]);

static PAIR_VALUE: Schema =
    message(&[one(1, Kind::Chunk), one(2, Kind::Message(&STRUCTURED_VALUE))]);

static TENSOR_SPEC: Schema =
    message(&[one(1, Kind::Chunk), one(2, Kind::Message(&TENSOR_SHAPE)), one(3, Kind::Int32)]);

static BOUNDED_TENSOR_SPEC: Schema = message(&[
    one(1, Kind::Chunk),
    one(2, Kind::Message(&TENSOR_SHAPE)),
    one(3, Kind::Int32),
    one(4, Kind::Message(&TENSOR)),
    one(5, Kind::Message(&TENSOR)),
]);

static TYPE_SPEC: Schema = message(&[
    one(1, Kind::Int32),
    one(2, Kind::Message(&STRUCTURED_VALUE)),
    one(3, Kind::Chunk),
    one(4, Kind::Int32),
]);

static TENSOR_SHAPE: Schema = message(&[many(2, Kind::Message(&DIM)), one(3, Kind::Bool)]);

static DIM: Schema = message(&[one(1, Kind::Int), one(2, Kind::Chunk)]);

static TENSOR: Schema = message(&[
    one(1, Kind::Int32),
    one(2, Kind::Message(&TENSOR_SHAPE)),
    one(3, Kind::Int32),
    one(4, Kind::Chunk),
    many(5, Kind::Float),
    many(6, Kind::Double),
    many(7, Kind::Int32),
    many(8, Kind::Chunk),
    many(9, Kind::Float),
    many(10, Kind::Int),
    many(11, Kind::Bool),
    many(12, Kind::Double),
    many(13, Kind::Int32),
    many(14, Kind::Message(&RESOURCE_HANDLE)),
    many(15, Kind::Message(&VARIANT)),
    many(16, Kind::Int32),
    many(17, Kind::Int),
    one(18, Kind::Chunk),
]);

static RESOURCE_HANDLE: Schema = message(&[
    one(1, Kind::Chunk),
    one(2, Kind::Chunk),
    one(3, Kind::Chunk),
    one(4, Kind::Int),
    one(5, Kind::Chunk),
    many(6, Kind::Message(&DTYPE_AND_SHAPE)),
]);

static DTYPE_AND_SHAPE: Schema =
    message(&[one(1, Kind::Int32), one(2, Kind::Message(&TENSOR_SHAPE))]);

static VARIANT: Schema =
    message(&[one(1, Kind::Chunk), one(2, Kind::Chunk), many(3, Kind::Message(&TENSOR))]);
