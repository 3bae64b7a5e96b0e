// SPDX-License-Identifier: Apache-2.0
//! Section "Worker" of the header.

use std::ffi::c_void;

use super::buffer::{put, slice, Bytes, ErrorMessage};
use super::grammar::{free, put_handle};
use super::guard;
use crate::error::{Code, Error, Result};
use crate::worker::{Apart, Worker};

/// `dunlin_text_apart`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Caller {
    call: Option<unsafe extern "C" fn(*mut c_void, *const u8, usize, bool, *mut Vec<u8>, *mut ErrorMessage) -> i32>,
    context: *mut c_void,
}

// SAFETY: the header asks for a function and a context that any number of threads may use at once.
unsafe impl Send for Caller {}
// SAFETY: as above.
unsafe impl Sync for Caller {}

impl Caller {
    /// None: work is done here.
    pub(super) fn into_apart(self) -> Option<Box<dyn Apart>> {
        self.call.map(|_| Box::new(self) as Box<dyn Apart>)
    }
}

impl Apart for Caller {
    fn call(&self, request: &[u8], prepares: bool) -> Result<Vec<u8>> {
        let call = self.call.ok_or_else(|| Error::new(Code::Internal, "there is no worker"))?;
        let mut reply = Vec::new();
        let mut error = ErrorMessage::default();
        // SAFETY: the header's rule for this function.
        match unsafe { call(self.context, request.as_ptr(), request.len(), prepares, &mut reply, &mut error) } {
            0 => Ok(reply),
            code => {
                let code = u8::try_from(code).ok().and_then(Code::of_number).unwrap_or(Code::Internal);
                Err(Error::new(code, error.text()))
            }
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_reply_append(reply: *mut Vec<u8>, data: *const u8, size: usize) {
    // SAFETY: the reply of a call that has not returned, and the header's rule for inputs.
    if let (Some(reply), data) = unsafe { (reply.as_mut(), slice(data, size)) } {
        reply.extend_from_slice(data);
    }
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_worker_new(out: *mut *mut Worker, error: *mut ErrorMessage) -> i32 {
    guard::status(error, || put_handle(out, Worker::default()))
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_worker_free(worker: *mut Worker) {
    // SAFETY: made by worker_new, freed once.
    unsafe { free(worker) };
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_worker_handle(
    worker: *mut Worker,
    request: *const u8,
    request_size: usize,
    reply: *mut Bytes,
    error: *mut ErrorMessage,
) -> i32 {
    guard::status(error, || {
        // SAFETY: a live handle that no other thread uses, and the header's rule for inputs.
        let (worker, request) = unsafe { (worker.as_mut(), slice(request, request_size)) };
        let worker = worker.ok_or_else(|| Error::invalid("the worker handle is null"))?;
        put(reply, worker.handle(request))
    })
}

#[no_mangle]
pub unsafe extern "C" fn dunlin_text_worker_clear(worker: *mut Worker) {
    // SAFETY: null, or a live handle that no other thread uses.
    if let Some(worker) = unsafe { worker.as_mut() } {
        worker.clear();
    }
}
