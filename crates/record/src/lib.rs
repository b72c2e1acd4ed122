//! verbatim-record
