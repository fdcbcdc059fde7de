//! Returns freed memory of the heap to the system.

#![allow(unsafe_code)]

/// Returns the freed memory of the heap to the system, where the allocator is that of the GNU C library, which keeps it
/// otherwise. Takes some milliseconds for 100 MB, so that it belongs on a thread that may block.
pub fn return_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim may be called at any time and from any thread, and releases memory that nothing uses.
    unsafe {
        libc::malloc_trim(0);
    }
}
