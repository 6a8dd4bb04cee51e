//! A backend that holds back writes for as long as a test wants.

use highwater::machine::disk::backend::{Backend, Transfer};
use machine::Operation;
use std::sync::{Arc, Condvar, Mutex, mpsc};

/// A gate at which writes wait until it is opened. It is closed at first.
#[derive(Default)]
pub struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    pub fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn pass(&self) {
        drop(self.opened.wait_while(self.is_open.lock().unwrap(), |is_open| !*is_open).unwrap());
    }
}

/// A backend (the part that carries out disk requests) whose writes wait at a [`Gate`].
pub struct Gated {
    inner: Arc<dyn Backend>,
    gate: Arc<Gate>,
    /// Receives a message for each write that reaches the gate.
    at_gate: Mutex<mpsc::Sender<()>>,
    /// If set, only writes that begin with this block wait.
    block: Option<u64>,
}

impl Gated {
    pub fn new(inner: Arc<dyn Backend>, gate: &Arc<Gate>, at_gate: &mpsc::Sender<()>) -> Self {
        Self { inner, gate: gate.clone(), at_gate: Mutex::new(at_gate.clone()), block: None }
    }

    /// Lets all writes pass except those that begin with `block`.
    pub fn only_at(self, block: u64) -> Self {
        Self { block: Some(block), ..self }
    }

    fn pass(&self, transfer: &Transfer) {
        let request = transfer.request();
        if request.operation == Operation::Write && self.block.is_none_or(|block| block == request.block) {
            let _ = self.at_gate.lock().unwrap().send(());
            self.gate.pass();
        }
    }
}

impl Backend for Gated {
    fn sees_all(&self) -> bool {
        true
    }

    fn run(&self, transfer: Transfer) {
        self.pass(&transfer);
        self.inner.run(transfer);
    }

    fn run_all(&self, transfers: Vec<Transfer>) {
        transfers.iter().for_each(|transfer| self.pass(transfer));
        self.inner.run_all(transfers);
    }

    fn start(&self, transfer: Transfer) {
        self.pass(&transfer);
        self.inner.start(transfer);
    }
}
