//! verbatim-tester
