//! verbatim-tests
