//! The multi-generational LRU: each page has a generation, by when it was last seen used, and a tier, by how often it
//! was used through its file.
//!
//! *Flow*: the state of a new page decides which generation the page joins ([`placement`]). Uses of a page through its
//! file are counted in the page's flags ([`uses`]). Reclaim takes pages of the oldest generation ([`scan`], [`evict`]),
//! and moves pages that now belong to another generation. An evicted page leaves a shadow ([`refault`]). The refaults
//! decide which family (anonymous or file pages) is evicted next and which tiers are protected ([`controller`]).
//! [`ageing`] begins new generations. Before that, a [`walk`] of page tables finds the used pages. When reclaim finds a
//! used page, [`look_around`] finds more used pages beside it. [`view`] shows the generations, and [`command`] lets a
//! user begin and evict generations. *Locks*: `lru`, of each lruvec. *Description*: mechanisms/multigen.
//!
//! Its versions, from the first posting to Linux 7.2, are choices ([`choices`]). `model` is a model of the policy for use
//! without an engine.

pub mod ageing;
pub mod check;
pub mod choices;
pub mod command;
pub mod controller;
pub mod evict;
pub mod filter;
pub mod generations;
pub mod insert;
pub mod judge;
pub mod lists;
pub mod look_around;
mod model;
pub mod placement;
#[cfg(test)]
mod properties;
pub mod refault;
mod round;
pub mod scan;
pub mod uses;
pub mod view;
pub mod walk;

pub use choices::Choices;
pub use model::MultigenModel;
pub use scan::GenerationScan;

pub(in crate::lru) use ageing::GOT_ON;
use controller::Controller;
use filter::Filters;
use generations::Generations;
pub(in crate::lru) use lists::Lists;
use machine::{LockClass, Machine};
use refault::Packing;
use round::Rounds;

/// The rules of the multi-generational LRU.
pub(in crate::lru) struct Multigen {
    choices: Choices,
    /// The layout of a shadow's bits.
    packing: Packing,
}

impl Multigen {
    /// Creates the policy with these choices, for `lruvecs` lruvecs.
    pub(in crate::lru) const fn new(choices: Choices, lruvecs: usize) -> Self {
        Self { choices, packing: Packing::new(lruvecs) }
    }

    /// Returns whether each node has a list of memory control groups from which global reclaim chooses the groups to
    /// scan (`multigen.memcg_lru`). The list has no effect if memory has no groups.
    pub(in crate::lru) const fn has_memcg_lru(&self) -> bool {
        match self.choices.memcg_lru {
            choices::MemcgLru::On => true,
            choices::MemcgLru::Off => false,
        }
    }

    /// Returns the state of an lruvec that has no pages yet.
    pub(in crate::lru) fn state<M: Machine>(&self, machine: &M) -> Generational<M> {
        Generational {
            lists: machine.lock(LockClass::Lru, Lists::default()),
            generations: Generations::new(machine.now()),
            controller: Controller::default(),
            filters: Filters::default(),
            rounds: Rounds::new(machine),
        }
    }
}

/// The state that the multi-generational LRU keeps for an lruvec.
pub(in crate::lru) struct Generational<M: Machine> {
    /// The lists, one for each generation, family and kind of zone.
    pub(in crate::lru) lists: M::Lock<Lists>,
    generations: Generations,
    controller: Controller,
    /// Bloom filters of the page tables that are worth a walk.
    filters: Filters,
    /// The current round of page-table walks, if one is under way. Tasks make such a round before a generation begins.
    rounds: Rounds<M>,
}
