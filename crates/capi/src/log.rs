//! Delivery of the library's log messages to the program.

use std::cell::Cell;
use std::ffi::{CString, c_char, c_void};
use std::fmt::{Debug, Write};
use std::sync::{OnceLock, RwLock};

use terrace_sys::sync::{read, write};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::status::{Failure, Status, status};

/// Severity of a message.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum LogLevelChoice {
    /// Data may be lost, or something has stopped working.
    Error = 1,
    /// A failure that the library works around, or retries.
    Warn = 2,
    /// A rare event.
    Info = 3,
    /// Results of background work.
    Debug = 4,
    /// Single steps of background work.
    Trace = 5,
}

/// A function of the program that receives messages: the context that was set with it, the
/// message's level, which is a terrace_log_level, the module that it comes from, and its text in
/// one line of UTF-8. Both strings are valid until the function returns.
///
/// It is called by any thread, by several at once, by the library's own threads too, and while the
/// library holds locks: it must neither throw nor block for long. Messages of library functions
/// that it calls are dropped.
pub type LogFunction = Option<
    // SAFETY: callers pass the function's own context, and zero-terminated strings.
    unsafe extern "C" fn(
        context: *mut c_void,
        level: u32,
        target: *const c_char,
        message: *const c_char,
    ),
>;

// SAFETY: callers promise the same as above.
type Function = unsafe extern "C" fn(*mut c_void, u32, *const c_char, *const c_char);

/// The program's function that receives messages, and its context.
#[derive(Clone, Copy)]
struct Receiver {
    function: Function,
    context: *mut c_void,
}

// SAFETY: the context is passed on and never dereferenced; the caller of `terrace_set_log` promised
// that any thread may call the function with it.
unsafe impl Send for Receiver {}
// SAFETY: as above.
unsafe impl Sync for Receiver {}

/// Current receiver. The lock is held in shared mode while the function runs.
static RECEIVER: RwLock<Option<Receiver>> = RwLock::new(None);
/// True if the library's messages go to the receiver; decided by the first call that sets one.
static INSTALLED: OnceLock<bool> = OnceLock::new();

thread_local! {
    /// True while this thread runs the program's function.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

struct ToProgram;

impl Subscriber for ToProgram {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        let inside = INSIDE.try_with(Cell::get).unwrap_or(true);
        !inside && read(&RECEIVER).is_some()
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        text.message.push_str(&text.fields);
        let (target, message) = (string(event.metadata().target()), string(&text.message));
        let receiver = read(&RECEIVER);
        if let Some(Receiver { function, context }) = *receiver {
            let _ = INSIDE.try_with(|inside| inside.set(true));
            // SAFETY: the caller of `terrace_set_log` promised that any thread may call the
            // function with this context until another is set, which waits for this call.
            unsafe { function(context, level(event), target.as_ptr(), message.as_ptr()) };
            let _ = INSIDE.try_with(|inside| inside.set(false));
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn level(event: &Event<'_>) -> u32 {
    let level = match *event.metadata().level() {
        Level::ERROR => LogLevelChoice::Error,
        Level::WARN => LogLevelChoice::Warn,
        Level::INFO => LogLevelChoice::Info,
        Level::DEBUG => LogLevelChoice::Debug,
        Level::TRACE => LogLevelChoice::Trace,
    };
    level as u32
}

fn string(text: &str) -> CString {
    let line = text.bytes().filter(|byte| *byte != 0);
    let line = line.map(|byte| if byte == b'\n' { b' ' } else { byte });
    CString::new(line.collect::<Vec<u8>>()).unwrap_or_default()
}

/// Text of a message, followed by its fields.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string never fails.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, ", {name}: {value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = write!(self.fields, ", {}: {value}", field.name());
    }
}

/// Passes every message of the library to a function from now on. Messages report events that
/// background threads cannot return from any call, such as a maintenance thread that cannot write,
/// a block that cannot be read, or a store that was closed by the last of its locks and could not
/// be synced. NULL removes the function.
///
/// After this returns, no thread calls the previous function any more. Without a function messages
/// are dropped.
///
/// TERRACE_STATUS_INVALID if called within the function, or in a program whose Rust code receives
/// the messages already.
///
/// # Safety
/// The function is NULL, or may be called by any thread with the context, until another is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_set_log(function: LogFunction, context: *mut c_void) -> Status {
    status(|| {
        if INSIDE.try_with(Cell::get).unwrap_or(true) {
            return Err(Failure::invalid("the log cannot be set by the function that it goes to"));
        }
        let install = || tracing::subscriber::set_global_default(ToProgram).is_ok();
        if function.is_some() && !*INSTALLED.get_or_init(install) {
            let text = "messages go to a subscriber of `tracing` that this program has set before";
            return Err(Failure::invalid(text));
        }
        let mut receiver = write(&RECEIVER);
        *receiver = function.map(|function| Receiver { function, context });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::sync::Mutex;

    use terrace_sys::sync::lock;

    use super::*;

    type Heard = Mutex<Vec<(u32, String)>>;

    /// # Safety
    /// The context is the address of a `Heard`, and both strings are zero-terminated.
    unsafe extern "C" fn hear(
        context: *mut c_void,
        level: u32,
        target: *const c_char,
        message: *const c_char,
    ) {
        // SAFETY: the test passed the address of a list that lives until the function is unset.
        let heard = unsafe { &*context.cast::<Heard>() };
        // SAFETY: both are zero-terminated strings, as the function's contract says.
        let (target, message) = unsafe { (CStr::from_ptr(target), CStr::from_ptr(message)) };
        let text = format!("{} {}", target.to_string_lossy(), message.to_string_lossy());
        lock(heard).push((level, text));
        tracing::error!("of the function itself");
        // SAFETY: no function is set.
        assert_eq!(unsafe { terrace_set_log(None, std::ptr::null_mut()) }, Status::Invalid);
    }

    #[test]
    fn messages_go_to_the_function_of_now() {
        let heard = Heard::default();
        let set = |function| {
            // SAFETY: the list lives until the function is unset below.
            unsafe { terrace_set_log(function, (&raw const heard).cast_mut().cast()) }
        };
        tracing::error!("without a receiver");
        assert_eq!(set(Some(hear)), Status::Ok);
        tracing::error!(number = 7, text = "some", error = %std::fmt::Error, "lost\nit\0");
        std::thread::spawn(|| tracing::debug!("done")).join().expect("no panic");
        assert_eq!(set(None), Status::Ok);
        tracing::error!("without a receiver");
        let heard = heard.into_inner().unwrap_or_default();
        let [first, second] = &heard[..] else { panic!("{heard:?}") };
        assert_eq!(first.0, LogLevelChoice::Error as u32);
        let text = "terrace::log::tests lost it, number: 7, text: some, error: an error occurred \
                    when formatting an argument";
        assert_eq!(first.1, text);
        assert_eq!(*second, (LogLevelChoice::Debug as u32, "terrace::log::tests done".to_owned()));
    }
}
