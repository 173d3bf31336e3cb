//! Types of values, as TensorFlow numbers them.

use core::fmt;

macro_rules! dtypes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal, $width:expr;)*) => {
        /// A type of values (`DataType` on the wire; its reference types never occur in elements).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Dtype {
            $($(#[$doc])* $name = $number,)*
        }

        impl Dtype {
            /// Every type.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The type with this number on the wire.
            pub const fn of_number(number: i32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// TensorFlow's name for it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// Bytes of one value; `None` if that differs from value to value.
            pub const fn width(self) -> Option<u64> {
                match self {
                    $(Self::$name => $width,)*
                }
            }
        }
    };
}

dtypes!(
    /// IEEE 754 with 32 bits.
    Float = 1, "float32", Some(4);
    /// IEEE 754 with 64 bits.
    Double = 2, "float64", Some(8);
    /// Signed, 32 bits.
    Int32 = 3, "int32", Some(4);
    /// Unsigned, 8 bits.
    Uint8 = 4, "uint8", Some(1);
    /// Signed, 16 bits.
    Int16 = 5, "int16", Some(2);
    /// Signed, 8 bits.
    Int8 = 6, "int8", Some(1);
    /// Bytes of any length.
    String = 7, "string", None;
    /// Two `Float`: real and imaginary part.
    Complex64 = 8, "complex64", Some(8);
    /// Signed, 64 bits.
    Int64 = 9, "int64", Some(8);
    /// A byte that is 0 or 1.
    Bool = 10, "bool", Some(1);
    /// Quantized, as `Int8`.
    Qint8 = 11, "qint8", Some(1);
    /// Quantized, as `Uint8`.
    Quint8 = 12, "quint8", Some(1);
    /// Quantized, as `Int32`.
    Qint32 = 13, "qint32", Some(4);
    /// The upper half of a `Float`.
    Bfloat16 = 14, "bfloat16", Some(2);
    /// Quantized, as `Int16`.
    Qint16 = 15, "qint16", Some(2);
    /// Quantized, as `Uint16`.
    Quint16 = 16, "quint16", Some(2);
    /// Unsigned, 16 bits.
    Uint16 = 17, "uint16", Some(2);
    /// Two `Double`: real and imaginary part.
    Complex128 = 18, "complex128", Some(16);
    /// IEEE 754 with 16 bits.
    Half = 19, "float16", Some(2);
    /// A handle, which means something only in the process it comes from.
    Resource = 20, "resource", None;
    /// A value of a type that names itself: ragged and sparse tensors, optionals.
    Variant = 21, "variant", None;
    /// Unsigned, 32 bits.
    Uint32 = 22, "uint32", Some(4);
    /// Unsigned, 64 bits.
    Uint64 = 23, "uint64", Some(8);
    /// 8 bits, 5 of them the exponent.
    Float8E5m2 = 24, "float8_e5m2", Some(1);
    /// 8 bits, 4 of them the exponent, without infinities.
    Float8E4m3fn = 25, "float8_e4m3fn", Some(1);
    /// As `Float8E4m3fn`, without a negative zero.
    Float8E4m3fnuz = 26, "float8_e4m3fnuz", Some(1);
    /// As `Float8E4m3fnuz`, its exponent biased by 11.
    Float8E4m3b11fnuz = 27, "float8_e4m3b11fnuz", Some(1);
    /// As `Float8E5m2`, without infinities and a negative zero.
    Float8E5m2fnuz = 28, "float8_e5m2fnuz", Some(1);
    /// Signed: the lower 4 bits of a byte, the others of which mean nothing.
    Int4 = 29, "int4", Some(1);
    /// Unsigned: the lower 4 bits of a byte, the others of which mean nothing.
    Uint4 = 30, "uint4", Some(1);
    /// Signed: the lower 2 bits of a byte, the others of which mean nothing.
    Int2 = 31, "int2", Some(1);
    /// Unsigned: the lower 2 bits of a byte, the others of which mean nothing.
    Uint2 = 32, "uint2", Some(1);
    /// The lower 4 bits of a byte, 2 of them the exponent, without infinities; the others mean nothing.
    Float4E2m1fn = 33, "float4_e2m1fn", Some(1);
);

impl Dtype {
    /// The number on the wire.
    pub const fn number(self) -> i32 {
        self as i32
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
