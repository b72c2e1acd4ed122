//! verbatim-daemon
