//! `verbatim` against `verbatimd model`: a device that enforces its M_Key and outlives its tester. Whenever the tester
//! ends, the next run finds the device locked or not, and leaves it as the first one found it.

mod device;
mod ends;
mod proxy;
