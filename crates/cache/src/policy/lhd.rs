//! LHD: among a few random objects, evicts the object whose space is expected to give the fewest hits.
//!
//! N. Beckmann, H. Chen, A. Cidon, "LHD: improving cache hit rate by maximizing hit density", NSDI 2018, with the
//! constants of libCacheSim 0.3.5. An eviction compares 32 random objects (8 in the first 50 million requests), and up
//! to 8 more: the last inserted objects that had a lower hit density than a mean victim. There are 16 classes of
//! objects, by the ages of their last two hits. Ages go up to 20000, in units that are fitted to the number of objects.
//! Densities are computed anew after each 2^20 requests. libCacheSim seeds its random numbers by the clock; here the
//! seed is fixed, and other seeds change miss ratios in the fourth digit.
//!
//! State: 16 bytes for each cached object, 10.5 to 21 in a hash table, and 3.8 MB for the classes of each cache.

use crate::list::NONE;
use crate::rng::Rng;
use crate::table::Table;
use crate::{Cache, Weigh};

const CLASSES: usize = 16;
const AGES: usize = 20_000;
const OLDEST: u32 = AGES as u32 - 1;
/// Number of requests after which all hit densities are computed anew.
const PERIOD: u32 = 1 << 20;
const DECAY: f32 = 0.9;
/// Number of periods that count as the beginning of a replay. In these periods, fewer objects are compared at an
/// eviction, and some objects are explorers ([`EXPLORE_EVERY`]).
const EARLY: u32 = 50;
const CANDIDATES: u32 = 32;
const CANDIDATES_EARLY: u32 = 8;
const REMEMBERED: usize = 8;
/// One in this number of insertions and hits, chosen at random, makes its object an *explorer*. An explorer is not
/// evicted before its next hit.
const EXPLORE_EVERY: u32 = 32;
/// Largest weight that all explorers ([`EXPLORE_EVERY`]) may have together, as a share of the capacity.
const EXPLORERS: f64 = 0.01;
/// Share of the largest age that the unit of ages is fitted to: an age of as many requests as there are cached objects
/// is to be about this share.
const AGE_ERROR: f32 = 0.01;
/// Start value of the hit densities. Until the first [`PERIOD`] is over, class n has the density (`FIRST_CLASS` + n) /
/// (a + 1) at age a. A class has a higher number if the last two hits of its objects came at shorter ages, so such
/// objects are kept longer.
const FIRST_CLASS: usize = 17;

/// The data that the policy keeps about one cached object.
#[derive(Clone, Copy, Debug)]
struct Tag {
    id: u32,
    /// Low 32 bits of the number of the request that used the object last.
    used_at: u32,
    /// Age that the object had at its last hit.
    age: u16,
    /// Age that the object had at the hit before the last one. It is stored beside `age`, because the sum of the two
    /// can exceed 16 bits.
    earlier_age: u16,
    is_explorer: bool,
}

/// Numbers of hits and evictions, and hit densities, of the objects of one class, by age.
#[derive(Clone, Debug)]
struct Class {
    hits: Vec<f32>,
    evictions: Vec<f32>,
    densities: Vec<f32>,
}

/// A cache with the policy LHD. Its state is a tag for each cached object, and statistics for each class of objects.
#[derive(Debug)]
pub struct Lhd<W> {
    weigh: W,
    capacity: u64,
    held: u64,
    tags: Vec<Tag>,
    /// Maps each cached object to the position of its tag in `tags`.
    table: Table,
    classes: Vec<Class>,
    now: u32,
    until_period: u32,
    periods: u32,
    age_shift: u32,
    /// Two decaying sums over the past periods: the number of cached objects, and the number of periods. Their quotient
    /// is the mean number of cached objects.
    objects: [f32; 2],
    remembered: [u32; REMEMBERED],
    next_remembered: usize,
    victim_density: f32,
    explorers_left: i64,
    rng: Rng,
}

impl<W: Weigh> Lhd<W> {
    /// Creates an empty cache, for at most `objects` different objects.
    #[must_use]
    pub fn new(capacity: u64, objects: u32, weigh: W, seed: u64) -> Self {
        let class = |number: usize| Class {
            hits: vec![0.0; AGES],
            evictions: vec![0.0; AGES],
            densities: (0..AGES).map(|age| (FIRST_CLASS + number) as f32 / (age + 1) as f32).collect(),
        };
        let expected = (capacity as f64 / weigh.mean()).ceil().min(f64::from(objects)) as usize;
        Self {
            weigh,
            capacity,
            held: 0,
            tags: Vec::new(),
            table: Table::new(expected),
            classes: (0..CLASSES).map(class).collect(),
            now: 0,
            until_period: PERIOD,
            periods: 0,
            age_shift: 10,
            objects: [0.0; 2],
            remembered: [NONE; REMEMBERED],
            next_remembered: 0,
            victim_density: 0.0,
            explorers_left: (capacity as f64 * EXPLORERS) as i64,
            rng: Rng::new(seed),
        }
    }

