//! Data that a task sends over the network. The data is copied into socket buffers and stays there until the receiver
//! has it.
//!
//! *Flow*: the data of each packet is one object of a kernel slab, which reclaim cannot free. There is no network here:
//! the sender decides when the receiver has the data.
//!
//! *Assumed*: a network card without scatter-gather, for which each packet is built in one piece. With scatter-gather,
//! data to be sent lies in single pages ("net: use a per task frag allocator", 2012, describes the earlier state).
//! Packets that are received lie in objects like the ones here, whatever the card. *Left out*: `sk_buff`s; the time
//! that protocols take; interrupts for acknowledgements. TCP would also release one packet at a time, and make a sender
//! wait when its socket is full (`tcp_wmem`).

use super::{Access, Error};
use crate::slab::SlabNumber;
use crate::task::Task;
use machine::{Func, Machine, PAGE_BYTES, Step};

/// Number of bytes of the sender's data in a packet: the 1500 of an Ethernet frame (RFC 894) without 20 for IP, 20 for
/// TCP and 12 for TCP's time stamps (RFC 7323).
const SEGMENT_BYTES: u64 = 1448;

/// Data that was sent and is not acknowledged yet. If this value is dropped without a call of [`Access::acknowledge`],
/// the data's memory is never freed.
#[derive(Debug, Default)]
#[must_use]
pub struct Unacknowledged(Vec<SlabNumber>);

impl<M: Machine> Access<M> {
    /// Sends `bytes` bytes: copies them into socket buffers, one for each packet. Returns the buffers. This function
    /// may sleep.
    ///
    /// # Errors
    /// When memory is exhausted; then nothing is sent.
    #[doc(alias = "tcp_sendmsg")]
    pub fn send(&self, task: &mut Task, bytes: u64) -> Result<Unacknowledged, Error> {
        let _span = self.machine.span(Func::TcpSendmsg);
        self.machine.spend(Step::SyscallEntry, 1);
        let mut sent = Unacknowledged::default();
        for _ in 0..bytes.div_ceil(SEGMENT_BYTES) {
            self.machine.spend(Step::SlabObject, 1);
            loop {
                if let Some(slab) = self.socket_buffers.take() {
                    sent.0.push(slab);
                    break;
                }
                if let Err(cause) = self.add_slab(task, &self.socket_buffers) {
                    let error = self.out_of_memory(cause);
                    self.acknowledge(sent);
                    return Err(error);
                }
            }
        }
        self.machine.spend(Step::CopyPage, bytes.div_ceil(PAGE_BYTES as u64) as u32);
        Ok(sent)
    }

    /// Frees the memory of data that the other side has received.
    #[doc(alias = "tcp_ack")]
    pub fn acknowledge(&self, sent: Unacknowledged) {
        let _span = self.machine.span(Func::TcpAck);
        for slab in sent.0 {
            self.machine.spend(Step::SlabObject, 1);
            if let Some(slab) = self.socket_buffers.give(slab) {
                self.free_slab(slab);
            }
        }
    }
}
