//! Pinning a page for a future: what [`PageFuture`](super::PageFuture) and [`ReadFuture`](super::ReadFuture) share.
//!
//! *Flow*: a page that is in memory is pinned at once. Otherwise its read is started, without a wait for memory or for the
//! device. The future then keeps a reference to the page, and registers its waker at the page's wait queue. If the read
//! cannot be started at once, a thread of the memory starts it ([`crate::futures`]), and hands the reference over.

use super::File;
use super::pages::is_new_use;
use crate::error::Error;
use crate::work::Work;
use engine::access::{AtOnce, Tries};
use engine::page_cache::Wait;
use machine::{FrameNumber, Nanos};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The steps to a pinned page. Must be ended by [`Pinning::stop`] unless it has returned a result.
#[derive(Debug, Default)]
pub(super) struct Pinning {
    step: Step,
    tries: Tries,
    /// True while this read counts as under way ([`crate::futures::Turns`]).
    has_turn: bool,
}

#[derive(Debug, Default)]
enum Step {
    /// Nothing is held.
    #[default]
    Begins,
    /// A reference to the folio with the head `head` is held. If `registered` is set, the waker is registered under this
    /// number at the folio's queue.
    Waits { head: FrameNumber, registered: Option<u64> },
    /// The memory's thread starts the read.
    Starves(Work<Result<Option<Held>, Error>>),
}

/// A reference to a page that is being read, and a turn, both for a future.
#[derive(Debug)]
struct Held {
    /// The page's file; `None` once the future has taken reference and turn over.
    file: Option<Arc<File>>,
    head: FrameNumber,
    tries: Tries,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            file.engine.access().stop_waiting(self.head);
            file.shared.futures.turns.give_back();
        }
    }
}