    /// Returns the class of an object. It is the logarithm, to base 2, of the ratio of the largest age to the sum of
    /// the ages at the object's last two hits.
    fn class_of(tag: &Tag) -> usize {
        let sum = u32::from(tag.age) + u32::from(tag.earlier_age);
        if sum == 0 {
            return CLASSES - 1;
        }
        let doublings = (AGES as u32).div_ceil(sum).next_power_of_two().trailing_zeros();
        (doublings as usize).min(CLASSES - 1)
    }

    #[inline]
    fn age_of(&self, tag: &Tag) -> u32 {
        (self.now.wrapping_sub(tag.used_at) >> self.age_shift).min(OLDEST)
    }

    #[inline]
    fn density(&self, tag: &Tag) -> f32 {
        let age = self.age_of(tag);
        if age == OLDEST {
            return f32::MIN;
        }
        let density = self.classes[Self::class_of(tag)].densities[age as usize] / self.weigh.of(tag.id) as f32;
        density + f32::from(u8::from(tag.is_explorer))
    }

    fn find(&self, id: u32) -> u32 {
        self.table.find(id, |tag| self.tags[tag as usize].id)
    }

    /// Evicts the object with the lowest hit density among randomly drawn objects (8 at first, 32 later) and the
    /// remembered objects.
    fn evict(&mut self) {
        let candidates = if self.periods > EARLY { CANDIDATES } else { CANDIDATES_EARLY };
        let mut worst = (f32::MAX, NONE);
        for _ in 0..candidates {
            let number = self.rng.below(self.tags.len() as u32);
            let density = self.density(&self.tags[number as usize]);
            if density < worst.0 || worst.1 == NONE {
                worst = (density, number);
            }
        }
        for id in self.remembered {
            let number = if id == NONE { NONE } else { self.find(id) };
            if number != NONE {
                let density = self.density(&self.tags[number as usize]);
                if density < worst.0 {
                    worst = (density, number);
                }
            }
        }
        self.victim_density = DECAY * self.victim_density + (1.0 - DECAY) * worst.0;
        self.remove(worst.1);
    }

    fn remove(&mut self, number: u32) {
        let tag = self.tags[number as usize];
        let age = self.age_of(&tag) as usize;
        self.classes[Self::class_of(&tag)].evictions[age] += 1.0;
        let weight = self.weigh.of(tag.id);
        if tag.is_explorer {
            self.explorers_left += weight as i64;
        }
        self.held -= weight;
        let tags = &self.tags;
        self.table.remove(tag.id, number, |tag| tags[tag as usize].id);
        let last = self.tags.len() as u32 - 1;
        if number != last {
            let moved = self.tags[last as usize];
            self.table.set(moved.id, last, number);
            self.tags[number as usize] = moved;
        }
        self.tags.pop();
    }

    /// Records the request that uses the object with tag `number`, and draws whether the object is an explorer.
    /// `is_new` is `true` if this request inserted the object. The ages of earlier uses must already be in the tag.
    fn note_use(&mut self, number: u32, is_new: bool) {
        let weight = self.weigh.of(self.tags[number as usize].id) as i64;
        let wants_to_explore = self.rng.below(EXPLORE_EVERY) == 0;
        let explores = wants_to_explore && self.explorers_left > 0 && self.periods < EARLY;
        if explores {
            self.explorers_left -= weight;
        }
        let now = self.now;
        let tag = &mut self.tags[number as usize];
        (tag.used_at, tag.is_explorer) = (now, explores);
        let tag = *tag;
        if is_new && !wants_to_explore && self.density(&tag) < self.victim_density {
            self.remembered[self.next_remembered % REMEMBERED] = tag.id;
            self.next_remembered += 1;
        }
        self.now = self.now.wrapping_add(1);
        self.until_period -= 1;
        if self.until_period == 0 {
            self.end_period();
        }
    }

    fn hit(&mut self, number: u32) {
        let tag = self.tags[number as usize];
        let age = self.age_of(&tag);
        self.classes[Self::class_of(&tag)].hits[age as usize] += 1.0;
        if tag.is_explorer {
            self.explorers_left += self.weigh.of(tag.id) as i64;
        }
        let tag = &mut self.tags[number as usize];
        (tag.earlier_age, tag.age) = (tag.age, age as u16);
        self.note_use(number, false);
    }

    fn end_period(&mut self) {
        for class in &mut self.classes {
            class.hits.iter_mut().for_each(|hits| *hits *= DECAY);
            class.evictions.iter_mut().for_each(|evictions| *evictions *= DECAY);
        }
        self.fit_ages();
        self.classes.iter_mut().for_each(Class::compute);
        self.until_period = PERIOD;
        self.periods += 1;
    }

