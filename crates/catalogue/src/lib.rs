//! Kernels, machines and experiments, by name from embedded files or from a user's file.
//!
//! [`library`] finds them. [`embedded`] holds `machines/` and `experiments/`. [`versions`] orders kernels.
//! [`experiment`] and [`hardware`] describe the files. [`change`] sets single values, [`values`] shows them, and
//! [`difference`] lists the differences of two kernels. [`ground`] names the grounds of an experiment.

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
