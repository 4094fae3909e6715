//! What a recorder for a device leaves out (`heapwire_device`), where each kilobyte counts. All else is as on a large machine.
#![forbid(unsafe_code)]

const IS_FOR_DEVICE: bool = cfg!(heapwire_device);

/// Lines of glibc's mtrace instead of a trace, and recording from a call of `mtrace` on: the analyzer makes such lines of a trace.
pub(crate) const HAS_LOGS: bool = !IS_FOR_DEVICE;

/// Whether a filter of system calls is asked about ours. Else any filter ends the recording: what is recorded by then is
/// written, and the trace says that it stops there.
pub(crate) const ASKS_FILTERS: bool = !IS_FOR_DEVICE;

/// Ways of their own for the usual `malloc` and `free`, which need no stack: they save a few nanoseconds of a call.
pub(crate) const HAS_SHORT_WAYS: bool = !IS_FOR_DEVICE;
