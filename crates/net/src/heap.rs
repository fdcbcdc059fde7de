//! Returns freed memory of the heap to the system.

#![allow(unsafe_code)]

/// Returns freed heap memory to the system if the allocator is the GNU C library's, which otherwise
/// keeps it. Takes some milliseconds for 100 MB, so it should run on a thread that may block.
pub fn return_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim may be called at any time and from any thread, and releases only unused memory.
    unsafe {
        libc::malloc_trim(0);
    }
}
