//! verbatim-sim
