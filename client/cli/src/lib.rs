//! verbatim
