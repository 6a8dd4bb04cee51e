//! Samples of a trace: all requests of some objects, which a hash of their keys chooses.
//!
//! C. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, "Efficient MRC construction with SHARDS", FAST 2015. A sample of
//! *fixed rate* has each object with the same chance. A sample of *fixed size* begins with all objects, and lowers the
//! rate when it has too many; at the end it is equal to the sample of fixed rate with this number of objects. In
//! contrast to the paper, counts of dropped objects are dropped with them and not scaled, and the sampled requests are
//! kept (4 bytes each), so that any policy can replay the sample.

use crate::requests::{Refused, Requests, RequestsBuilder};
use crate::rng::mix;
use std::collections::{BTreeMap, HashMap};

/// Number of values that the hash of an object can have. An object is in the sample if its hash is below a threshold.
/// With this number as the threshold, every object is in the sample.
const ALL: u32 = 1 << 24;

/// A number that is added to keys before they are hashed, so that the hash differs from those of tables and sketches.
const SALT: u64 = 0x5348_4152_4453;

/// The way in which the objects of a sample are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampling {
    /// The sample has about this share of the objects, above 0 and at most 1.
    Rate(f64),
    /// The sample has at most this number of objects, at least 1.
    Objects(u32),
}

/// Takes a sample of the requests of a trace. The requests must be added in the order of the trace.
#[derive(Debug)]
pub struct SampleBuilder {
    threshold: u32,
    builder: RequestsBuilder,
    /// The objects that are chosen so far; none for a sample of a fixed rate.
    chosen: Option<Chosen>,
    requests: u64,
    bytes: u64,
    has_sizes: bool,
    scratch: (Vec<u64>, Vec<u32>),
}

/// The objects and requests that have been chosen so far, for a sample of fixed size.
#[derive(Debug, Default)]
struct Chosen {
    most: usize,
    /// The keys of the sample, by their hashes. Several keys may have one hash.
    keys: BTreeMap<u32, Vec<u64>>,
    count: usize,
    /// The sampled requests: their keys and their sizes.
    kept: (Vec<u64>, Vec<u32>),
    /// The sample's threshold (an object is sampled if its hash is below it) at the time when the requests of dropped
    /// objects were last removed from `kept`.
    cleaned_at: u32,
    /// The chosen keys, by which a request for a chosen object is recognised.
    known: HashMap<u64, ()>,
}

/// A sample of a trace: all requests for some of its objects.
#[derive(Debug)]
pub struct Sample {
    /// The sampled requests.
    pub requests: Requests,
    /// The share of all objects that are sampled. Each object is sampled with this probability.
    pub rate: f64,
    /// Number of requests of the whole trace.
    pub of_requests: u64,
    /// Number of bytes requested in the whole trace; 0 if requests have no sizes.
    pub of_bytes: u64,
}

fn hash(key: u64) -> u32 {
    (mix(key.wrapping_add(SALT)) >> 40) as u32
}

impl SampleBuilder {
    /// Creates a builder of an empty sample.
    #[must_use]
    pub fn new(sampling: Sampling) -> Self {
        let (threshold, chosen) = match sampling {
            Sampling::Rate(rate) => (((f64::from(ALL) * rate) as u32).clamp(1, ALL), None),
            Sampling::Objects(most) => {
                (ALL, Some(Chosen { most: most.max(1) as usize, cleaned_at: ALL, ..Chosen::default() }))
            }
        };
        Self {
            threshold,
            builder: RequestsBuilder::default(),
            chosen,
            requests: 0,
            bytes: 0,
            has_sizes: false,
            scratch: Default::default(),
        }
    }

    /// Adds requests. `sizes` has the bytes of each request, or is empty.
    ///
    /// # Errors
    /// When the sample has too many requests or objects ([`RequestsBuilder::add`]).
    ///
    /// # Panics
    /// When the slices differ in length, and `sizes` is not empty.
    pub fn add(&mut self, keys: &[u64], sizes: &[u32]) -> Result<(), Refused> {
        assert!(sizes.is_empty() || sizes.len() == keys.len(), "each request has a size, or none has");
        self.requests += keys.len() as u64;
        self.bytes += sizes.iter().map(|size| u64::from(*size)).sum::<u64>();
        self.has_sizes |= !sizes.is_empty();
        let (mut wanted, mut wanted_sizes) = std::mem::take(&mut self.scratch);
        wanted.clear();
        wanted_sizes.clear();
        for (n, key) in keys.iter().enumerate() {
            let hash = hash(*key);
            if hash < self.threshold {
                if let Some(chosen) = &mut self.chosen {
                    self.threshold = chosen.choose(*key, hash).unwrap_or(self.threshold);
                }
                wanted.push(*key);
                wanted_sizes.extend(sizes.get(n));
            }
        }
        let result = match &mut self.chosen {
            Some(chosen) => {
                chosen.keep(&wanted, &wanted_sizes, self.threshold);
                Ok(())
            }
            None if sizes.is_empty() => self.builder.add(&wanted),
            None => self.builder.add_sized(&wanted, &wanted_sizes),
        };
        self.scratch = (wanted, wanted_sizes);
        result
    }

