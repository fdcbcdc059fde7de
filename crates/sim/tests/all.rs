//! The integration tests in one program: each program more would compile the same generic code again, and link it.

mod applications;
mod common;
mod gaps;
mod outages;
mod own_path_manager;
mod path_mtu;
mod random_runs;
mod runs;
