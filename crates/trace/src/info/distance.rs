//! [`Reuse`]: the reuse distance of each access, exact or of a sample of the keys.

use hashbrown::HashTable;

/// A key (page or object) that was accessed, with the counts of its accesses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    /// Number of the page or object that was accessed.
    pub key: u64,
    /// Number of accesses to the key so far.
    pub count: u64,
    /// Index of the time interval of the trace in which the key was accessed last. Only the caller sets and reads this
    /// field.
    pub interval: u32,
    /// Place of the key's last access in the order of all accesses.
    place: u32,
    /// The object's size, bytes. Only the caller sets and reads this field.
    pub bytes: u64,
}

/// One access to a key: its reuse distance, the number of accesses for which it stands, and what is known about the
/// key.
pub struct Touch<'a> {
    /// Number of different other keys that were accessed since the last access to this key; `None` at the key's first
    /// access. If only a sample of the keys is kept, the number is scaled up to all keys.
    pub distance: Option<u64>,
    /// Number of accesses for which this access stands: 1, or more if only a sample of the keys is followed.
    pub weight: u64,
    /// What the table has about the accessed key. The counts in the entry already include this access.
    pub entry: &'a mut Entry,
}

/// The accesses so far, in the order of each key's last access.
///
/// Each access has a place, in the order of time. A set of bits has one bit for each place. This bit is 1 if the access
/// is the last access of some key. So a reuse distance is the number of ones after a place. A Fenwick tree keeps sums
/// over words of 64 bits. If there are more than `keys_max` keys, half of the keys are dropped, chosen by a hash of the
/// key. From then on the kept keys are a sample of all keys: C. Waldspurger et al., "Efficient MRC Construction with
/// SHARDS", FAST 2015.
#[derive(Debug)]
pub struct Reuse {
    keys_max: usize,
    /// Says how large the kept sample is: one of 2^`shift` keys is kept. 0 if all keys are kept.
    shift: u32,
    numbers: HashTable<u32>,
    entries: Vec<Entry>,
    /// For each place, the number of the key that was accessed there. The number is valid only at the place of a key's
    /// last access. At other places it may be stale.
    keys_at: Vec<u32>,
    ones: Vec<u64>,
    sums: Vec<u32>,
}

/// Largest number of keys that can be kept. There are twice as many places as keys, and places are numbers of 32 bits.
const KEYS_LIMIT: usize = 1 << 30;
/// Smallest value of `keys_max`. The value can be so small because different keys have different hashes: if a sample is
/// halved by hash often enough, it has fewer keys than this.
const KEYS_LEAST: usize = 16;
const WORD: usize = 64;

/// Spreads keys over 64 bits (the last step of SplitMix64).
const fn mix(key: u64) -> u64 {
    let key = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ key >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ key >> 31
}

impl Reuse {
    /// Makes an empty set that keeps at most `keys_max` keys, each of which takes 50 to 80 bytes. A bound below 16
    /// counts as 16, and one above 2^30 counts as 2^30.
    #[must_use]
    pub fn new(keys_max: usize) -> Self {
        let keys_max = keys_max.clamp(KEYS_LEAST, KEYS_LIMIT);
        let numbers = HashTable::new();
        Self {
            keys_max,
            shift: 0,
            numbers,
            entries: Vec::new(),
            keys_at: Vec::new(),
            ones: Vec::new(),
            sums: Vec::new(),
        }
    }

    /// Returns the number of keys of the trace divided by the number of kept keys. This is 1 as long as all keys are
    /// kept, and more once they are a sample.
    #[must_use]
    pub const fn keys_per_kept(&self) -> u64 {
        1 << self.shift
    }

