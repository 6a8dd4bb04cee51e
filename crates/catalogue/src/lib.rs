//! Kernels, machines and experiments, by name from embedded files or from a user's file.
//!
//! [`find`] finds files by name. [`embedded`] holds the built-in `machines/` and `experiments/`. [`versions`] orders
//! kernels. [`experiment`] and [`hardware`] describe the files. [`change`] sets single values, [`values`] shows the
//! values, and [`difference`] lists the differences between two kernels. [`ground`] names the grounds: the simulator,
//! the library, this computer's kernel, and a guest's kernel. A job file of fio is read as an experiment, too, and so is
//! a trace.

pub mod change;
pub mod difference;
pub mod embedded;
pub mod experiment;
pub mod find;
mod fio;
pub mod ground;
pub mod group;
pub mod hardware;
pub mod machine_file;
mod traced;
pub mod values;
pub mod versions;
