//! Fibers: stacks that are reused, and run one job (a task or an interrupt handler) after another.
//!
//! A fiber is a coroutine whose body takes a job, runs it to its end, and asks for the next job. Creating a stack takes
//! system calls, so a fiber is created once and serves many tasks and interrupt handlers. A fiber leaves its stack only
//! by [`Fiber::suspend`], which passes a reason to the main loop (module `run`).
//!
//! *Safety*: a job may be any code of a task, and may lend data on its stack to other threads (`std::thread::scope`).
//! So the stack of an abandoned job is never freed. A task of one simulated machine may run another machine, whose
//! tasks have stacks of their own. So `suspend` checks that its caller is on the fiber's own stack.

use corosensei::stack::{DefaultStack, Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;
use std::rc::Rc;

/// The reason why a fiber returns control to the main loop.
pub(crate) enum Ask {
    /// The fiber's clock is later than the next event. The fiber is resumed when no event and no other fiber has an
    /// earlier time.
    Spent,
    /// The fiber spins for a lock until the lock is handed over to it.
    Spin,
    /// The fiber's task sleeps.
    Sleep,
    /// The fiber's task yields the CPU to other tasks, and remains runnable.
    Yield,
    /// Interrupts or preemption are on again, and an interrupt or a task switch that was delayed is to be performed.
    Unmasked,
    /// The fiber's job returned.
    Done,
    /// The fiber's job panicked.
    Panicked(Box<dyn Any + Send>),
}

/// The function that a fiber runs.
pub(crate) type Job = Box<dyn FnOnce()>;

/// The state that the coroutine's body and the fiber share.
struct Inside {
    job: Cell<Option<Job>>,
    yielder: Cell<*const Yielder<(), Ask>>,
}

/// A stack, and the job that runs on it.
pub(crate) struct Fiber {
    coroutine: ManuallyDrop<RefCell<Coroutine<(), Ask, (), ColouredStack>>>,
    inside: Rc<Inside>,
    /// The addresses of the fiber's stack.
    stack: Range<usize>,
}

impl Fiber {
    /// Creates a fiber with a stack of `stack_bytes` bytes. `colour` shifts the base of the stack, so that the most
    /// used parts of the stacks of different fibers do not compete for the same cache sets.
    pub(crate) fn new(stack_bytes: usize, colour: usize) -> Self {
        let inside = Rc::new(Inside { job: Cell::new(None), yielder: Cell::new(null()) });
        let shared = Rc::clone(&inside);
        let memory = ColouredStack::new(stack_bytes, colour);
        let stack = memory.limit().get()..memory.base().get();
        let coroutine = Coroutine::with_stack(memory, move |yielder: &Yielder<(), Ask>, ()| {
            shared.yielder.set(yielder);
            while let Some(job) = shared.job.take() {
                yielder.suspend(match catch_unwind(AssertUnwindSafe(job)) {
                    Ok(()) => Ask::Done,
                    Err(payload) => Ask::Panicked(payload),
                });
            }
        });
        Self { coroutine: ManuallyDrop::new(RefCell::new(coroutine)), inside, stack }
    }

    /// Assigns the next job to an idle fiber.
    pub(crate) fn assign(&self, job: Job) {
        self.inside.job.set(Some(job));
    }

    /// Runs the fiber's job until the fiber gives control back to the main loop. Returns the reason why it does so.
    #[inline]
    pub(crate) fn resume(&self) -> Ask {
        match self.coroutine.borrow_mut().resume(()) {
            CoroutineResult::Yield(ask) => ask,
            CoroutineResult::Return(()) => unreachable!("a fiber is resumed only with a job"),
        }
    }

    /// Asserts that the caller runs on the fiber's own stack, which it is about to leave.
    ///
    /// # Panics
    /// When the caller runs on another stack.
    #[inline]
    pub(crate) fn assert_on_own_stack(&self) {
        let here = 0u8;
        let is_own = self.stack.contains(&(&raw const here).addr());
        assert!(is_own, "a task of this world waits on the stack of another world's task");
    }

    /// Leaves the fiber's stack and tells the main loop the reason, `ask`. Returns when the fiber is resumed.
    ///
    /// # Panics
    /// When the caller runs on another stack.
    #[inline]
    pub(crate) fn suspend(&self, ask: Ask) {
        self.assert_on_own_stack();
        // SAFETY: the body stored the pointer to its argument before any job ran, and that argument lives as long as
        // the body, on whose stack the caller runs, as was just asserted.
        unsafe { (*self.inside.yielder.get()).suspend(ask) }
    }

    /// Ends an idle fiber, so that its stack can be freed.
    pub(crate) fn retire(&self) {
        let mut coroutine = self.coroutine.borrow_mut();
        if coroutine.started() && !coroutine.done() {
            let ended = coroutine.resume(());
            assert!(matches!(ended, CoroutineResult::Return(())), "a retired fiber has no job");
        }
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        let coroutine = self.coroutine.get_mut();
        if !coroutine.started() || coroutine.done() {
            // SAFETY: the coroutine is dropped here and nowhere else, once.
            unsafe { ManuallyDrop::drop(&mut self.coroutine) }
        }
        // Otherwise the job was abandoned in the middle, because the run failed. It never runs again, and its values
        // are leaked. Its stack is leaked, too, because threads that the job has started may use data on it
        // (`std::thread::scope`).
    }
}

/// A stack whose base is shifted a little below the end of its memory, so that the stacks of different fibers do not
/// all use the same sets of a processor cache.
struct ColouredStack {
    stack: DefaultStack,
    shift: usize,
}

impl ColouredStack {
    fn new(bytes: usize, colour: usize) -> Self {
        // 12 shifts of 5 cache lines fit in a page. One page more than asked for makes up for the shift.
        let stack = DefaultStack::new(bytes + machine::PAGE_BYTES).expect("memory for another stack");
        Self { stack, shift: colour % 13 * 320 }
    }
}

// SAFETY: this is the memory of a `DefaultStack` with its guard page, but the base is lower by up to 3840 bytes. `new`
// asks for 4096 bytes more to make up for that. The shift is a multiple of 64, so the base stays aligned.
unsafe impl Stack for ColouredStack {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.stack.base().get() - self.shift).expect("a stack is not at address 0")
    }

    fn limit(&self) -> StackPointer {
        self.stack.limit()
    }

    #[cfg(windows)]
    fn teb_fields(&self) -> corosensei::stack::StackTebFields {
        self.stack.teb_fields()
    }

    #[cfg(windows)]
    fn update_teb_fields(&mut self, stack_limit: usize, guaranteed_stack_bytes: usize) {
        self.stack.update_teb_fields(stack_limit, guaranteed_stack_bytes);
    }
}
