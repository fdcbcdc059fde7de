//! The functions of the module: a request is JSON in a buffer, and so is its answer.
//!
//! A host writes the request into the buffer that [`anabranch_request`] returns, calls [`anabranch_answer`], and reads
//! that number of bytes at [`anabranch_answer_place`]. There is one request at a time, so the buffers are shared.

#![expect(
    unsafe_code,
    reason = "an export has a name that the linker keeps; no memory is accessed through a raw pointer"
)]

use std::sync::{Mutex, MutexGuard, PoisonError};

static REQUEST: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static ANSWER: Mutex<Vec<u8>> = Mutex::new(Vec::new());

fn locked(buffer: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    buffer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the place for a request of `length` bytes in UTF-8.
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_request(length: usize) -> *mut u8 {
    let mut request = locked(&REQUEST);
    request.clear();
    request.resize(length, 0);
    request.as_mut_ptr()
}

/// Answers the request, and returns the number of bytes of the answer in UTF-8.
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_answer() -> usize {
    let request = core::mem::take(&mut *locked(&REQUEST));
    let answer = crate::answer(&request).into_bytes();
    let length = answer.len();
    *locked(&ANSWER) = answer;
    length
}

/// Returns the place of the last answer.
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_answer_place() -> *const u8 {
    locked(&ANSWER).as_ptr()
}
