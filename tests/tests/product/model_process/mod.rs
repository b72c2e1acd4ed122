//! `verbatim` tests `verbatimd model`, a device that enforces its M_Key and outlives its tester. The tester may end at
//! any time. The next run must find and restore the original state, even if the device is locked.

mod device;
mod ends;
mod pace;
mod proxy;
