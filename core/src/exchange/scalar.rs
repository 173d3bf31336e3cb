//! Types of a tensor's values, as torch numbers them (`c10::ScalarType`).

use core::fmt;

macro_rules! scalars {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal, $bytes:literal;)*) => {
        /// A type of values: torch's number of it travels with each tensor.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ScalarType {
            $($(#[$doc])* $name = $number,)*
        }

        impl ScalarType {
            /// Every type.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The type with this number.
            pub const fn of_number(number: i32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Its name in Python, after `torch.`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// Bytes of one item.
            pub const fn item_bytes(self) -> u64 {
                match self {
                    $(Self::$name => $bytes,)*
                }
            }
        }
    };
}

scalars!(
    /// Unsigned, 8 bits.
    Byte = 0, "uint8", 1;
    /// Signed, 8 bits.
    Char = 1, "int8", 1;
    /// Signed, 16 bits.
    Short = 2, "int16", 2;
    /// Signed, 32 bits.
    Int = 3, "int32", 4;
    /// Signed, 64 bits.
    Long = 4, "int64", 8;
    /// IEEE 754 with 16 bits.
    Half = 5, "float16", 2;
    /// IEEE 754 with 32 bits.
    Float = 6, "float32", 4;
    /// IEEE 754 with 64 bits.
    Double = 7, "float64", 8;
    /// Two `Half`.
    ComplexHalf = 8, "complex32", 4;
    /// Two `Float`.
    ComplexFloat = 9, "complex64", 8;
    /// Two `Double`.
    ComplexDouble = 10, "complex128", 16;
    /// A byte that is 0 or 1.
    Bool = 11, "bool", 1;
    /// Quantized, as `Char`.
    QInt8 = 12, "qint8", 1;
    /// Quantized, as `Byte`.
    QUInt8 = 13, "quint8", 1;
    /// Quantized, as `Int`.
    QInt32 = 14, "qint32", 4;
    /// The upper half of a `Float`.
    BFloat16 = 15, "bfloat16", 2;
    /// Two quantized values of 4 bits.
    QUInt4x2 = 16, "quint4x2", 1;
    /// Four quantized values of 2 bits.
    QUInt2x4 = 17, "quint2x4", 1;
    /// Eight single bits.
    Bits1x8 = 18, "bits1x8", 1;
    /// Four times 2 bits.
    Bits2x4 = 19, "bits2x4", 1;
    /// Twice 4 bits.
    Bits4x2 = 20, "bits4x2", 1;
    /// 8 bits.
    Bits8 = 21, "bits8", 1;
    /// 16 bits.
    Bits16 = 22, "bits16", 2;
    /// 8 bits, 5 of them the exponent.
    Float8E5m2 = 23, "float8_e5m2", 1;
    /// 8 bits, 4 of them the exponent, without infinities.
    Float8E4m3fn = 24, "float8_e4m3fn", 1;
    /// As `Float8E5m2`, without infinities and a negative zero.
    Float8E5m2fnuz = 25, "float8_e5m2fnuz", 1;
    /// As `Float8E4m3fn`, without a negative zero.
    Float8E4m3fnuz = 26, "float8_e4m3fnuz", 1;
    /// Unsigned, 16 bits.
    UInt16 = 27, "uint16", 2;
    /// Unsigned, 32 bits.
    UInt32 = 28, "uint32", 4;
    /// Unsigned, 64 bits.
    UInt64 = 29, "uint64", 8;
    /// Unsigned, 1 bit in a byte.
    UInt1 = 30, "uint1", 1;
    /// Unsigned, 2 bits in a byte.
    UInt2 = 31, "uint2", 1;
    /// Unsigned, 3 bits in a byte.
    UInt3 = 32, "uint3", 1;
    /// Unsigned, 4 bits in a byte.
    UInt4 = 33, "uint4", 1;
    /// Unsigned, 5 bits in a byte.
    UInt5 = 34, "uint5", 1;
    /// Unsigned, 6 bits in a byte.
    UInt6 = 35, "uint6", 1;
    /// Unsigned, 7 bits in a byte.
    UInt7 = 36, "uint7", 1;
    /// Signed, 1 bit in a byte.
    Int1 = 37, "int1", 1;
    /// Signed, 2 bits in a byte.
    Int2 = 38, "int2", 1;
    /// Signed, 3 bits in a byte.
    Int3 = 39, "int3", 1;
    /// Signed, 4 bits in a byte.
    Int4 = 40, "int4", 1;
    /// Signed, 5 bits in a byte.
    Int5 = 41, "int5", 1;
    /// Signed, 6 bits in a byte.
    Int6 = 42, "int6", 1;
    /// Signed, 7 bits in a byte.
    Int7 = 43, "int7", 1;
    /// 8 bits, all of them the exponent.
    Float8E8m0fnu = 44, "float8_e8m0fnu", 1;
    /// Two values of 4 bits, 2 of them the exponent.
    Float4E2m1fnX2 = 45, "float4_e2m1fn_x2", 1;
);

impl ScalarType {
    /// The number on the wire.
    pub const fn number(self) -> i32 {
        self as i32
    }
}

impl fmt::Display for ScalarType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
