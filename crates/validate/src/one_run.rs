//! One run of a point in real time, by the kernel or with anabranch at both ends.

use std::sync::atomic::AtomicBool;

use anabranch_emulate::Tap;
use tokio::task::LocalSet;

use crate::kernel::PRIORITY;
use crate::measure::{Kind, Measured, Quality};
use crate::points::Point;
use crate::results::Trouble;
use crate::{anabranch, kernel, programs};

/// Runs number `run` of `point`, captured by `tap`. Returns the measurements and the punctuality.
///
/// # Errors
/// Any [`Trouble`].
pub(crate) fn one_run(
    point: &Point,
    kind: Kind,
    run: u32,
    cancelled: &AtomicBool,
    tap: Option<Tap>,
) -> Result<(Measured, Quality), Trouble> {
    match (kind, point.is_plain()) {
        (Kind::Kernel, true) => kernel::run(point, run, cancelled, tap),
        (Kind::Kernel, false) => programs::kernel::run(point, run, cancelled, tap),
        (Kind::Simulated | Kind::Emulated, _) => emulated(point, run, cancelled, tap),
    }
}

fn emulated(
    point: &Point,
    run: u32,
    cancelled: &AtomicBool,
    tap: Option<Tap>,
) -> Result<(Measured, Quality), Trouble> {
    std::thread::scope(|scope| {
        let work = || {
            // Fails without privileges; the reported lateness shows the effect.
            let _ = anabranch_emulate::set_realtime(PRIORITY);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let local = LocalSet::new();
            match point.is_plain() {
                true => runtime.block_on(local.run_until(anabranch::transfers(point, run, cancelled, tap))),
                false => runtime
                    .block_on(local.run_until(programs::emulated::programs(point, run, cancelled, tap))),
            }
        };
        scope.spawn(work).join().unwrap_or_else(|_| Err(Trouble::failed("a thread has panicked")))
    })
}
