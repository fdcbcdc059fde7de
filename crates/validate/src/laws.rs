//! The coupled congestion controls of the kernel, which are BPF programs.

use std::sync::{Mutex, PoisonError};

use anabranch_bpf::{Error, Law, Loaded, Options, is_available, load};

use crate::results::Trouble;

/// The laws that this process has loaded: they stay until its end.
static LOADED: Mutex<Vec<Loaded>> = Mutex::new(Vec::new());

/// Loads the congestion control with this name in the kernel, if it is one of ours that is not there yet.
///
/// # Errors
/// If it cannot be loaded.
pub(crate) fn provide(name: &str) -> Result<(), Trouble> {
    let Some(law) = Law::ALL.into_iter().find(|law| law.kernel_name() == name) else { return Ok(()) };
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if is_available(law) {
        return Ok(());
    }
    match load(law, &Options::DEFAULT) {
        Ok(one) => {
            loaded.push(one);
            Ok(())
        }
        Err(error @ Error::NotPermitted) => Err(Trouble::NotPermitted(error.to_string())),
        Err(error) => Err(Trouble::Broken(format!(
            "congestion control `{law}` is not in this kernel (`anabranch kernel cc load {law}` loads it): {error}"
        ))),
    }
}
