//! XXH64 of eight bytes, as the published algorithm computes it (Collet, "xxHash fast digest algorithm", version 0.1.1).
//!
//! W-TinyLFU's sketch places counters by this hash, as libCacheSim 0.3.5 does, so that miss ratios can be compared digit
//! for digit.

const PRIMES: [u64; 5] =
    [0x9e37_79b1_85eb_ca87, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9, 0x85eb_ca77_c2b2_ae63, 0x27d4_eb2f_1656_67c5];

/// The seeds of the two hashes of an object.
const SEEDS: [u64; 2] = [0x1234_5678, 0x1234_4321];

/// Returns the hash of a key's eight little-endian bytes.
pub(crate) const fn xxh64(key: u64, seed: u64) -> u64 {
    let lane = key.wrapping_mul(PRIMES[1]).rotate_left(31).wrapping_mul(PRIMES[0]);
    let mut hash = seed.wrapping_add(PRIMES[4]).wrapping_add(8) ^ lane;
    hash = hash.rotate_left(27).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3]);
    hash = (hash ^ hash >> 33).wrapping_mul(PRIMES[1]);
    hash = (hash ^ hash >> 29).wrapping_mul(PRIMES[2]);
    hash ^ hash >> 32
}

/// Returns the low 32 bits of two hashes of a key, which are XXH64 with two different seeds.
pub(crate) const fn pair(key: u64) -> [u32; 2] {
    [xxh64(key, SEEDS[0]) as u32, xxh64(key, SEEDS[1]) as u32]
}

#[cfg(test)]
mod tests {
    /// Hashes three pairs of key and seed. The results must equal the values that the reference implementation of
    /// xxHash gives.
    #[test]
    fn hashes_are_those_of_the_reference() {
        REFERENCE.iter().for_each(|(key, seed, hash)| assert_eq!(super::xxh64(*key, *seed), *hash));
    }

    const REFERENCE: [(u64, u64, u64); 3] = [
        (0, 0, 0x34c9_6acd_cadb_1bbb),
        (1, 0x1234_5678, 0x071b_9484_a237_4097),
        (0x0123_4567_89ab_cdef, 0x1234_4321, 0xb999_8ad8_2042_d74b),
    ];
}
