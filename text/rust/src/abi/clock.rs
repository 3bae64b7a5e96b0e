// SPDX-License-Identifier: Apache-2.0
//! The clock that the standard library has no function for.

use std::time::Duration;

/// POSIX's struct timespec, on 64-bit systems.
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

/// Linux's number.
const CLOCK_THREAD_CPUTIME_ID: i32 = 3;

/// Processor time of the calling thread: what others do at the same time adds nothing to it.
pub(crate) fn thread_time() -> Duration {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` is a timespec that lives for the call. Without the clock it stays 0.
    unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.seconds.max(0) as u64, time.nanoseconds.clamp(0, 999_999_999) as u32)
}
