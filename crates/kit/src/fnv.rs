//! The 64-bit hash FNV-1a, for fingerprints and patterns, which must never change.

/// Returns the hash of some bytes.
///
/// ```
/// assert_eq!(kit::fnv::hash(*b"foobar"), 0x8594_4171_f739_67e8);
/// ```
pub fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, add)
}
