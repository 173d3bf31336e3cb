//! What NumPy and DLPack call the types of values.

use rondo_core::exchange::ScalarType;

/// DLPack's signed integers.
pub(super) const DL_INT: u8 = 0;
/// DLPack's unsigned integers.
pub(super) const DL_UINT: u8 = 1;
/// DLPack's IEEE numbers.
pub(super) const DL_FLOAT: u8 = 2;
/// DLPack's upper halves of 32 bits.
pub(super) const DL_BFLOAT: u8 = 4;
/// DLPack's complex numbers.
pub(super) const DL_COMPLEX: u8 = 5;
/// DLPack's bytes that are 0 or 1.
pub(super) const DL_BOOL: u8 = 6;

/// Types that NumPy has itself, with its description of them on a little-endian machine.
const NUMPY: [(ScalarType, &str); 14] = [
    (ScalarType::Byte, "|u1"),
    (ScalarType::Char, "|i1"),
    (ScalarType::Short, "<i2"),
    (ScalarType::Int, "<i4"),
    (ScalarType::Long, "<i8"),
    (ScalarType::Half, "<f2"),
    (ScalarType::Float, "<f4"),
    (ScalarType::Double, "<f8"),
    (ScalarType::ComplexFloat, "<c8"),
    (ScalarType::ComplexDouble, "<c16"),
    (ScalarType::Bool, "|b1"),
    (ScalarType::UInt16, "<u2"),
    (ScalarType::UInt32, "<u4"),
    (ScalarType::UInt64, "<u8"),
];

/// DLPack's code and bits of a value.
const DLPACK: [(ScalarType, u8, u8); 21] = [
    (ScalarType::Byte, DL_UINT, 8),
    (ScalarType::Char, DL_INT, 8),
    (ScalarType::Short, DL_INT, 16),
    (ScalarType::Int, DL_INT, 32),
    (ScalarType::Long, DL_INT, 64),
    (ScalarType::Half, DL_FLOAT, 16),
    (ScalarType::Float, DL_FLOAT, 32),
    (ScalarType::Double, DL_FLOAT, 64),
    (ScalarType::ComplexHalf, DL_COMPLEX, 32),
    (ScalarType::ComplexFloat, DL_COMPLEX, 64),
    (ScalarType::ComplexDouble, DL_COMPLEX, 128),
    (ScalarType::Bool, DL_BOOL, 8),
    (ScalarType::BFloat16, DL_BFLOAT, 16),
    (ScalarType::UInt16, DL_UINT, 16),
    (ScalarType::UInt32, DL_UINT, 32),
    (ScalarType::UInt64, DL_UINT, 64),
    (ScalarType::Float8E4m3fn, 10, 8),
    (ScalarType::Float8E4m3fnuz, 11, 8),
    (ScalarType::Float8E5m2, 12, 8),
    (ScalarType::Float8E5m2fnuz, 13, 8),
    (ScalarType::Float8E8m0fnu, 14, 8),
];

/// NumPy's description of a type, if it has the type.
pub(super) fn typestr_of(dtype: ScalarType) -> Option<&'static str> {
    NUMPY.iter().find(|(known, _)| *known == dtype).map(|(_, typestr)| *typestr)
}

/// The type that NumPy describes so.
pub(super) fn of_typestr(typestr: &str) -> Option<ScalarType> {
    NUMPY.iter().find(|(_, known)| *known == typestr).map(|(dtype, _)| *dtype)
}

/// The type with this name, which is torch's and that of the package `ml_dtypes`.
pub(super) fn of_name(name: &str) -> Option<ScalarType> {
    ScalarType::ALL.iter().copied().find(|dtype| dtype.name() == name)
}

/// DLPack's code and bits of a type, if it has the type.
pub(super) fn dlpack_of(dtype: ScalarType) -> Option<(u8, u8)> {
    DLPACK.iter().find(|(known, _, _)| *known == dtype).map(|(_, code, bits)| (*code, *bits))
}

/// The type that DLPack describes so.
pub(super) fn of_dlpack(code: u8, bits: u8) -> Option<ScalarType> {
    DLPACK.iter().find(|(_, known, size)| (*known, *size) == (code, bits)).map(|(dtype, ..)| *dtype)
}

/// A type of integers as wide, which every library has: values travel as those and are read as
/// their own then.
pub(super) const fn carrier(dtype: ScalarType) -> ScalarType {
    match dtype.item_bytes() {
        1 => ScalarType::Byte,
        2 => ScalarType::Short,
        4 => ScalarType::Int,
        8 => ScalarType::Long,
        // As wide is no integer.
        _ => dtype,
    }
}