    /// Returns all keys of the sample, each with the counts of its accesses.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Counts an access to a key. Returns the reuse distance of this access, and the key's entry with the counts of its
    /// accesses. Returns `None` if the key is not in the sample.
    #[inline]
    pub fn touch(&mut self, key: u64) -> Option<Touch<'_>> {
        let hash = mix(key);
        if hash & (self.keys_per_kept() - 1) != 0 {
            return None;
        }
        if self.keys_at.len() == self.ones.len() * WORD {
            self.make_room();
        }
        let place = self.keys_at.len() as u32;
        // The low bits of the hash are 0 in a sample.
        let found =
            self.numbers.find(hash.rotate_right(self.shift), |number| self.entries[*number as usize].key == key);
        let (number, distance) = match found.copied() {
            Some(number) => {
                let entry = &mut self.entries[number as usize];
                let last = std::mem::replace(&mut entry.place, place) as usize;
                entry.count += 1;
                let up_to = self.count_up_to(last);
                self.clear(last);
                (number, Some((self.entries.len() as u64 - up_to) << self.shift))
            }
            None => {
                let number = self.add(Entry { key, count: 1, place, ..Entry::default() }, hash)?;
                (number, None)
            }
        };
        // Adding a key may have moved all places.
        let place = self.keys_at.len();
        self.entries[number as usize].place = place as u32;
        self.keys_at.push(number);
        self.ones[place / WORD] |= 1 << (place % WORD);
        self.change(place, 1);
        Some(Touch { distance, weight: 1 << self.shift, entry: &mut self.entries[number as usize] })
    }

    /// Adds a key and returns its number. If there are too many keys, first drops half of all keys; returns `None` if
    /// the new key belongs to the dropped half.
    fn add(&mut self, entry: Entry, hash: u64) -> Option<u32> {
        while self.entries.len() >= self.keys_max {
            self.drop_half();
        }
        if hash & (self.keys_per_kept() - 1) != 0 {
            return None;
        }
        if self.keys_at.len() == self.ones.len() * WORD {
            self.make_room();
        }
        let number = self.entries.len() as u32;
        self.entries.push(entry);
        let (entries, shift) = (&self.entries, self.shift);
        let hash_of = |number: &u32| mix(entries[*number as usize].key).rotate_right(shift);
        self.numbers.insert_unique(hash.rotate_right(shift), number, hash_of);
        Some(number)
    }

    /// Drops half of the keys of the sample, chosen by a hash of the key.
    fn drop_half(&mut self) {
        self.shift += 1;
        let kept = self.keys_per_kept() - 1;
        let mut new_numbers = vec![u32::MAX; self.entries.len()];
        let mut entries = Vec::with_capacity(self.entries.len() / 2);
        for (number, entry) in self.entries.iter().enumerate().filter(|(_, entry)| mix(entry.key) & kept == 0) {
            new_numbers[number] = entries.len() as u32;
            entries.push(*entry);
        }
        let in_order: Vec<u32> = self.in_order().into_iter().map(|number| new_numbers[number as usize]).collect();
        self.entries = entries;
        self.numbers.clear();
        let (entries, shift) = (&self.entries, self.shift);
        let hash_of = |number: &u32| mix(entries[*number as usize].key).rotate_right(shift);
        for number in 0..entries.len() as u32 {
            self.numbers.insert_unique(hash_of(&number), number, hash_of);
        }
        self.place(in_order.into_iter().filter(|number| *number != u32::MAX).collect());
    }

    /// Returns the keys of the sample, by number, in the order of their last accesses.
    fn in_order(&self) -> Vec<u32> {
        let is_last = |(place, _): &(usize, &u32)| self.ones[place / WORD] >> (place % WORD) & 1 == 1;
        self.keys_at.iter().enumerate().filter(is_last).map(|(_, number)| *number).collect()
    }

    /// Makes room for new accesses when all places are taken: drops the places of accesses that are not the last of
    /// their key, and moves the others to the first places, in the same order.
    fn make_room(&mut self) {
        let in_order = self.in_order();
        self.place(in_order);
    }

    /// Gives the accesses new places: the last accesses of the keys `in_order` get the first places, in this order. At
    /// least as many free places follow.
    fn place(&mut self, in_order: Vec<u32>) {
        let live = in_order.len();
        let words = (2 * live + 16 * WORD).div_ceil(WORD);
        for (place, number) in in_order.iter().enumerate() {
            self.entries[*number as usize].place = place as u32;
        }
        self.keys_at = in_order;
        self.ones = (0..words)
            .map(|word| {
                let ones = live.saturating_sub(word * WORD).min(WORD);
                if ones == WORD { u64::MAX } else { (1 << ones) - 1 }
            })
            .collect();
        // Each node of the tree is the sum of the words that its lowest bit spans.
        self.sums = vec![0; words + 1];
        for word in 1..=words {
            self.sums[word] += self.ones[word - 1].count_ones();
            let up = word + (word & word.wrapping_neg());
            if up <= words {
                self.sums[up] += self.sums[word];
            }
        }
    }

    /// Returns the number of bits in `ones` that are set, from the first place up to and including `place`.
    fn count_up_to(&self, place: usize) -> u64 {
        let mut word = place / WORD;
        let mut count = u64::from((self.ones[word] << (WORD - 1 - place % WORD)).count_ones());
        while word > 0 {
            count += u64::from(self.sums[word]);
            word &= word - 1;
        }
        count
    }

    fn clear(&mut self, place: usize) {
        self.ones[place / WORD] &= !(1 << (place % WORD));
        self.change(place, u32::MAX);
    }

    /// Adds `by` to the sums that count the bit `place` of `ones`. `u32::MAX` subtracts 1, because the sums wrap
    /// around.
    fn change(&mut self, place: usize, by: u32) {
        let mut word = place / WORD + 1;
        while word < self.sums.len() {
            self.sums[word] = self.sums[word].wrapping_add(by);
            word += word & word.wrapping_neg();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computes the reuse distances in a simple way, by a list of keys with the last accessed key first.
    fn naive(keys: &[u64]) -> Vec<Option<u64>> {
        let mut list = Vec::<u64>::new();
        let mut distances = Vec::new();
        for key in keys {
            let at = list.iter().position(|one| one == key);
            distances.push(at.map(|at| at as u64));
            at.map(|at| list.remove(at));
            list.insert(0, *key);
        }
        distances
    }

    proptest! {
        #[test]
        fn distances_are_those_of_a_list(keys in prop::collection::vec(0_u64..300, 0..4000), spread in 1_u64..1 << 50) {
            let keys: Vec<u64> = keys.iter().map(|key| key * spread).collect();
            let mut reuse = Reuse::new(1000);
            let found: Vec<_> = keys.iter().map(|key| reuse.touch(*key).unwrap().distance).collect();
            prop_assert_eq!(found, naive(&keys));
            let accesses: u64 = reuse.entries().iter().map(|entry| entry.count).sum();
            prop_assert_eq!(accesses, keys.len() as u64);
        }

        #[test]
        fn the_keys_of_a_sample_have_all_their_accesses(keys in prop::collection::vec(0_u64..5000, 0..6000), most in 16_usize..200) {
            let mut reuse = Reuse::new(most);
            for key in &keys {
                let _ = reuse.touch(*key);
            }
            prop_assert!(reuse.entries().len() <= most);
            for entry in reuse.entries() {
                prop_assert_eq!(entry.count, keys.iter().filter(|key| **key == entry.key).count() as u64);
            }
        }
    }

    #[test]
    fn a_sample_has_nearly_the_distances_of_all() {
        let rng = &mut sim::Rng::new(1, 0);
        let keys: Vec<u64> = (0..400_000).map(|_| rng.below(100).pow(2) * rng.below(10)).collect();
        let mean = |most: usize| {
            let mut reuse = Reuse::new(most);
            let (mut sum, mut weights) = (0.0, 0.0);
            for key in &keys {
                if let Some(Touch { distance: Some(distance), weight, .. }) = reuse.touch(*key) {
                    sum += distance as f64 * weight as f64;
                    weights += weight as f64;
                }
            }
            (sum / weights, reuse.keys_per_kept())
        };
        let (exact, all) = mean(100_000);
        let (about, kept) = mean(256);
        assert!(all == 1 && kept > 1, "{kept}");
        assert!((about / exact - 1.0).abs() < 0.2, "{about} {exact}");
    }
}
