//! S4-FIFO's queues, without the learned model that sets their parameters.
//!
//! H. Xia, W. Nixon, A. Marthen, A. Bhandari, J. Yang, "Learning-augmented heuristics: simple yet smart, robust and
//! interpretable cache eviction", OSDI 2026. S4-FIFO is S3-FIFO with five parameters, of which two are new: uses do not
//! count in the youngest part of the small queue (`skip`), and a ghost may need to return twice (`ghost_marks`). In the
//! paper a model of gradient-boosted trees reads histograms of hits and chooses among 18 sets of parameters. The model
//! is not part of this crate, because its full version was not published with the paper. With the paper's default values
//! the policy is [`s3_fifo`](super::s3_fifo). The rule here changes one of them: a quarter of the small queue is skipped,
//! the only value besides 0 that the paper considers.

use super::three_queues::{Rule, Skip};

/// The values of S4-FIFO for the choices of policies with three queues.
pub const RULE: Rule = Rule { skip: Skip::Down(0.25), ..super::s3_fifo::RULE };
