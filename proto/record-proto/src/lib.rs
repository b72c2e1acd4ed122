//! verbatim-record-proto
