//! verbatim-catalog
