//! Kernels, machines and experiments, by name from embedded files or from a user's file.
//!
//! [`library`] finds them. [`embedded`] holds `machines/` and `experiments/`. [`versions`] orders kernels.
//! [`experiment`] and [`hardware`] describe the files. [`change`] sets single values, [`values`] shows the values, and
//! [`difference`] lists the differences between two kernels. [`ground`] names the grounds on which an experiment may
//! run.

pub mod change;
pub mod difference;
pub mod embedded;
pub mod experiment;
pub mod ground;
pub mod hardware;
pub mod library;
pub mod machine_file;
pub mod values;
pub mod versions;