    /// Returns the sample.
    ///
    /// # Errors
    /// As [`SampleBuilder::add`].
    pub fn finish(mut self) -> Result<Sample, Refused> {
        if let Some(mut chosen) = self.chosen {
            chosen.clean(self.threshold);
            let (keys, sizes) = &chosen.kept;
            match self.has_sizes {
                true => self.builder.add_sized(keys, sizes)?,
                false => self.builder.add(keys)?,
            }
        }
        Ok(Sample {
            requests: self.builder.finish(),
            rate: f64::from(self.threshold) / f64::from(ALL),
            of_requests: self.requests,
            of_bytes: self.bytes,
        })
    }
}

impl Chosen {
    /// Adds the object `key`, whose hash is `hash`, to the sample unless the sample has it. If the sample then has too
    /// many objects, removes those with the largest hashes, and returns the new threshold: objects whose hashes reach
    /// it no longer belong to the sample. Otherwise returns `None`.
    fn choose(&mut self, key: u64, hash: u32) -> Option<u32> {
        if self.known.insert(key, ()).is_some() {
            return None;
        }
        self.keys.entry(hash).or_default().push(key);
        self.count += 1;
        let mut lowered = None;
        while self.count > self.most {
            let (hash, keys) = self.keys.pop_last()?;
            self.count -= keys.len();
            keys.iter().for_each(|key| _ = self.known.remove(key));
            // A threshold of 0 would sample nothing for ever.
            lowered = Some(hash.max(1));
        }
        lowered
    }

    fn keep(&mut self, keys: &[u64], sizes: &[u32], threshold: u32) {
        self.kept.0.extend_from_slice(keys);
        self.kept.1.extend_from_slice(sizes);
        if threshold < self.cleaned_at / 2 {
            self.clean(threshold);
        }
    }

    /// Removes the requests of objects that are no longer in the sample: objects whose hash is `threshold` or more.
    fn clean(&mut self, threshold: u32) {
        self.cleaned_at = threshold;
        let (keys, sizes) = &mut self.kept;
        let mut stays = keys.iter().map(|key| hash(*key) < threshold).collect::<Vec<_>>().into_iter();
        if !sizes.is_empty() {
            let mut stays = stays.clone();
            sizes.retain(|_| stays.next().unwrap_or(false));
        }
        keys.retain(|_| stays.next().unwrap_or(false));
    }
}

impl Sample {
    /// Takes a sample of requests that are in memory.
    ///
    /// # Errors
    /// As [`SampleBuilder::add`].
    pub fn of(requests: &Requests, sampling: Sampling) -> Result<Self, Refused> {
        const BLOCK: usize = 4096;
        let mut builder = SampleBuilder::new(sampling);
        for (n, ids) in requests.ids().chunks(BLOCK).enumerate() {
            let keys: Vec<u64> = ids.iter().map(|id| requests.keys()[*id as usize]).collect();
            let sizes = requests.sizes().get(n * BLOCK..n * BLOCK + keys.len()).unwrap_or_default();
            builder.add(&keys, sizes)?;
        }
        builder.finish()
    }

    /// Returns an estimate of the number of distinct objects of the trace.
    #[must_use]
    pub fn distinct(&self) -> u64 {
        (f64::from(self.requests.distinct()) / self.rate).round() as u64
    }

    /// Returns an estimate of the total size of all distinct objects of the trace, bytes. If requests have no sizes,
    /// returns an estimate of the number of these objects.
    #[must_use]
    pub fn distinct_bytes(&self) -> u64 {
        (self.requests.distinct_bytes() as f64 / self.rate).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Vec<u64> {
        let mut state = 3_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % 10_000
        };
        (0..100_000).map(|_| draw().min(draw())).collect()
    }

    #[test]
    fn a_sample_has_all_requests_of_its_objects() {
        let keys = keys();
        let sample = Sample::of(&Requests::from_keys(keys.iter().copied()), Sampling::Rate(0.1)).unwrap();
        let chosen = sample.requests.keys();
        assert!((800..1200).contains(&chosen.len()), "{}", chosen.len());
        let expected = keys.iter().filter(|key| chosen.contains(key)).count();
        assert_eq!((sample.requests.len(), sample.of_requests), (expected, 100_000));
        assert!(sample.distinct().abs_diff(10_000) < 2000);
    }

    #[test]
    fn a_sample_of_fixed_size_is_one_of_fixed_rate() {
        let mut builder = SampleBuilder::new(Sampling::Objects(500));
        let keys = keys();
        let sizes: Vec<u32> = keys.iter().map(|key| *key as u32 + 1).collect();
        for (keys, sizes) in keys.chunks(777).zip(sizes.chunks(777)) {
            builder.add(keys, sizes).unwrap();
        }
        let sample = builder.finish().unwrap();
        assert!((480..=500).contains(&sample.requests.distinct()), "{}", sample.requests.distinct());
        let mut same = SampleBuilder::new(Sampling::Rate(sample.rate));
        same.add(&keys, &sizes).unwrap();
        let same = same.finish().unwrap();
        assert_eq!((same.requests.ids(), same.requests.sizes()), (sample.requests.ids(), sample.requests.sizes()));
        assert_eq!((same.rate, same.of_bytes), (sample.rate, sample.of_bytes));
    }
}
