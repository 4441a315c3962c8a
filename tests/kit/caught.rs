//! Panics inside a simulated schedule: caught, and told with the schedule's seed instead of on their own.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// What panicked first since this thread began to catch, and whether it does. Tasks catch what panics in
    /// them, so that only the hook sees it.
    static CAUGHT: RefCell<Option<Option<String>>> = const { RefCell::new(None) };
}

/// The hook is the whole program's, whose other tests run meanwhile: it is set once, and leaves their panics
/// alone.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_caught = CAUGHT.with_borrow_mut(|caught| {
                caught.as_mut().map(|first| first.get_or_insert_with(|| info.to_string())).is_some()
            });
            if !is_caught {
                others(info);
            }
        }));
    });
}

/// Runs `work`, and returns what panicked first on this thread meanwhile, also in a task.
pub(crate) fn panic_of(work: impl FnOnce()) -> Option<String> {
    listen();
    CAUGHT.set(Some(None));
    let end = catch_unwind(AssertUnwindSafe(work));
    let first = CAUGHT.take().flatten();
    first.or_else(|| end.is_err().then(|| "without a word".to_owned()))
}