    /// Notes how many objects the cache has. At two of the calls, both early in the trace, also changes the unit in
    /// which ages are measured, so that it suits the average number of objects.
    fn fit_ages(&mut self) {
        let [sum, count] = self.objects.map(|value| value * DECAY);
        self.objects = [sum + self.tags.len() as f32, count + 1.0];
        if self.periods != 5 && self.periods != 25 {
            return;
        }
        let wanted = self.objects[0] / self.objects[1] / (AGE_ERROR * AGES as f32);
        let mut shift = 1;
        while ((1_u32 << shift) as f32) < wanted && shift < 31 {
            shift += 1;
        }
        let old = std::mem::replace(&mut self.age_shift, shift);
        self.objects = self.objects.map(|value| value * 8.0);
        for values in self.classes.iter_mut().flat_map(|class| [&mut class.hits, &mut class.evictions]) {
            if shift < old { stretch(values, old - shift) } else { compress(values, shift - old) }
        }
    }
}

/// Converts counts by age to a unit of age that is finer by a factor of 2^`by`: spreads each count evenly over the
/// 2^`by` new ages that make up the old age. Counts for new ages above the largest age are added to the largest age.
fn stretch(values: &mut [f32], by: u32) {
    let beyond: f32 = values[AGES >> by..AGES - 1].iter().sum();
    values[AGES - 1] += beyond;
    for age in (0..AGES - 1).rev() {
        values[age] = values[age >> by] / (1_u32 << by) as f32;
    }
}

/// Merges the counts of ages for a unit that is coarser by a factor of 2^`by`: adds up the counts of each 2^`by`
/// neighbouring ages.
fn compress(values: &mut [f32], by: u32) {
    for age in 0..AGES >> by {
        values[age] = values[age << by..(age + 1) << by].iter().sum();
    }
    if by > 0 {
        values[AGES >> by..AGES - 1].fill(0.0);
    }
}

impl Class {
    /// Computes the density of each age: expected hits, divided by the expected time until a hit or an eviction.
    fn compute(&mut self) {
        let mut events = self.hits[AGES - 1] + self.evictions[AGES - 1];
        let mut hits = self.hits[AGES - 1];
        let mut lifetime = events;
        for age in (0..AGES - 1).rev() {
            hits += self.hits[age];
            events += self.hits[age] + self.evictions[age];
            lifetime += events;
            self.densities[age] = if events > 1e-5 { hits / lifetime } else { 0.0 };
        }
    }
}

impl<W: Weigh> Cache for Lhd<W> {
    #[inline]
    fn request(&mut self, id: u32) -> bool {
        let number = self.find(id);
        if number != NONE {
            self.hit(number);
            return true;
        }
        let weight = self.weigh.of(id);
        if weight > self.capacity {
            return false;
        }
        while self.held + weight > self.capacity {
            self.evict();
        }
        let number = self.tags.len() as u32;
        self.tags.push(Tag { id, used_at: 0, age: 0, earlier_age: AGES as u16, is_explorer: false });
        let tags = &self.tags;
        self.table.insert(id, number, |tag| tags[tag as usize].id);
        self.held += weight;
        self.note_use(number, true);
        false
    }

    #[inline]
    fn look_far(&self, id: u32) {
        self.table.look_at(id);
    }

    #[inline]
    fn look_near(&self, id: u32) {
        machine::prefetch(self.tags.as_ptr().wrapping_add(self.table.guess(id) as usize));
    }

    fn bytes(&self) -> u64 {
        let classes = self.classes.len() * 3 * AGES * size_of::<f32>();
        (classes + self.tags.capacity() * size_of::<Tag>()) as u64 + self.table.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets numbers of hits and evictions at several ages. The density of an age must then be a quotient that is
    /// computed over all objects which reach this age: the number of their hits at this age or later, divided by the
    /// sum of the times from this age until each object is hit or evicted.
    #[test]
    fn a_density_is_hits_by_time() {
        let mut class = Class { hits: vec![0.0; AGES], evictions: vec![0.0; AGES], densities: vec![0.0; AGES] };
        for (age, hits, evictions) in [(0, 8.0, 0.0), (3, 4.0, 2.0), (100, 2.0, 8.0), (AGES - 1, 0.0, 16.0)] {
            (class.hits[age], class.evictions[age]) = (hits, evictions);
        }
        class.compute();
        for age in [0, 1, 3, 4, 99, 100, 101, AGES - 2] {
            let hits: f32 = class.hits[age..].iter().sum();
            let time: f32 =
                (age..AGES).map(|end| (class.hits[end] + class.evictions[end]) * (end - age + 1) as f32).sum();
            assert!((class.densities[age] - hits / time).abs() <= 1e-4 * hits / time, "{age}");
        }
    }

    #[test]
    fn other_units_of_ages_keep_the_counts() {
        let counts = |values: &[f32]| values.iter().sum::<f32>();
        let mut values = vec![0.0; AGES];
        for (age, value) in [(0, 4.0), (1, 8.0), (700, 16.0), (AGES - 1, 2.0)] {
            values[age] = value;
        }
        let before = counts(&values);
        stretch(&mut values, 1);
        assert_eq!((counts(&values), values[0], values[1400]), (before, 2.0, 8.0));
        let mut values = vec![1.0; AGES];
        values[AGES - 1] = 0.0;
        compress(&mut values, 2);
        assert_eq!((values[0], values[AGES / 4 - 2], values[AGES / 4]), (4.0, 4.0, 0.0));
    }
}