impl Pinning {
    /// Pins a page for reading, or registers the waker of `cx`, which is woken when the state of the page may have changed.
    /// `wanted_pages` tells readahead how many pages from this page on the caller wants. After a result, the next call
    /// begins anew.
    pub(super) fn poll(
        &mut self,
        file: &Arc<File>,
        page: u32,
        wanted_pages: u32,
        cx: &mut Context<'_>,
    ) -> Poll<Result<FrameNumber, Error>> {
        loop {
            let result = match &mut self.step {
                Step::Begins => self.begin(file, page, wanted_pages, cx),
                Step::Waits { head, registered } => {
                    let (head, registered) = (*head, registered.take());
                    if let Some(number) = registered {
                        file.engine.access().page_queue(head).deregister(number);
                    }
                    match self.go_on(file, page, head, cx) {
                        Ok(None) if matches!(self.step, Step::Waits { .. }) => return Poll::Pending,
                        other => other,
                    }
                }
                Step::Starves(work) => match Pin::new(work).poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(started) => self.take_over(started),
                },
            };
            match result {
                Ok(None) => {}
                Ok(Some(frame)) => {
                    self.end(file);
                    return Poll::Ready(Ok(frame));
                }
                Err(error) => {
                    self.end(file);
                    return Poll::Ready(Err(error));
                }
            }
        }
    }

    /// Pins the page if it is ready; otherwise starts to read it, or takes a reference to it.
    fn begin(
        &mut self,
        file: &Arc<File>,
        page: u32,
        wanted_pages: u32,
        cx: &Context<'_>,
    ) -> Result<Option<FrameNumber>, Error> {
        let (cached, access) = (file.cached(), file.engine.access());
        // A time that is over already: nothing is waited for, but a page that is marked for readahead is left to the
        // code below, which starts the next readahead.
        let at_once = Wait::Until(Nanos(0));
        if let Ok(frame) = access.pin_cached_within(cached, page, at_once, || is_new_use(cached.id, page)) {
            return Ok(Some(frame));
        }
        file.shared.check_is_up()?;
        self.has_turn = self.has_turn || file.shared.futures.turns.try_take(file.engine.memory().managed_pages());
        if !self.has_turn {
            // A page that is in memory needs no turn, even if it is marked for readahead.
            return match access.pin_cached_within(cached, page, Wait::No, || is_new_use(cached.id, page)) {
                Ok(frame) => Ok(Some(frame)),
                Err(_) => self.starve(file, page, cx),
            };
        }
        let tries = &mut self.tries;
        let pinned = file.with_read_state(|state| {
            file.with_task_at_once(|engine, task| {
                engine.access().pin_at_once(task, cached, state, page, wanted_pages, tries)
            })
        });
        match pinned.map_err(|error| file.error(error))? {
            AtOnce::Pinned(frame) => Ok(Some(frame)),
            AtOnce::Waits(head) => {
                self.step = Step::Waits { head, registered: None };
                Ok(None)
            }
            AtOnce::NoMemory => {
                self.give_turn_back(file);
                self.starve(file, page, cx)
            }
            AtOnce::Again => Ok(None),
        }
    }

    /// Pins the page for which the future waits, if it is ready. Otherwise registers the waker, and leaves the step at
    /// [`Step::Waits`].
    fn go_on(
        &mut self,
        file: &Arc<File>,
        page: u32,
        head: FrameNumber,
        cx: &Context<'_>,
    ) -> Result<Option<FrameNumber>, Error> {
        let access = file.engine.access();
        let queue = access.page_queue(head);
        file.engine.machine().start_wakers().map_err(Error::System)?;
        loop {
            // The order is that of a thread that sleeps: a ticket, the checks, and the sleep only if the queue was not
            // woken since the ticket was taken.
            let ticket = queue.ticket();
            file.shared.check_is_up()?;
            let pinned = access.pin_after_wait(file.cached(), page, head, &mut self.tries);
            if !matches!(pinned, Ok(AtOnce::Waits(_))) {
                self.step = Step::Begins;
            }
            match pinned.map_err(|error| file.error(error))? {
                AtOnce::Pinned(frame) => return Ok(Some(frame)),
                AtOnce::Waits(_) => {
                    if let Some(number) = queue.register(ticket, head.0, cx.waker()) {
                        self.step = Step::Waits { head, registered: Some(number) };
                        return Ok(None);
                    }
                }
                AtOnce::NoMemory | AtOnce::Again => return Ok(None),
            }
        }
    }

    /// Leaves the start of the read to the memory's thread.
    fn starve(&mut self, file: &Arc<File>, page: u32, cx: &Context<'_>) -> Result<Option<FrameNumber>, Error> {
        let number = file.shared.futures.starved.next();
        let own = file.clone();
        let work = file.shared.futures.starter.run(cx.waker(), move || own.start_in_place(page, number))?;
        self.step = Step::Starves(work);
        Ok(None)
    }

    fn take_over(&mut self, started: Result<Option<Held>, Error>) -> Result<Option<FrameNumber>, Error> {
        self.step = Step::Begins;
        if let Some(mut held) = started? {
            held.file = None;
            self.step = Step::Waits { head: held.head, registered: None };
            self.tries = held.tries;
            self.has_turn = true;
        }
        Ok(None)
    }

    /// Ends the wait: the waker is not called any more, and nothing is held. A read that is under way goes on.
    pub(super) fn stop(&mut self, file: &File) {
        if let Step::Waits { head, registered: Some(number) } = &self.step {
            file.engine.access().page_queue(*head).deregister(*number);
        }
        self.end(file);
    }

    /// Drops what is held, so that the next poll begins anew.
    fn end(&mut self, file: &File) {
        if let Step::Waits { head, .. } = std::mem::take(&mut self.step) {
            file.engine.access().stop_waiting(head);
        }
        self.tries = Tries::default();
        self.give_turn_back(file);
    }

    fn give_turn_back(&mut self, file: &File) {
        if std::mem::take(&mut self.has_turn) {
            file.shared.futures.turns.give_back();
        }
    }
}

impl File {
    /// Starts to read a page for a future that found no memory. The thread sleeps until there is memory. Returns the
    /// page; `None` if the file ends before it meanwhile.
    fn start_in_place(self: Arc<Self>, page: u32, number: u64) -> Result<Option<Held>, Error> {
        let futures = &self.shared.futures;
        let group = self.opened().group.as_ref().map_or(0, |group| group.serial());
        self.shared.check_is_up()?;
        futures.starved.check(group, number)?;
        futures.turns.take(self.engine.memory().managed_pages());
        let asked_before = futures.starved.last();
        let started = match u64::from(page) < self.pages() {
            true => self.with_task(|engine, task| engine.access().start_in_place(task, self.cached(), page)).map(Some),
            false => Ok(None),
        };
        match started {
            Ok(Some((head, tries))) => Ok(Some(Held { file: Some(self.clone()), head, tries })),
            Ok(None) => {
                futures.turns.give_back();
                Ok(None)
            }
            Err(error) => {
                futures.turns.give_back();
                let error = self.error(error);
                futures.starved.note(group, asked_before, &error);
                Err(error)
            }
        }
    }
}
